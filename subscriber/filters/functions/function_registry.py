"""Which function is computed how: signature → implementation.

A signature is ``name(type,type)`` as ``pg_proc`` has it, which is unique there:
``int4gt(int4,int4)``, ``textlike(text,text)``, ``array_eq(anyarray,anyarray)``. An operator is the
function behind it. What is not here is refused by name when a filter is given.

Two ways to write one::

    @vectorised("int4gt(int4,int4)")            columns at once: Arrow arrays and scalars in, an Arrow array or scalar out, null where
    def greater(left, right):                   any argument is null
        return pc.greater(left, right)

    @elementwise("date_part(text,interval)")    one row at a time, on Python values (see forms); strict functions see no None
    def date_part(field, value):
        return …

The vectorised form is for what filters commonly do, the other one for all the rest: exact comes
first.

Some functions depend on what an argument is when the filter is given: a regular expression is read
once, may be one that has no exact counterpart here, and only some of them go by the collation. Such
an implementation has ``specialise``; whoever validates or compiles a call asks
:meth:`Implementation.for_constants` for the implementation of this very call, and uses only that.

*Rejected:* evaluating in SQL, in a database that is near. SQLite and DuckDB are not PostgreSQL, and
a PostgreSQL is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Context:
    """What a function may want to know of its call; it is the first argument of those that are
    registered with ``context``.

    Attributes:
        argument_types: OIDs.
        result_type: OID.
        server_version: the publisher's, as libpq gives it: a few functions were changed.
    """

    argument_types: tuple[int, ...]
    result_type: int
    server_version: int = 180000


@dataclass(frozen=True, slots=True)
class Implementation:
    """A function of ours for one of PostgreSQL's.

    Attributes:
        signature: of PostgreSQL's.
        function: ours.
        vectorised: it takes columns.
        strict: it is not asked where an argument is NULL; the result is NULL there.
        raises: it may raise for some values, so it is asked only for rows that need it (the second
            half of ``a <> 0 AND 1/a > 2``).
        context: its first argument is a :class:`Context`.
        bytewise: it is PostgreSQL's only under a collation that compares by bytes and knows the
            case of ASCII letters alone ("C").
        specialise: gives the implementation for a call with these constants; None where they make
            no difference.
    """

    signature: str
    function: Callable[..., Any]
    vectorised: bool
    strict: bool
    raises: bool
    context: bool
    bytewise: bool
    specialise: Specialise | None = None

    def for_constants(self, constants: Mapping[int, Any]) -> Implementation:
        """The implementation of a call whose arguments at these positions are constants (after
        folding; None is NULL).

        It takes all arguments, the constants included.

        Raises:
            NotSupportedError: it cannot be computed exactly with these constants, or only where
                more arguments are constants.
            RowFilterError: PostgreSQL's error for a constant, such as a regular expression that is
                none.
        """
        return self if self.specialise is None else self.specialise(self, constants)


Specialise = Callable[[Implementation, Mapping[int, Any]], Implementation]
"""The registered implementation and the constants by position → what this very call is computed
with.
"""

_IMPLEMENTATIONS: dict[str, Implementation] = {}


def vectorised(
    *signatures: str, raises: bool = False, bytewise: bool = False, specialise: Specialise | None = None
) -> Callable[[_Function], _Function]:
    """Register a function over columns for these signatures."""
    return _register(
        signatures,
        vectorised=True,
        strict=True,
        raises=raises,
        context=False,
        bytewise=bytewise,
        specialise=specialise,
    )


def elementwise(
    *signatures: str,
    strict: bool = True,
    raises: bool = True,
    context: bool = False,
    bytewise: bool = False,
    specialise: Specialise | None = None,
) -> Callable[[_Function], _Function]:
    """Register a function over single values for these signatures."""
    return _register(
        signatures,
        vectorised=False,
        strict=strict,
        raises=raises,
        context=context,
        bytewise=bytewise,
        specialise=specialise,
    )


def _register(
    signatures: tuple[str, ...],
    *,
    vectorised: bool,
    strict: bool,
    raises: bool,
    context: bool,
    bytewise: bool,
    specialise: Specialise | None,
) -> Callable[[_Function], _Function]:
    def decorate(function: _Function) -> _Function:
        for signature in signatures:
            if signature in _IMPLEMENTATIONS:
                raise AssertionError(f"{signature} is registered twice")
            _IMPLEMENTATIONS[signature] = Implementation(
                signature, function, vectorised, strict, raises, context, bytewise, specialise
            )
        return function

    return decorate


def implementation_of(signature: str) -> Implementation | None:
    """The implementation of a signature; None where there is none."""
    return _IMPLEMENTATIONS.get(signature)


def implementations() -> dict[str, Implementation]:
    """All of them, by signature."""
    return dict(_IMPLEMENTATIONS)
