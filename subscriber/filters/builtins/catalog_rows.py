"""Rows of PostgreSQL's catalogs, with the columns that its parser looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

_FIRST_NORMAL_OID = 16384


@dataclass(frozen=True, slots=True)
class Type:
    """``pg_type``.

    Attributes:
        oid: its OID.
        schema: its schema.
        name: ``typname``.
        kind: ``typtype``: b(ase), c(omposite), d(omain), e(num), p(seudo), r(ange), m(ultirange).
        category: ``typcategory``.
        preferred: ``typispreferred``.
        element: of an array type, the type of its elements; 0 for others.
        array: the type of arrays of it; 0 for none.
        collation: ``typcollation``.
        base: of a domain, the type it is over.
        type_modifier: of a domain, that of its base type.
        subtype: of a range type.
        multirange: of a range type.
    """

    oid: int
    schema: str
    name: str
    kind: str
    category: str
    preferred: bool
    element: int
    array: int
    collation: int
    base: int
    type_modifier: int
    subtype: int
    multirange: int


@dataclass(frozen=True, slots=True)
class Operator:
    """``pg_operator``: one with its left type (0 for a prefix operator), right type, result,
    function and negator (OIDs).
    """

    oid: int
    schema: str
    name: str
    left: int
    right: int
    result: int
    function: int
    negator: int


@dataclass(frozen=True, slots=True)
class Function:
    """``pg_proc``.

    Attributes:
        oid: its OID.
        schema: its schema.
        name: ``proname``.
        arguments: the types of its input arguments.
        result: the type of its result.
        kind: f(unction), a(ggregate), w(indow), p(rocedure).
        volatility: i(mmutable), s(table), v(olatile).
        returns_set: ``proretset``.
        variadic: the element type of a VARIADIC array, 0 for none.
        default_count: how many of the last arguments have defaults.
        argument_names: where it has defaults; "" for one without a name.
        defaults: their expressions, as ``pg_get_expr`` writes them.
    """

    oid: int
    schema: str
    name: str
    arguments: tuple[int, ...]
    result: int
    kind: str
    volatility: str
    returns_set: bool
    variadic: int
    default_count: int
    argument_names: tuple[str, ...]
    defaults: str

    @property
    def is_built_in(self) -> bool:
        """Rule B25."""
        return self.oid < _FIRST_NORMAL_OID


@dataclass(frozen=True, slots=True)
class Cast:
    """``pg_cast``: from, to, by which function (0 for none), in which context (i, a, e), by which
    method (f, i, b).
    """

    source: int
    target: int
    function: int
    context: Literal["i", "a", "e"]
    method: Literal["f", "i", "b"]


@dataclass(frozen=True, slots=True)
class OperatorClass:
    """``pg_opclass``: the default one of btree for a type."""

    oid: int
    type: int
    family: int


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """``pg_amop``: an operator of a btree family with its strategy: 1 ``<``, 2 ``<=``, 3 ``=``, 4
    ``>=``, 5 ``>``.
    """

    oid: int
    family: int
    strategy: int
    left: int
    right: int
    operator: int


@dataclass(frozen=True, slots=True)
class Collation:
    """``pg_collation``."""

    oid: int
    schema: str
    name: str


_Row = TypeVar("_Row")
_Converter = Callable[[str], object]


def _flag(text: str) -> bool:
    return text == "1"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


_CONVERTERS: Final[dict[type, tuple[_Converter, ...]]] = {
    Type: (int, str, str, str, str, _flag, int, int, int, int, int, int, int),
    Operator: (int, str, str, int, int, int, int, int),
    Function: (int, str, str, _numbers, int, str, str, _flag, int, int, _names, str),
    Cast: (int, int, int, str, str),
    OperatorClass: (int, int, int),
    FamilyMember: (int, int, int, int, int, int),
    Collation: (int, str, str),
}


def read_row(kind: type[_Row], fields: list[str]) -> _Row:
    """A row from its fields as text."""
    return kind(*(convert(field) for convert, field in zip(_CONVERTERS[kind], fields, strict=True)))
