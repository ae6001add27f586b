"""Analyzes comparisons of rows (``make_row_comparison_op``), and finds the ``<`` of a type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from subscriber.errors import NotSupportedError, UsageError
from subscriber.filters.analyze import tree
from subscriber.filters.analyze.operators import Operators
from subscriber.filters.analyze.typeinfo import BOOL

_LESS, _EQUAL, _NOT_EQUAL = 1, 3, 6
_KINDS: Final[dict[int, Literal["<", "<=", ">", ">="]]] = {1: "<", 2: "<=", 4: ">=", 5: ">"}
_ARRAY: Final = 2277
_CLASS_OF_KIND: Final = {"r": 3831, "m": 4537, "e": 3500, "c": 2249}
"""The types anyrange, anymultirange, anyenum and record. Their operator classes serve all types of
their kind.
"""


class RowOperations:
    """Makes comparisons of rows from the operators of their columns."""

    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self._catalog = operators.catalog
        self._types = operators.types

    def comparison(
        self, names: tuple[str, ...], left: Sequence[tree.Expression], right: Sequence[tree.Expression]
    ) -> tree.Expression:
        """Make a comparison of two rows (``make_row_comparison_op``).

        ``=`` and ``<>`` become single comparisons that AND and OR combine.

        Raises:
            UsageError: 42601, the rows differ in length; 42804, an operator does not return
                boolean; also the errors of :meth:`Operators.call`.
            NotSupportedError: 0A000, the rows are empty, or an operator has no btree order.
        """
        if len(left) != len(right):
            raise UsageError("unequal number of entries in row expressions", sqlstate="42601")
        if not left:
            raise NotSupportedError("cannot compare rows of zero length")
        calls = [self._operators.call(names, one, other) for one, other in zip(left, right, strict=True)]
        for call in calls:
            if call.type_oid != BOOL:
                name = self._types.name(call.type_oid)
                message = f"row comparison operator must yield type boolean, not type {name}"
                raise UsageError(message, sqlstate="42804")
        if len(calls) == 1:
            return calls[0]
        families = [self._families(call) for call in calls]
        strategies = set.intersection(*({strategy for _, strategy in found} for found in families))
        if not strategies:
            raise NotSupportedError(
                f"could not determine interpretation of row comparison operator {names[-1]}",
                hint="Row comparison operators must be associated with btree operator families.",
            )
        strategy = min(strategies)
        if strategy in (_EQUAL, _NOT_EQUAL):
            return tree.Boolean(BOOL, 0, "and" if strategy == _EQUAL else "or", tuple(calls))
        return tree.RowComparison(
            BOOL,
            0,
            _KINDS[strategy],
            tuple(call.function for call in calls),
            tuple(self._equal(call, found, strategy) for call, found in zip(calls, families, strict=True)),
            tuple(call.arguments[0] for call in calls),
            tuple(call.arguments[1] for call in calls),
            (0,) * len(calls),
        )

    def distinct(self, left: Sequence[tree.Expression], right: Sequence[tree.Expression]) -> tree.Expression:
        """Make IS DISTINCT FROM of two rows (``make_row_distinct_op``).

        Raises:
            UsageError: 42601, the rows differ in length; also the errors of
                :meth:`Operators.distinct`.
        """
        if len(left) != len(right):
            raise UsageError("unequal number of entries in row expressions", sqlstate="42601")
        result: tree.Expression | None = None
        for one, other in zip(left, right, strict=True):
            made = self._operators.distinct(one, other)
            result = made if result is None else tree.Boolean(BOOL, 0, "or", (result, made))
        return result or tree.Constant(BOOL, 0, "f")

    def less(self, oid: int) -> str:
        """Return the signature of ``<`` in the default btree operator class of a type.

        The model is ``GetDefaultOpClass``.

        Returns:
            An empty string if the type has no such class.
        """
        catalog, types = self._catalog, self._types
        base = types.base(oid)
        stand_ins = [base] if catalog.default_family(base) is not None else self._like(base)
        preferred = [one for one in stand_ins if types.get(one).preferred]
        for one in preferred[:1] if len(preferred) == 1 else stand_ins[:1] if len(stand_ins) == 1 else []:
            operator = catalog.family_operator(catalog.default_family(one) or 0, _LESS, one, one)
            if operator is not None:
                return catalog.signature(catalog.functions[operator.function])
        return ""

    def _like(self, oid: int) -> list[int]:
        """Return the types that have a default operator class and that values of this type are
        binary coercible to.

        The model is ``IsBinaryCoercible``.
        """
        catalog = self._catalog
        found = self._types.get(oid)
        if found.element:
            return [_ARRAY]
        if found.kind in _CLASS_OF_KIND:
            return [_CLASS_OF_KIND[found.kind]]
        return [
            cast.target
            for cast in catalog.casts.values()
            if cast.source == oid
            and (cast.method, cast.context) == ("b", "i")
            and catalog.default_family(cast.target) is not None
        ]

    def _families(self, call: tree.Call) -> set[tuple[int, int]]:
        return self._catalog.interpretations(self._operator(call))

    def _operator(self, call: tree.Call) -> int:
        """Return the OID of the operator of a call."""
        catalog = self._catalog
        schema, _, name = (call.operator or "").rpartition(".")
        function = catalog.function_of(call.function)
        found = catalog.find_operators(schema or "pg_catalog", name, prefix=False)
        return next(one.oid for one in found if one.function == function.oid)

    def _equal(self, call: tree.Call, families: set[tuple[int, int]], strategy: int) -> str:
        """Return the signature of the ``=`` in the operator family of a call's operator.

        Raises:
            NotSupportedError: 0A000, the family has no ``=`` for these types.
        """
        catalog = self._catalog
        operator = catalog.operators[self._operator(call)]
        for family, _ in sorted(one for one in families if one[1] == strategy):
            found = catalog.family_operator(family, _EQUAL, operator.left, operator.right)
            if found is not None:
                return catalog.signature(catalog.functions[found.function])
        raise NotSupportedError(f"could not determine the equality of row comparison operator {operator.name}")
