"""Turns the nodes of a simplified expression into operations over rows (``ExecInitExpr`` and
``ExecInterpExpr``, but an operation computes whole columns).

PostgreSQL evaluates row by row and from left to right, and stops when the result is certain. So ``a
<> 0 AND 10 / a > 1`` never divides by zero. Here, an operand that may raise an error is evaluated
only for the rows that are still undecided, any other operand for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.evaluate import row_values
from subscriber.postgres.expressions.evaluate.calls import Apply, Comparison, decided, function_for, of_type
from subscriber.postgres.schema.publisher_tables import PublisherCollation
from subscriber.postgres.types.oids import ELEMENT_TYPES

PublisherCollations: TypeAlias = tuple[PublisherCollation, ...]
"""Collations of the publisher that do not compare by bytes."""
Evaluate: TypeAlias = Callable[[row_values.FrameRows], row_values.Value]

RECORD: Final = 2249
"""The type OID of a row."""
_BOOLEAN: Final = pa.bool_()
_INT4: Final = 23


@dataclass(frozen=True, slots=True)
class FieldTest(tree.NullTest):
    """IS [NOT] NULL of one field of a row. A field that is itself a row is not NULL."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A node that is ready to be evaluated, and whether that may raise an error for some values."""

    evaluate: Evaluate
    raises: bool


@dataclass(frozen=True, slots=True)
class _Scope:
    """What surrounds a node; ``operand`` is the key of the enclosing CASE's operand in the rows."""

    server_version: int
    collations: PublisherCollations = ()
    operand: object = None

    def function(
        self, signature: str, arguments: Sequence[tree.Expression], result_type: int, collation: int
    ) -> tuple[Apply, bool]:
        """The function under this collation, and whether it may raise an error."""
        found = next((one for one in self.collations if one.oid == collation), None)
        return function_for(signature, arguments, result_type, self.server_version, found)


def operation(node: tree.Expression, server_version: int, collations: PublisherCollations = ()) -> Operation:
    """The operation of a simplified node, in which constants are :class:`~tree.ComputedConst`."""
    return _operation(node, _Scope(server_version, collations))


def _operation(node: tree.Expression, scope: _Scope) -> Operation:
    match node:
        case tree.ComputedConst():
            same = row_values.ScalarValue(node.value)
            return Operation(lambda _: same, False)
        case tree.Var():
            return _column(node)
        case tree.CaseTestExpr():
            slot = scope.operand
            return Operation(lambda rows: rows.kept(slot), False)
        case tree.DistinctExpr():
            return _distinct(node, scope)
        case tree.NullIfExpr():
            return _null_if(node, scope)
        case tree.ScalarArrayOpExpr():
            return _array_comparison(node, scope)
        case tree.Call():
            return _call(node, scope)
        case tree.BoolExpr(kind="not"):
            return _not(node, scope)
        case tree.BoolExpr():
            return _and_or(node, scope)
        case tree.RelabelType():
            return _relabel(node, scope)
        case tree.CollateExpr():
            return _operation(node.argument, scope)
        case tree.CaseExpr():
            return _case(node, scope)
        case tree.CoalesceExpr():
            return _coalesce(node, scope)
        case tree.MinMaxExpr():
            return _min_max(node, scope)
        case tree.NullTest():
            return _null_test(node, scope)
        case tree.BooleanTest():
            return _boolean_test(node, scope)
        case tree.RowCompareExpr():
            return _row_comparison(node, scope)
        case tree.RowExpr():
            return _row(node, scope)
        case tree.ArrayExpr():
            return _array(node, scope)
    raise NotSupportedError(f"a row filter with {type(node).__name__} cannot be evaluated by the subscriber")


def _operations(nodes: Sequence[tree.Expression], scope: _Scope) -> tuple[Operation, ...]:
    return tuple(_operation(node, scope) for node in nodes)


def _any_raises(operations: Sequence[Operation]) -> bool:
    return any(one.raises for one in operations)


def _column(node: tree.Var) -> Operation:
    row_values.required_form(node.type_oid)
    return Operation(lambda rows: rows.column(node.name, node.type_oid), False)


# Functions ----------------------------------------------------------------------------------------


def _call(node: tree.Call, scope: _Scope) -> Operation:
    arguments = _operations(node.arguments, scope)
    function, raises = scope.function(node.function, node.arguments, node.type_oid, node.input_collation)
    return Operation(
        lambda rows: function([one.evaluate(rows) for one in arguments], rows.count), raises or _any_raises(arguments)
    )


def _comparison(node: tree.Call, scope: _Scope) -> tuple[tuple[Operation, ...], Apply, bool]:
    """Arguments and boolean equality of DISTINCT or NULLIF, and whether they may raise."""
    arguments = _operations(node.arguments, scope)
    function, raises = scope.function(node.function, node.arguments, tree.BOOL, node.input_collation)
    return arguments, function, raises or _any_raises(arguments)


def _distinct(node: tree.DistinctExpr, scope: _Scope) -> Operation:
    (left, right), equals, raises = _comparison(node, scope)

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        values = [left.evaluate(rows), right.evaluate(rows)]
        equal = row_values.array_from(equals(values, rows.count), rows.count, _BOOLEAN)
        one_null = pc.xor(*(row_values.nulls(value, rows.count) for value in values))
        return pc.if_else(equal.is_null(), one_null, pc.invert(equal))

    return Operation(evaluate, raises)


def _null_if(node: tree.NullIfExpr, scope: _Scope) -> Operation:
    (left, right), equals, raises = _comparison(node, scope)
    arrow_type = row_values.arrow_of(node.type_oid)

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        values = [left.evaluate(rows), right.evaluate(rows)]
        equal = pc.fill_null(row_values.array_from(equals(values, rows.count), rows.count, _BOOLEAN), False)
        return _chosen(equal, row_values.NULL, values[0], rows.count, arrow_type)

    return Operation(evaluate, raises)


def _chosen(
    condition: pa.BooleanArray,
    when_true: row_values.Value,
    otherwise: row_values.Value,
    count: int,
    arrow_type: pa.DataType | None,
) -> row_values.Value:
    """One of two values for each row. The condition must not contain nulls."""
    if arrow_type is None:
        rows = zip(
            condition.to_pylist(), row_values.listed(when_true, count), row_values.listed(otherwise, count), strict=True
        )
        return [one if chosen else other for chosen, one, other in rows]
    return pc.if_else(
        condition,
        row_values.array_from(when_true, count, arrow_type),
        row_values.array_from(otherwise, count, arrow_type),
    )


# Logic --------------------------------------------------------------------------------------------


def _not(node: tree.BoolExpr, scope: _Scope) -> Operation:
    (argument,) = _operations(node.arguments, scope)

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        value = argument.evaluate(rows)
        if isinstance(value, row_values.ScalarValue):
            return row_values.NULL if value.value is None else row_values.ScalarValue(not value.value)
        return pc.invert(value)

    return Operation(evaluate, argument.raises)


def _and_or(node: tree.BoolExpr, scope: _Scope) -> Operation:
    arguments = _operations(node.arguments, scope)
    is_or = node.kind == "or"

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        return decided(rows, [one.evaluate for one in arguments], [one.raises for one in arguments], is_or=is_or)

    return Operation(evaluate, _any_raises(arguments))


def _boolean_test(node: tree.BooleanTest, scope: _Scope) -> Operation:
    argument = _operation(node.argument, scope)

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        value = row_values.array_from(argument.evaluate(rows), rows.count, _BOOLEAN)
        if node.value is None:
            result = value.is_null()
        else:
            result = pc.fill_null(value if node.value else pc.invert(value), False)
        return pc.invert(result) if node.negated else result

    return Operation(evaluate, argument.raises)


def _null_test(node: tree.NullTest, scope: _Scope) -> Operation:
    argument = _operation(node.argument, scope)
    is_row = node.argument.type_oid == RECORD and not isinstance(node, FieldTest)

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        value = argument.evaluate(rows)
        if is_row:
            tested = [_row_is(row, is_null=node.is_null) for row in row_values.listed(value, rows.count)]
            return pa.array(tested, _BOOLEAN)
        result = row_values.nulls(value, rows.count)
        return result if node.is_null else pc.invert(result)

    return Operation(evaluate, argument.raises)


def _row_is(row: tuple[Any, ...] | None, *, is_null: bool) -> bool:
    """``ExecEvalRowNullInt``: all fields are NULL, or none is. A row within it is not NULL."""
    if row is None:
        return is_null
    return all((field is None) == is_null for field in row)


# Choices ------------------------------------------------------------------------------------------


def _case(node: tree.CaseExpr, scope: _Scope) -> Operation:
    first = None if node.operand is None else _operation(node.operand, scope)
    slot = scope.operand if first is None else object()
    within = replace(scope, operand=slot)
    whens = [(_operation(condition, within), _operation(result, scope)) for condition, result in node.whens]
    default = _operation(node.default, scope)
    arrow_type = row_values.arrow_of(node.type_oid)

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        if first is not None:
            rows.keep(slot, first.evaluate(rows))
        pieces = row_values.Pieces(rows, arrow_type)
        for condition, result in whens:
            if not pieces.rest.count:
                break
            met = pc.fill_null(
                row_values.array_from(condition.evaluate(pieces.rest), pieces.rest.count, _BOOLEAN), False
            )
            chosen = pieces.rest.where(met)
            if chosen.count:
                pieces.give(met, result.evaluate(chosen))
        pieces.give_rest(default.evaluate)
        return pieces.whole()

    parts = [*(one for when in whens for one in when), default, *([] if first is None else [first])]
    return Operation(evaluate, _any_raises(parts))


def _coalesce(node: tree.CoalesceExpr, scope: _Scope) -> Operation:
    arguments = _operations(node.arguments, scope)
    arrow_type = row_values.arrow_of(node.type_oid)

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        pieces = row_values.Pieces(rows, arrow_type)
        for argument in arguments:
            if not pieces.rest.count:
                break
            value = argument.evaluate(pieces.rest)
            present = pc.invert(row_values.nulls(value, pieces.rest.count))
            pieces.give(present, row_values.filtered(value, present))
        return pieces.whole()

    return Operation(evaluate, _any_raises(arguments))


def _min_max(node: tree.MinMaxExpr, scope: _Scope) -> Operation:
    arguments = _operations(node.arguments, scope)
    less, raises = scope.function(node.less, [of_type(node.type_oid)] * 2, tree.BOOL, node.input_collation)
    arrow_type = row_values.arrow_of(node.type_oid)

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        best, *others = (one.evaluate(rows) for one in arguments)
        for other in others:
            pair = [best, other] if node.greatest else [other, best]
            better = row_values.array_from(less(pair, rows.count), rows.count, _BOOLEAN)
            better = pc.if_else(better.is_null(), row_values.nulls(best, rows.count), better)
            best = _chosen(better, other, best, rows.count, arrow_type)
        return best

    return Operation(evaluate, raises or _any_raises(arguments))


# Rows and arrays ----------------------------------------------------------------------------------


def _row(node: tree.RowExpr, scope: _Scope) -> Operation:
    fields = _operations(node.fields, scope)

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        if not fields:
            return row_values.ScalarValue(())
        return list(zip(*(row_values.listed(one.evaluate(rows), rows.count) for one in fields), strict=True))

    return Operation(evaluate, _any_raises(fields))


def _row_comparison(node: tree.RowCompareExpr, scope: _Scope) -> Operation:
    sides = list(zip(node.left, node.right, strict=True))
    pairs = [_operations(pair, scope) for pair in sides]
    kinds = [
        scope.function(name, pair, tree.BOOL, collation)
        for name, pair, collation in zip(node.functions, sides, node.input_collations, strict=True)
    ]
    equals = [
        scope.function(name, pair, tree.BOOL, collation)
        for name, pair, collation in zip(node.equals, sides, node.input_collations, strict=True)
    ]

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        pieces = row_values.Pieces(rows, _BOOLEAN)
        for pair, (compare, _), (equal, _) in zip(pairs, kinds, equals, strict=True):
            count = pieces.rest.count
            if not count:
                break
            values = [one.evaluate(pieces.rest) for one in pair]
            # A comparison that is NULL decides the row, as a difference does. If the columns are
            # equal, the next columns decide.
            differs = pc.fill_null(pc.invert(row_values.array_from(equal(values, count), count, _BOOLEAN)), True)
            pieces.give(differs, row_values.filtered(compare(values, count), differs))
        pieces.give_rest(lambda _: row_values.ScalarValue("=" in node.kind))
        return pieces.whole()

    raises = any(may_raise for _, may_raise in (*kinds, *equals)) or any(_any_raises(pair) for pair in pairs)
    return Operation(evaluate, raises)


def _array(node: tree.ArrayExpr, scope: _Scope) -> Operation:
    elements = _operations(node.elements, scope)
    build = row_values.array_of_arrays if node.nested else row_values.array_of_elements

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        if not elements:
            return row_values.ScalarValue(build(()))
        return [
            build(row)
            for row in zip(*(row_values.listed(one.evaluate(rows), rows.count) for one in elements), strict=True)
        ]

    return Operation(evaluate, node.nested or _any_raises(elements))


def _array_comparison(node: tree.ScalarArrayOpExpr, scope: _Scope) -> Operation:
    left, right = node.arguments
    value = _operation(left, scope)
    comparison = Comparison(node.function, row_values.arrow_of(left.type_oid), node.use_or)
    nodes = elements_of(right)
    if nodes is not None:
        elements = _operations(nodes, scope)
        functions = [scope.function(node.function, [left, one], tree.BOOL, node.input_collation) for one in nodes]
        return Operation(
            lambda rows: comparison.with_each(
                rows, value.evaluate(rows), [one.evaluate(rows) for one in elements], functions
            ),
            value.raises or _any_raises(elements) or any(raises for _, raises in functions),
        )
    array = _operation(right, scope)
    element = of_type(ELEMENT_TYPES[right.type_oid])
    apply, raises = scope.function(node.function, [left, element], tree.BOOL, node.input_collation)

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        one, other = value.evaluate(rows), array.evaluate(rows)
        if raises:
            return comparison.with_arrays_one_by_one(rows, one, other, apply)
        return comparison.with_arrays(rows, one, other, row_values.arrow_of(element.type_oid), apply)

    return Operation(evaluate, raises or value.raises or array.raises)


def elements_of(array: tree.Expression) -> Sequence[tree.Expression] | None:
    """The elements of an array; None if the expression does not determine their number."""
    if isinstance(array, tree.ArrayExpr) and not array.nested:
        return array.elements
    if isinstance(array, tree.ComputedConst) and array.value is not None:
        type_oid = ELEMENT_TYPES[array.type_oid]
        return [tree.ComputedConst(type_oid, array.collation, element) for element in array.value.elements]
    return None


def _relabel(node: tree.RelabelType, scope: _Scope) -> Operation:
    argument = _operation(node.argument, scope)
    source, target = row_values.arrow_of(node.argument.type_oid), row_values.arrow_of(node.type_oid)
    if source is None or target is None or source == target:
        return argument

    def evaluate(rows: row_values.FrameRows) -> row_values.Value:
        # An oid is an unsigned integer of four bytes, which is stored here in a signed integer of
        # eight bytes. As an integer it has the same four bytes.
        numbers = row_values.array_from(argument.evaluate(rows), rows.count, source)
        return _reinterpreted(numbers, node.argument.type_oid)

    if {source, target} != {pa.int32(), pa.int64()}:
        raise NotSupportedError(
            f"a row filter that reinterprets {source} as {target} cannot be evaluated by the subscriber"
        )
    return Operation(evaluate, argument.raises)


def _reinterpreted(numbers: pa.Array, source: int) -> pa.Array:
    mask = row_values.nulls(numbers, len(numbers)).to_numpy(zero_copy_only=False)
    plain = pc.fill_null(numbers, 0).to_numpy()
    if source == _INT4:
        return pa.array(plain.astype(np.uint32).astype(np.int64), pa.int64(), mask=mask)
    return pa.array(plain.astype(np.uint32).view(np.int32), pa.int32(), mask=mask)
