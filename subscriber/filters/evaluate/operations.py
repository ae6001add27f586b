"""The nodes of a simplified expression as operations over rows: ``ExecInitExpr`` and ``ExecInterpExpr``, columns at once.

PostgreSQL goes row by row, from left to right, and stops where the result is certain; so ``a <> 0 AND 10 / a > 1`` divides by no
zero. Here an operand that may raise is computed for the rows alone that are still undecided; one that cannot is computed for all,
since nobody can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import NotSupportedError
from subscriber.filters.analyze import tree
from subscriber.filters.evaluate.any_all import Comparison, decided
from subscriber.filters.evaluate.array_values import array_of_arrays, array_of_elements
from subscriber.filters.evaluate.calls import Apply, function_for, of_type
from subscriber.filters.evaluate.row_values import (
    NULL,
    Pieces,
    Rows,
    Same,
    Value,
    array_from,
    arrow_of,
    filtered,
    listed,
    nulls,
    required_form,
)
from subscriber.types import ELEMENT_TYPES

Evaluate: TypeAlias = Callable[[Rows], Value]

RECORD: Final = 2249
"""The type of a row."""
_BOOLEAN: Final = pa.bool_()
_INT4: Final = 23


@dataclass(frozen=True, slots=True)
class FieldTest(tree.NullTest):
    """The test of a row, of one of its fields: a row that is a field is not NULL, whatever is in it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A node, ready to be evaluated.

    Attributes:
        evaluate: its value for some rows.
        raises: it may raise for some values.
    """

    evaluate: Evaluate
    raises: bool


def operation(node: tree.Expression, operand: object = None) -> Operation:
    """The operation of a node and all below it.

    Args:
        node: simplified: constants are :class:`~tree.Known`.
        operand: under what the rows keep the operand of the nearest CASE.

    Raises:
        NotSupportedError: a node, function or type that is not computed here.
    """
    match node:
        case tree.Known():
            same = Same(node.value)
            return Operation(lambda _: same, False)
        case tree.Column():
            return _column(node)
        case tree.CaseOperand():
            return Operation(lambda rows: rows.kept(operand), False)
        case tree.Distinct():
            return _distinct(node, operand)
        case tree.NullIf():
            return _null_if(node, operand)
        case tree.ArrayComparison():
            return _array_comparison(node, operand)
        case tree.Call():
            return _call(node, operand)
        case tree.Boolean(kind="not"):
            return _not(node, operand)
        case tree.Boolean():
            return _and_or(node, operand)
        case tree.Relabel():
            return _relabel(node, operand)
        case tree.Collate():
            return operation(node.argument, operand)
        case tree.Case():
            return _case(node, operand)
        case tree.Coalesce():
            return _coalesce(node, operand)
        case tree.MinMax():
            return _min_max(node, operand)
        case tree.NullTest():
            return _null_test(node, operand)
        case tree.BooleanTest():
            return _boolean_test(node, operand)
        case tree.RowComparison():
            return _row_comparison(node, operand)
        case tree.RowConstructor():
            return _row(node, operand)
        case tree.ArrayConstructor():
            return _array(node, operand)
    raise NotSupportedError(f"a row filter with {type(node).__name__} cannot be evaluated here")


def _operations(nodes: Sequence[tree.Expression], operand: object) -> tuple[Operation, ...]:
    return tuple(operation(node, operand) for node in nodes)


def _any_raises(operations: Sequence[Operation]) -> bool:
    return any(one.raises for one in operations)


def _column(node: tree.Column) -> Operation:
    required_form(node.type_oid)
    return Operation(lambda rows: rows.column(node.name, node.type_oid), False)


# Functions ------------------------------------------------------------------------------------------------------------


def _call(node: tree.Call, operand: object) -> Operation:
    arguments = _operations(node.arguments, operand)
    function, raises = function_for(node.function, node.arguments, node.type_oid)
    return Operation(
        lambda rows: function([one.evaluate(rows) for one in arguments], rows.count), raises or _any_raises(arguments)
    )


def _comparison(node: tree.Call, operand: object) -> tuple[tuple[Operation, ...], Apply, bool]:
    """Arguments and function of a node whose own type need not be the function's, which is boolean."""
    arguments = _operations(node.arguments, operand)
    function, raises = function_for(node.function, node.arguments, tree.BOOL)
    return arguments, function, raises or _any_raises(arguments)


def _distinct(node: tree.Distinct, operand: object) -> Operation:
    (left, right), equals, raises = _comparison(node, operand)

    def evaluate(rows: Rows) -> Value:
        values = [left.evaluate(rows), right.evaluate(rows)]
        equal = array_from(equals(values, rows.count), rows.count, _BOOLEAN)
        one_null = pc.xor(*(nulls(value, rows.count) for value in values))
        return pc.if_else(equal.is_null(), one_null, pc.invert(equal))

    return Operation(evaluate, raises)


def _null_if(node: tree.NullIf, operand: object) -> Operation:
    (left, right), equals, raises = _comparison(node, operand)
    arrow_type = arrow_of(node.type_oid)

    def evaluate(rows: Rows) -> Value:
        values = [left.evaluate(rows), right.evaluate(rows)]
        equal = pc.fill_null(array_from(equals(values, rows.count), rows.count, _BOOLEAN), False)
        return _chosen(equal, NULL, values[0], rows.count, arrow_type)

    return Operation(evaluate, raises)


def _chosen(
    condition: pa.BooleanArray, when_true: Value, otherwise: Value, count: int, arrow_type: pa.DataType | None
) -> Value:
    """One or the other value, row by row; the condition has no nulls."""
    if arrow_type is None:
        rows = zip(condition.to_pylist(), listed(when_true, count), listed(otherwise, count), strict=True)
        return [one if chosen else other for chosen, one, other in rows]
    return pc.if_else(condition, array_from(when_true, count, arrow_type), array_from(otherwise, count, arrow_type))


# Logic ----------------------------------------------------------------------------------------------------------------


def _not(node: tree.Boolean, operand: object) -> Operation:
    (argument,) = _operations(node.arguments, operand)

    def evaluate(rows: Rows) -> Value:
        value = argument.evaluate(rows)
        if isinstance(value, Same):
            return NULL if value.value is None else Same(not value.value)
        return pc.invert(value)

    return Operation(evaluate, argument.raises)


def _and_or(node: tree.Boolean, operand: object) -> Operation:
    arguments = _operations(node.arguments, operand)
    is_or = node.kind == "or"

    def evaluate(rows: Rows) -> Value:
        return decided(rows, [one.evaluate for one in arguments], [one.raises for one in arguments], is_or=is_or)

    return Operation(evaluate, _any_raises(arguments))


def _boolean_test(node: tree.BooleanTest, operand: object) -> Operation:
    argument = operation(node.argument, operand)

    def evaluate(rows: Rows) -> Value:
        value = array_from(argument.evaluate(rows), rows.count, _BOOLEAN)
        if node.value is None:
            result = value.is_null()
        else:
            result = pc.fill_null(value if node.value else pc.invert(value), False)
        return pc.invert(result) if node.negated else result

    return Operation(evaluate, argument.raises)


def _null_test(node: tree.NullTest, operand: object) -> Operation:
    argument = operation(node.argument, operand)
    is_row = node.argument.type_oid == RECORD and not isinstance(node, FieldTest)

    def evaluate(rows: Rows) -> Value:
        value = argument.evaluate(rows)
        if is_row:
            tested = [_row_is(row, is_null=node.is_null) for row in listed(value, rows.count)]
            return pa.array(tested, _BOOLEAN)
        result = nulls(value, rows.count)
        return result if node.is_null else pc.invert(result)

    return Operation(evaluate, argument.raises)


def _row_is(row: tuple[Any, ...] | None, *, is_null: bool) -> bool:
    """Whether all fields are (not) NULL; a row among them is never NULL, whatever is in it (``ExecEvalRowNullInt``)."""
    if row is None:
        return is_null
    return all((field is None) == is_null for field in row)


# Choices --------------------------------------------------------------------------------------------------------------


def _case(node: tree.Case, operand: object) -> Operation:
    first = None if node.operand is None else operation(node.operand, operand)
    slot = operand if first is None else object()
    whens = [(operation(condition, slot), operation(result, operand)) for condition, result in node.whens]
    default = operation(node.default, operand)
    arrow_type = arrow_of(node.type_oid)

    def evaluate(rows: Rows) -> Value:
        if first is not None:
            rows.keep(slot, first.evaluate(rows))
        pieces = Pieces(rows, arrow_type)
        for condition, result in whens:
            if not pieces.rest.count:
                break
            met = pc.fill_null(array_from(condition.evaluate(pieces.rest), pieces.rest.count, _BOOLEAN), False)
            chosen = pieces.rest.where(met)
            if chosen.count:
                pieces.give(met, result.evaluate(chosen))
        pieces.give_rest(default.evaluate)
        return pieces.whole()

    parts = [*(one for when in whens for one in when), default, *([] if first is None else [first])]
    return Operation(evaluate, _any_raises(parts))


def _coalesce(node: tree.Coalesce, operand: object) -> Operation:
    arguments = _operations(node.arguments, operand)
    arrow_type = arrow_of(node.type_oid)

    def evaluate(rows: Rows) -> Value:
        pieces = Pieces(rows, arrow_type)
        for argument in arguments:
            if not pieces.rest.count:
                break
            value = argument.evaluate(pieces.rest)
            present = pc.invert(nulls(value, pieces.rest.count))
            pieces.give(present, filtered(value, present))
        return pieces.whole()

    return Operation(evaluate, _any_raises(arguments))


def _min_max(node: tree.MinMax, operand: object) -> Operation:
    arguments = _operations(node.arguments, operand)
    less, raises = function_for(node.less, [of_type(node.type_oid)] * 2, tree.BOOL)
    arrow_type = arrow_of(node.type_oid)

    def evaluate(rows: Rows) -> Value:
        best, *others = (one.evaluate(rows) for one in arguments)
        for other in others:
            pair = [best, other] if node.greatest else [other, best]
            better = array_from(less(pair, rows.count), rows.count, _BOOLEAN)
            better = pc.if_else(better.is_null(), nulls(best, rows.count), better)
            best = _chosen(better, other, best, rows.count, arrow_type)
        return best

    return Operation(evaluate, raises or _any_raises(arguments))


# Rows and arrays ------------------------------------------------------------------------------------------------------


def _row(node: tree.RowConstructor, operand: object) -> Operation:
    fields = _operations(node.fields, operand)

    def evaluate(rows: Rows) -> Value:
        if not fields:
            return Same(())
        return list(zip(*(listed(one.evaluate(rows), rows.count) for one in fields), strict=True))

    return Operation(evaluate, _any_raises(fields))


def _row_comparison(node: tree.RowComparison, operand: object) -> Operation:
    sides = list(zip(node.left, node.right, strict=True))
    pairs = [_operations(pair, operand) for pair in sides]
    kinds = [function_for(name, pair, tree.BOOL) for name, pair in zip(node.functions, sides, strict=True)]
    equals = [function_for(name, pair, tree.BOOL) for name, pair in zip(node.equals, sides, strict=True)]

    def evaluate(rows: Rows) -> Value:
        pieces = Pieces(rows, _BOOLEAN)
        for pair, (compare, _), (equal, _) in zip(pairs, kinds, equals, strict=True):
            count = pieces.rest.count
            if not count:
                break
            values = [one.evaluate(pieces.rest) for one in pair]
            # NULL settles a row, as a difference does; the first columns that are equal leave it to the next ones.
            differs = pc.fill_null(pc.invert(array_from(equal(values, count), count, _BOOLEAN)), True)
            pieces.give(differs, filtered(compare(values, count), differs))
        pieces.give_rest(lambda _: Same("=" in node.kind))
        return pieces.whole()

    raises = any(may_raise for _, may_raise in (*kinds, *equals)) or any(_any_raises(pair) for pair in pairs)
    return Operation(evaluate, raises)


def _array(node: tree.ArrayConstructor, operand: object) -> Operation:
    elements = _operations(node.elements, operand)
    build = array_of_arrays if node.nested else array_of_elements

    def evaluate(rows: Rows) -> Value:
        if not elements:
            return Same(build(()))
        return [build(row) for row in zip(*(listed(one.evaluate(rows), rows.count) for one in elements), strict=True)]

    return Operation(evaluate, node.nested or _any_raises(elements))


def _array_comparison(node: tree.ArrayComparison, operand: object) -> Operation:
    left, right = node.arguments
    value = operation(left, operand)
    comparison = Comparison(node.function, arrow_of(left.type_oid), node.use_or)
    nodes = elements_of(right)
    if nodes is not None:
        elements = _operations(nodes, operand)
        functions = [function_for(node.function, [left, one], tree.BOOL) for one in nodes]
        return Operation(
            lambda rows: comparison.with_each(
                rows, value.evaluate(rows), [one.evaluate(rows) for one in elements], functions
            ),
            value.raises or _any_raises(elements) or any(raises for _, raises in functions),
        )
    array = operation(right, operand)
    element = of_type(ELEMENT_TYPES[right.type_oid])
    apply, raises = function_for(node.function, [left, element], tree.BOOL)

    def evaluate(rows: Rows) -> Value:
        one, other = value.evaluate(rows), array.evaluate(rows)
        if raises:
            return comparison.with_arrays_one_by_one(rows, one, other, apply)
        return comparison.with_arrays(rows, one, other, arrow_of(element.type_oid), apply)

    return Operation(evaluate, raises or value.raises or array.raises)


def elements_of(array: tree.Expression) -> Sequence[tree.Expression] | None:
    """The elements of an array, where the expression says how many there are."""
    if isinstance(array, tree.ArrayConstructor) and not array.nested:
        return array.elements
    if isinstance(array, tree.Known) and array.value is not None:
        type_oid = ELEMENT_TYPES[array.type_oid]
        return [tree.Known(type_oid, array.collation, element) for element in array.value.elements]
    return None


def _relabel(node: tree.Relabel, operand: object) -> Operation:
    argument = operation(node.argument, operand)
    source, target = arrow_of(node.argument.type_oid), arrow_of(node.type_oid)
    if source is None or target is None or source == target:
        return argument

    def evaluate(rows: Rows) -> Value:
        # An oid is four bytes without a sign, kept in eight with one; the same bytes are an integer.
        numbers = array_from(argument.evaluate(rows), rows.count, source)
        return _reinterpreted(numbers, node.argument.type_oid)

    if {source, target} != {pa.int32(), pa.int64()}:
        raise NotSupportedError(f"a row filter cannot take {source} for {target}")
    return Operation(evaluate, argument.raises)


def _reinterpreted(numbers: pa.Array, source: int) -> pa.Array:
    mask = nulls(numbers, len(numbers)).to_numpy(zero_copy_only=False)
    plain = pc.fill_null(numbers, 0).to_numpy()
    if source == _INT4:
        return pa.array(plain.astype(np.uint32).astype(np.int64), pa.int64(), mask=mask)
    return pa.array(plain.astype(np.uint32).view(np.int32), pa.int32(), mask=mask)
