"""A table of functions: signature → implementation.

A signature is ``name(type,type)`` as in ``pg_proc``, where it is unique: ``int4gt(int4,int4)``,
``textlike(text,text)``, ``array_eq(anyarray,anyarray)``. An operator stands under the function
that implements it. If a filter uses a function that is not in the table, the filter is refused with
an error that names the function.

Each module of this package has a table of its own, :data:`FUNCTIONS`, and
:mod:`subscriber.filters.functions` puts them together.

There are two ways to write an implementation::

    @FUNCTIONS.vectorised("int4gt(int4,int4)")            whole columns: the arguments are Arrow arrays and scalars, the result is an array or a scalar,
    def greater(left, right):                   which is null where any argument is null
        return pc.greater(left, right)

    @FUNCTIONS.elementwise("date_part(text,interval)")    one row at a time: the arguments are Python values (see forms); a strict function
    def date_part(field, value):                is not called with None
        return …

The vectorised way is for the functions that filters use often. All others are elementwise, because
an exact result is more important than speed.

Some functions depend on the value of an argument that is constant in the filter. For example, a
regular expression is parsed only once, it may have no exact counterpart here, and only some regular
expressions depend on the collation. Such an implementation has ``specialise``. Code that validates
or compiles a call asks :meth:`Implementation.for_constants` for the implementation of that call,
and uses only the result.

*Rejected:* evaluating filters in SQL, in a database that is available. SQLite and DuckDB do not
evaluate as PostgreSQL does, and a PostgreSQL server is not always available.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Context:
    """The properties of a call that a function may need.

    It is the first argument of functions that are added with ``context``.

    Attributes:
        argument_types: the OIDs of the arguments' types.
        result_type: the OID of the result's type.
        server_version: the publisher's version, as libpq reports it; some functions differ between
            versions.
    """

    argument_types: tuple[int, ...]
    result_type: int
    server_version: int = 180000


@dataclass(frozen=True, slots=True)
class Implementation:
    """The subscriber's implementation of a PostgreSQL function.

    Attributes:
        signature: the signature of PostgreSQL's function.
        function: the Python function.
        vectorised: the function takes whole columns.
        strict: the function is not called for a NULL argument; the result is NULL then.
        raises: the function may raise an error for some values, so it is called only for rows that
            need its result (the second half of ``a <> 0 AND 1/a > 2``).
        context: the first argument of the function is a :class:`Context`.
        bytewise: the result is PostgreSQL's only under a collation that compares bytes and knows
            only the case of ASCII letters ("C").
        specialise: gives the implementation for a call with these constants; None if constants make
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
        """The implementation of a call whose arguments at these positions are constants.

        The constants are those after constant folding; None is NULL. The implementation takes all
        arguments, including the constants.

        Raises:
            NotSupportedError: the call cannot be computed exactly with these constants, or only if
                more arguments are constants.
            RowFilterError: the error that PostgreSQL raises for a constant, such as an invalid
                regular expression.
        """
        return self if self.specialise is None else self.specialise(self, constants)


Specialise = Callable[[Implementation, Mapping[int, Any]], Implementation]
"""Takes the implementation of the table and the constants by position. Gives the implementation
that is used for this call.
"""


class FunctionTable(Mapping[str, Implementation]):
    """Implementations by signature: those of one module, or those of several tables together.

    A signature stands in a table once; a second one is an error of the program.
    """

    def __init__(self, *tables: FunctionTable) -> None:
        self._implementations: dict[str, Implementation] = {}
        for table in tables:
            for implementation in table.values():
                self._add(implementation)

    def __getitem__(self, signature: str) -> Implementation:
        return self._implementations[signature]

    def __iter__(self) -> Iterator[str]:
        return iter(self._implementations)

    def __len__(self) -> int:
        return len(self._implementations)

    def vectorised(
        self, *signatures: str, raises: bool = False, bytewise: bool = False, specialise: Specialise | None = None
    ) -> Callable[[_Function], _Function]:
        """Add a function over columns under these signatures."""

        def add(function: _Function) -> _Function:
            for signature in signatures:
                self._add(Implementation(signature, function, True, True, raises, False, bytewise, specialise))
            return function

        return add

    def elementwise(
        self,
        *signatures: str,
        strict: bool = True,
        raises: bool = True,
        context: bool = False,
        bytewise: bool = False,
        specialise: Specialise | None = None,
    ) -> Callable[[_Function], _Function]:
        """Add a function over single values under these signatures."""

        def add(function: _Function) -> _Function:
            for signature in signatures:
                self._add(Implementation(signature, function, False, strict, raises, context, bytewise, specialise))
            return function

        return add

    def _add(self, implementation: Implementation) -> None:
        if implementation.signature in self._implementations:
            raise AssertionError(f"{implementation.signature} has two implementations")
        self._implementations[implementation.signature] = implementation
