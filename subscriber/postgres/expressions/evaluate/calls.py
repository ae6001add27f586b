"""Calls functions over values. A strict function is not called if an argument is NULL. A call with
constant arguments is computed once. Error messages do not contain values of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import DataException, NotSupportedError, RowFilterError, SubscriberError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.evaluate import row_values
from subscriber.postgres.expressions.functions import FUNCTIONS
from subscriber.postgres.expressions.functions.collators import collator_of, orders_by_bytes
from subscriber.postgres.expressions.functions.function_table import Context, Implementation
from subscriber.postgres.schema.publisher_tables import PublisherCollation


def of_type(type_oid: int) -> tree.Expression:
    """An expression of a type, whose value is unknown."""
    return tree.CaseTestExpr(type_oid, 0)


Apply: TypeAlias = Callable[[Sequence[row_values.Value], int], row_values.Value]
"""A function that takes the values of its arguments and the number of rows."""


def function_for(
    signature: str,
    arguments: Sequence[tree.Expression],
    result_type: int,
    server_version: int,
    collation: PublisherCollation | None = None,
) -> tuple[Apply, bool]:
    """The function, and whether it may raise an error. Without a collation it compares bytes."""
    found = FUNCTIONS.get(signature)
    if found is None:
        raise NotSupportedError(f"a row filter with the function {signature} cannot be evaluated by the subscriber")
    try:
        found = found.for_constants(
            {
                place: argument.value
                for place, argument in enumerate(arguments)
                if isinstance(argument, tree.ComputedConst)
            }
        )
    except DataException as error:
        return _raising(error), True
    if collation is not None:
        found = under(found, collation)
    context = Context(tuple(argument.type_oid for argument in arguments), result_type, server_version)
    return _applied(found, context), found.raises


def under(found: Implementation, collation: PublisherCollation) -> Implementation:
    if found.by_order is None and found.by_case is None:
        return found
    if found.by_order is not None and orders_by_bytes(collation):
        return found
    return found.under(collator_of(collation))


def _raising(error: DataException) -> Apply:
    """A wrong constant's error, raised at the first row whose other arguments are not NULL."""

    def apply(values: Sequence[row_values.Value], count: int) -> row_values.Value:
        missing = [row_values.nulls(value, count) for value in values]
        if all(any(row) for row in zip(*missing, strict=True)):
            return row_values.NULL
        raise error

    return apply


def _applied(found: Implementation, context: Context) -> Apply:
    """An implementation as a function over values, with the handling of NULL and of errors."""
    signature = found.signature
    arrow_type = row_values.arrow_of(context.result_type)
    argument_arrows = [row_values.arrow_of(oid) for oid in context.argument_types]
    call = partial(found.function, context) if found.context else found.function

    def apply(values: Sequence[row_values.Value], count: int) -> row_values.Value:
        constant = all(isinstance(value, row_values.ScalarValue) for value in values)
        if found.strict and any(isinstance(value, row_values.ScalarValue) and value.value is None for value in values):
            return row_values.NULL
        if constant:
            count = 1
        try:
            if found.vectorised:
                result = _columns_at_once(call, values, argument_arrows, count, constant)
            else:
                result = _row_by_row(call, found, values, count, arrow_type)
        except SubscriberError:
            raise
        except Exception:
            # Errors of Arrow and Python quote values. Error messages of the subscriber must not
            # contain values.
            raise RowFilterError(f"{signature} failed for a value of a row", sqlstate="XX000") from None
        return row_values.ScalarValue(row_values.listed(result, count)[0]) if constant else result

    return apply


def _columns_at_once(
    call: Callable[..., Any],
    values: Sequence[row_values.Value],
    arrows: Sequence[pa.DataType | None],
    count: int,
    constant: bool,
) -> row_values.Value:
    """Call a vectorised function; at least one argument is an array, constants are scalars."""
    result = call(
        *(
            pa.scalar(value.value, arrow_type)
            if isinstance(value, row_values.ScalarValue) and not constant
            else row_values.array_from(value, count, arrow_type)
            for value, arrow_type in zip(values, arrows, strict=True)
        )
    )
    if isinstance(result, pa.Scalar):
        return row_values.ScalarValue(result.as_py())
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def _row_by_row(
    call: Callable[..., Any],
    found: Implementation,
    values: Sequence[row_values.Value],
    count: int,
    arrow_type: pa.DataType | None,
) -> row_values.Value:
    if not values:
        result = [call()] * count
    elif found.strict and len(values) == 1:
        result = [None if one is None else call(one) for one in row_values.listed(values[0], count)]
    elif found.strict and len(values) == 2 and isinstance(values[1], row_values.ScalarValue):
        right = values[1].value
        result = [None if one is None else call(one, right) for one in row_values.listed(values[0], count)]
    else:
        columns = [
            repeat(value.value, count) if isinstance(value, row_values.ScalarValue) else row_values.listed(value, count)
            for value in values
        ]
        rows = zip(*columns, strict=True)
        if found.strict:
            result = [None if any(one is None for one in row) else call(*row) for row in rows]
        else:
            result = [call(*row) for row in rows]
    return result if arrow_type is None else pa.array(result, arrow_type)


_BOOLEAN: Final = pa.bool_()
_PLAIN_EQUALITY: Final = frozenset({
    "int2eq(int2,int2)", "int4eq(int4,int4)", "int8eq(int8,int8)", "oideq(oid,oid)", "texteq(text,text)",
    "byteaeq(bytea,bytea)", "uuid_eq(uuid,uuid)", "date_eq(date,date)",
})  # fmt: skip
"""True exactly if Arrow's values are equal, so long lists are searched by a hash table."""
_FEW: Final = 4
"""Up to this many constants are compared one by one; for more, a hash table is faster."""


def decided(
    rows: row_values.FrameRows,
    arguments: Sequence[Callable[[row_values.FrameRows], row_values.Value]],
    raises: Sequence[bool],
    *,
    is_or: bool,
) -> pa.BooleanArray:
    """AND or OR. An argument that may raise an error sees only rows that are undecided."""
    combine = pc.or_kleene if is_or else pc.and_kleene
    result: pa.BooleanArray | None = None
    for argument, may_raise in zip(arguments, raises, strict=True):
        if result is None:
            result = row_values.array_from(argument(rows), rows.count, _BOOLEAN)
            continue
        if not may_raise:
            result = combine(result, row_values.array_from(argument(rows), rows.count, _BOOLEAN))
            continue
        undecided = pc.fill_null(pc.invert(result) if is_or else result, True)
        part = rows.where(undecided)
        if part.count:
            value = row_values.array_from(argument(part), part.count, _BOOLEAN)
            result = pc.replace_with_mask(result, undecided, combine(result.filter(undecided), value))
    return pa.repeat(not is_or, rows.count) if result is None else result


@dataclass(frozen=True, slots=True)
class Comparison:
    """``ScalarArrayOpExpr``: ``operator ANY`` (``use_or``) or ``operator ALL``."""

    signature: str
    arrow_type: pa.DataType | None
    use_or: bool

    def with_each(
        self,
        rows: row_values.FrameRows,
        value: row_values.Value,
        elements: Sequence[row_values.Value],
        functions: Sequence[tuple[Apply, bool]],
    ) -> row_values.Value:
        """Compare with elements whose number is known when the filter is compiled."""
        if not elements:
            return row_values.ScalarValue(not self.use_or)
        if self.use_or and len(elements) > _FEW and self._is_lookup(value, elements):
            return self._looked_up(
                value, [element.value for element in elements if isinstance(element, row_values.ScalarValue)]
            )
        slot = object()
        rows.keep(slot, value)
        tests = [_test(rows, slot, element, apply) for element, (apply, _) in zip(elements, functions, strict=True)]
        return decided(rows, tests, [raises for _, raises in functions], is_or=self.use_or)

    def _is_lookup(self, value: row_values.Value, elements: Sequence[row_values.Value]) -> bool:
        return (
            self.signature in _PLAIN_EQUALITY
            and isinstance(value, pa.Array)
            and all(isinstance(element, row_values.ScalarValue) for element in elements)
        )

    def _looked_up(self, value: pa.Array, elements: list[Any]) -> row_values.Value:
        present = pa.array([element for element in elements if element is not None], self.arrow_type)
        found = pc.is_in(value, value_set=present)
        # A value that is not found gives NULL if the value, or one of the constants, is NULL.
        unknown = value.is_null() if len(present) == len(elements) else pc.invert(found)
        return pc.if_else(unknown, pa.scalar(None, _BOOLEAN), found)

    def with_arrays(
        self,
        rows: row_values.FrameRows,
        value: row_values.Value,
        array: row_values.Value,
        element_arrow: pa.DataType | None,
        apply: Apply,
    ) -> row_values.Value:
        """Compare with an array in each row, by a function that cannot raise an error."""
        arrays = row_values.listed(array, rows.count)
        lengths = np.array([0 if one is None else len(one.elements) for one in arrays], np.int64)
        owner = np.repeat(np.arange(rows.count), lengths)
        elements: row_values.Value = [element for one in arrays if one is not None for element in one.elements]
        if element_arrow is not None:
            elements = pa.array(elements, element_arrow)
        compared = row_values.array_from(apply([_repeated(value, owner), elements], len(owner)), len(owner), _BOOLEAN)
        unknown = (
            np.bincount(owner, row_values.nulls(compared, len(owner)).to_numpy(zero_copy_only=False), rows.count) > 0
        )
        deciding = pc.fill_null(compared if self.use_or else pc.invert(compared), False)
        found = np.bincount(owner, deciding.to_numpy(zero_copy_only=False), rows.count) > 0
        missing = np.array([one is None for one in arrays], bool)
        return pa.array(found if self.use_or else ~found, mask=missing | (unknown & ~found))

    def with_arrays_one_by_one(
        self, rows: row_values.FrameRows, value: row_values.Value, array: row_values.Value, apply: Apply
    ) -> row_values.Value:
        """The same, calling the function for no more elements than the server does."""
        pairs = zip(row_values.listed(value, rows.count), row_values.listed(array, rows.count), strict=True)
        return pa.array([self._one(one, other, apply) for one, other in pairs], _BOOLEAN)

    def _one(self, value: Any, array: Any, apply: Apply) -> bool | None:
        if array is None:
            return None
        unknown = False
        for element in array.elements:
            result: bool | None = row_values.listed(
                apply([row_values.ScalarValue(value), row_values.ScalarValue(element)], 1), 1
            )[0]
            if result is self.use_or:
                return self.use_or
            unknown = unknown or result is None
        return None if unknown else not self.use_or


def _test(
    rows: row_values.FrameRows, slot: object, element: row_values.Value, apply: Apply
) -> Callable[[row_values.FrameRows], row_values.Value]:
    """The comparison with one element, as a function of all rows or some of them."""
    place = object()
    rows.keep(place, element)
    return lambda part: apply([part.kept(slot), part.kept(place)], part.count)


def _repeated(value: row_values.Value, owner: Any) -> row_values.Value:
    """For each element, the value of the row that the element belongs to."""
    if isinstance(value, row_values.ScalarValue):
        return value
    return [value[row] for row in owner.tolist()] if isinstance(value, list) else value.take(pa.array(owner))
