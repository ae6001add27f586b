"""Defines the rows of PostgreSQL's catalogs, with the columns that the parser reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

_FIRST_NORMAL_OID = 16384


@dataclass(frozen=True, slots=True)
class Type:
    """A type (``pg_type``).

    Attributes:
        oid: its OID.
        schema: its schema.
        name: ``typname``.
        kind: ``typtype``: b(ase), c(omposite), d(omain), e(num), p(seudo), r(ange), m(ultirange).
        category: ``typcategory``.
        preferred: ``typispreferred``.
        element: for an array type, the type of its elements; 0 for other types.
        array: the array type of this type; 0 for none.
        collation: ``typcollation``.
        base: for a domain, its base type.
        type_modifier: for a domain, the type modifier of its base type.
        subtype: for a range type, the type of its bounds.
        multirange: for a range type, its multirange type.
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
    """An operator (``pg_operator``), with the OIDs of its types, its function and its negator.

    The left type is 0 for a prefix operator.
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
    """A function (``pg_proc``).

    Attributes:
        oid: its OID.
        schema: its schema.
        name: ``proname``.
        arguments: the types of its input arguments.
        result: the type of its result.
        kind: f(unction), a(ggregate), w(indow), p(rocedure).
        volatility: i(mmutable), s(table), v(olatile).
        returns_set: ``proretset``.
        variadic: the element type of a VARIADIC array; 0 for none.
        default_count: the number of last arguments that have defaults.
        argument_names: the names of the arguments, only for a function with defaults; "" for an
            argument without a name.
        defaults: the default expressions, as ``pg_get_expr`` prints them.
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
        """Whether the function is built in and not created by a user (rule B25)."""
        return self.oid < _FIRST_NORMAL_OID


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast (``pg_cast``): source type, target type, function (0 for none), context and method.

    The context is i(mplicit), a(ssignment) or e(xplicit). The method is f(unction), i(nput and
    output functions) or b(inary coercible).
    """

    source: int
    target: int
    function: int
    context: Literal["i", "a", "e"]
    method: Literal["f", "i", "b"]


@dataclass(frozen=True, slots=True)
class OperatorClass:
    """The default btree operator class of a type (``pg_opclass``)."""

    oid: int
    type: int
    family: int


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """An operator of a btree operator family with its strategy (``pg_amop``).

    The strategies are 1 ``<``, 2 ``<=``, 3 ``=``, 4 ``>=`` and 5 ``>``.
    """

    oid: int
    family: int
    strategy: int
    left: int
    right: int
    operator: int


@dataclass(frozen=True, slots=True)
class Collation:
    """A collation (``pg_collation``)."""

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
    """Return a row, converted from its fields as text."""
    return kind(*(convert(field) for convert, field in zip(_CONVERTERS[kind], fields, strict=True)))
