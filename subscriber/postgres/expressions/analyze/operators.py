"""Makes calls of operators from analyzed operands (``parse_oper.c``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.candidates import find_operator, find_prefix_operator
from subscriber.postgres.expressions.analyze.coerce import Coercions
from subscriber.postgres.expressions.analyze.polymorphic import POLYMORPHIC, enforce_generic_types
from subscriber.postgres.expressions.analyze.typeinfo import BOOL, UNKNOWN, Schemas
from subscriber.postgres.expressions.builtin_catalog import Operator


class Operators:
    def __init__(self, coercions: Coercions, schemas: Schemas) -> None:
        self.coercions = coercions
        self.catalog = coercions.catalog
        self.types = coercions.types
        self._schemas = schemas

    def call(self, names: tuple[str, ...], left: tree.Expression | None, right: tree.Expression) -> tree.Call:
        """``make_op``; without a left operand it is a prefix operator."""
        self._schemas.of(names)
        if left is None:
            operator = find_prefix_operator(self.coercions, names, right.type_oid)
            arguments, declared = [right], [operator.right]
        else:
            operator = find_operator(self.coercions, names, left.type_oid, right.type_oid)
            arguments, declared = [left, right], [operator.left, operator.right]
        actual = [one.type_oid for one in arguments]
        declared, result = enforce_generic_types(self.coercions, actual, declared, operator.result)
        made = self.coercions.converted(arguments, declared)
        function = self.catalog.functions[operator.function]
        if function.returns_set:
            raise UsageError("set-returning functions are not allowed in WHERE", sqlstate="0A000")
        return tree.Call(result, self.types.collation(result), self.catalog.signature(function), made, _name(operator))

    def array_call(
        self, names: tuple[str, ...], left: tree.Expression, right: tree.Expression, use_or: bool
    ) -> tree.Expression:
        """``make_scalar_array_op``: ``operator ANY (array)`` or ``operator ALL (array)``."""
        element = UNKNOWN if right.type_oid == UNKNOWN else self.types.base_element(right.type_oid)
        if not element:
            raise UsageError("op ANY/ALL (array) requires array on right side", sqlstate="42809")
        self._schemas.of(names)
        operator = find_operator(self.coercions, names, left.type_oid, element)
        declared, result = enforce_generic_types(
            self.coercions, [left.type_oid, element], [operator.left, operator.right], operator.result
        )
        if result != BOOL:
            raise UsageError("op ANY/ALL (array) requires operator to yield boolean", sqlstate="42809")
        if declared[1] in POLYMORPHIC:
            array = right.type_oid
        else:
            array = self.types.array(declared[1])
            if not array:
                name = self.types.name(declared[1])
                raise UsageError(f"could not find array type for data type {name}", sqlstate="42704")
        function = self.catalog.functions[operator.function]
        arguments = self.coercions.converted([left, right], [declared[0], array])
        name = _name(operator)
        return tree.ScalarArrayOpExpr(BOOL, 0, self.catalog.signature(function), arguments, name, use_or=use_or)

    def distinct(self, left: tree.Expression, right: tree.Expression) -> tree.Expression:
        """``make_distinct_op``."""
        made = self.call(("=",), left, right)
        if made.type_oid != BOOL:
            raise UsageError("IS DISTINCT FROM requires = operator to yield boolean", sqlstate="42804")
        return tree.DistinctExpr(BOOL, 0, made.function, made.arguments, made.operator)


def _name(operator: Operator) -> str:
    return operator.name if operator.schema == "pg_catalog" else f"{operator.schema}.{operator.name}"


_LESS, _EQUAL, _NOT_EQUAL = 1, 3, 6
_KINDS: Final[dict[int, Literal["<", "<=", ">", ">="]]] = {1: "<", 2: "<=", 4: ">=", 5: ">"}
_ARRAY: Final = 2277
_CLASS_OF_KIND: Final = {"r": 3831, "m": 4537, "e": 3500, "c": 2249}
"""The types anyrange, anymultirange, anyenum and record, whose classes serve all their kind."""


class RowOperations:
    """Makes comparisons of rows from the operators of their columns."""

    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self._catalog = operators.catalog
        self._types = operators.types

    def comparison(
        self, names: tuple[str, ...], left: Sequence[tree.Expression], right: Sequence[tree.Expression]
    ) -> tree.Expression:
        """``make_row_comparison_op``: ``=`` and ``<>`` are single comparisons under AND and OR."""
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
        families = [self._catalog.interpretations(self._operator(call)) for call in calls]
        strategies = set.intersection(*({strategy for _, strategy in found} for found in families))
        if not strategies:
            raise NotSupportedError(
                f"could not determine interpretation of row comparison operator {names[-1]}",
                hint="Row comparison operators must be associated with btree operator families.",
            )
        strategy = min(strategies)
        if strategy in (_EQUAL, _NOT_EQUAL):
            return tree.BoolExpr(BOOL, 0, "and" if strategy == _EQUAL else "or", tuple(calls))
        return tree.RowCompareExpr(
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
        """``make_row_distinct_op``."""
        if len(left) != len(right):
            raise UsageError("unequal number of entries in row expressions", sqlstate="42601")
        result: tree.Expression | None = None
        for one, other in zip(left, right, strict=True):
            made = self._operators.distinct(one, other)
            result = made if result is None else tree.BoolExpr(BOOL, 0, "or", (result, made))
        return result or tree.Const(BOOL, 0, "f")

    def less(self, oid: int) -> str:
        """``GetDefaultOpClass``: the signature of ``<``; "" where the type has no such class."""
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
        """``IsBinaryCoercible``: coercible to these types, which have a default operator class."""
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

    def _operator(self, call: tree.Call) -> int:
        catalog = self._catalog
        schema, _, name = (call.operator or "").rpartition(".")
        function = catalog.function_of(call.function)
        found = catalog.find_operators(schema or "pg_catalog", name, prefix=False)
        return next(one.oid for one in found if one.function == function.oid)

    def _equal(self, call: tree.Call, families: set[tuple[int, int]], strategy: int) -> str:
        """The signature of the ``=`` in the operator family of a call's operator."""
        catalog = self._catalog
        operator = catalog.operators[self._operator(call)]
        for family, _ in sorted(one for one in families if one[1] == strategy):
            found = catalog.family_operator(family, _EQUAL, operator.left, operator.right)
            if found is not None:
                return catalog.signature(catalog.functions[found.function])
        raise NotSupportedError(f"could not determine the equality of row comparison operator {operator.name}")
