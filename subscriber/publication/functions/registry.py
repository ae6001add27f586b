"""Which function is computed how: signature → implementation.

A signature is ``name(type,type)`` as ``pg_proc`` has it, which is unique there: ``int4gt(int4,int4)``, ``textlike(text,text)``,
``array_eq(anyarray,anyarray)``. An operator is the function behind it. What is not here is refused by name when a filter is given.

Two ways to write one::

    @vectorised("int4gt(int4,int4)")            columns at once: Arrow arrays and scalars in, an Arrow array or scalar out, null where
    def greater(left, right):                   any argument is null
        return pc.greater(left, right)

    @elementwise("date_part(text,interval)")    one row at a time, on Python values (see forms); strict functions see no None
    def date_part(field, value):
        return …

The vectorised form is for what filters commonly do, the other one for all the rest: exact comes first.

*Rejected:* evaluating in SQL, in a database that is near. SQLite and DuckDB are not PostgreSQL, and a PostgreSQL is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Context:
    """What a function may want to know of its call; it is the first argument of those that are registered with ``context``.

    Attributes:
        argument_types: OIDs.
        result_type: OID.
    """

    argument_types: tuple[int, ...]
    result_type: int


@dataclass(frozen=True, slots=True)
class Implementation:
    """A function of ours for one of PostgreSQL's.

    Attributes:
        signature: of PostgreSQL's.
        function: ours.
        vectorised: it takes columns.
        strict: it is not asked where an argument is NULL; the result is NULL there.
        raises: it may raise for some values, so it is asked only for rows that need it (the second half of ``a <> 0 AND 1/a > 2``).
        context: its first argument is a :class:`Context`.
        bytewise: it is PostgreSQL's only under a collation that compares by bytes and knows the case of ASCII letters alone ("C").
    """

    signature: str
    function: Callable[..., Any]
    vectorised: bool
    strict: bool
    raises: bool
    context: bool
    bytewise: bool


_IMPLEMENTATIONS: dict[str, Implementation] = {}


def vectorised(*signatures: str, raises: bool = False, bytewise: bool = False) -> Callable[[_Function], _Function]:
    """Register a function over columns for these signatures."""
    return _register(signatures, vectorised=True, strict=True, raises=raises, context=False, bytewise=bytewise)


def elementwise(
    *signatures: str, strict: bool = True, raises: bool = True, context: bool = False, bytewise: bool = False
) -> Callable[[_Function], _Function]:
    """Register a function over single values for these signatures."""
    return _register(signatures, vectorised=False, strict=strict, raises=raises, context=context, bytewise=bytewise)


def _register(
    signatures: tuple[str, ...], *, vectorised: bool, strict: bool, raises: bool, context: bool, bytewise: bool
) -> Callable[[_Function], _Function]:
    def decorate(function: _Function) -> _Function:
        for signature in signatures:
            if signature in _IMPLEMENTATIONS:
                raise AssertionError(f"{signature} is registered twice")
            _IMPLEMENTATIONS[signature] = Implementation(
                signature, function, vectorised, strict, raises, context, bytewise
            )
        return function

    return decorate


def implementation_of(signature: str) -> Implementation | None:
    """The implementation of a signature; None where there is none."""
    return _IMPLEMENTATIONS.get(signature)


def implementations() -> dict[str, Implementation]:
    """All of them, by signature."""
    return dict(_IMPLEMENTATIONS)
