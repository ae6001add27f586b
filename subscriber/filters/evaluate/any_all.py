"""Evaluates AND, OR, ``operator ANY (array)`` and ``operator ALL (array)``.

The first value that decides the result ends the evaluation of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.filters.evaluate.calls import Apply
from subscriber.filters.evaluate.row_values import Rows, Same, Value, array_from, listed, nulls

_BOOLEAN: Final = pa.bool_()
_PLAIN_EQUALITY: Final = frozenset({
    "int2eq(int2,int2)", "int4eq(int4,int4)", "int8eq(int8,int8)", "oideq(oid,oid)", "texteq(text,text)",
    "byteaeq(bytea,bytea)", "uuid_eq(uuid,uuid)", "date_eq(date,date)",
})  # fmt: skip
"""Equality functions that are true exactly if Arrow's values are equal.

For these functions a long list of constants is searched with a hash table.
"""
_FEW: Final = 4
"""Up to this number of constants are compared one after the other. For more, the hash table is
faster.
"""


def decided(
    rows: Rows, arguments: Sequence[Callable[[Rows], Value]], raises: Sequence[bool], *, is_or: bool
) -> pa.BooleanArray:
    """Return AND or OR of the arguments.

    The arguments are evaluated in their order. An argument that may raise an error is evaluated
    only for the rows that the arguments before it have not decided.
    """
    combine = pc.or_kleene if is_or else pc.and_kleene
    result: pa.BooleanArray | None = None
    for argument, may_raise in zip(arguments, raises, strict=True):
        if result is None:
            result = array_from(argument(rows), rows.count, _BOOLEAN)
            continue
        if not may_raise:
            result = combine(result, array_from(argument(rows), rows.count, _BOOLEAN))
            continue
        undecided = pc.fill_null(pc.invert(result) if is_or else result, True)
        part = rows.where(undecided)
        if part.count:
            value = array_from(argument(part), part.count, _BOOLEAN)
            result = pc.replace_with_mask(result, undecided, combine(result.filter(undecided), value))
    return pa.repeat(not is_or, rows.count) if result is None else result


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison by ``operator ANY`` or ``operator ALL`` (``ScalarArrayOpExpr``).

    Attributes:
        signature: the signature of the operator's function.
        arrow_type: the Arrow type of the left value; None if only Python holds it.
        use_or: True for ANY, False for ALL.
    """

    signature: str
    arrow_type: pa.DataType | None
    use_or: bool

    def with_each(
        self, rows: Rows, value: Value, elements: Sequence[Value], functions: Sequence[tuple[Apply, bool]]
    ) -> Value:
        """Compare with elements whose number is known when the filter is compiled.

        Args:
            rows: the rows.
            value: the left value.
            elements: one value for each element.
            functions: for each element, the function and whether it may raise an error.
        """
        if not elements:
            return Same(not self.use_or)
        if self.use_or and len(elements) > _FEW and self._is_lookup(value, elements):
            return self._looked_up(value, [element.value for element in elements if isinstance(element, Same)])
        slot = object()
        rows.keep(slot, value)
        tests = [_test(rows, slot, element, apply) for element, (apply, _) in zip(elements, functions, strict=True)]
        return decided(rows, tests, [raises for _, raises in functions], is_or=self.use_or)

    def _is_lookup(self, value: Value, elements: Sequence[Value]) -> bool:
        return (
            self.signature in _PLAIN_EQUALITY
            and isinstance(value, pa.Array)
            and all(isinstance(element, Same) for element in elements)
        )

    def _looked_up(self, value: pa.Array, elements: list[Any]) -> Value:
        present = pa.array([element for element in elements if element is not None], self.arrow_type)
        found = pc.is_in(value, value_set=present)
        # A value that is not found gives NULL if the value, or one of the constants, is NULL.
        unknown = value.is_null() if len(present) == len(elements) else pc.invert(found)
        return pc.if_else(unknown, pa.scalar(None, _BOOLEAN), found)

    def with_arrays(
        self, rows: Rows, value: Value, array: Value, element_arrow: pa.DataType | None, apply: Apply
    ) -> Value:
        """Compare with an array in each row, by a function that cannot raise an error."""
        arrays = listed(array, rows.count)
        lengths = np.array([0 if one is None else len(one.elements) for one in arrays], np.int64)
        owner = np.repeat(np.arange(rows.count), lengths)
        elements: Value = [element for one in arrays if one is not None for element in one.elements]
        if element_arrow is not None:
            elements = pa.array(elements, element_arrow)
        compared = array_from(apply([_repeated(value, owner), elements], len(owner)), len(owner), _BOOLEAN)
        unknown = np.bincount(owner, nulls(compared, len(owner)).to_numpy(zero_copy_only=False), rows.count) > 0
        deciding = pc.fill_null(compared if self.use_or else pc.invert(compared), False)
        found = np.bincount(owner, deciding.to_numpy(zero_copy_only=False), rows.count) > 0
        missing = np.array([one is None for one in arrays], bool)
        return pa.array(found if self.use_or else ~found, mask=missing | (unknown & ~found))

    def with_arrays_one_by_one(self, rows: Rows, value: Value, array: Value, apply: Apply) -> Value:
        """Compare with an array in each row, one element after the other.

        The function is called for no more elements than on the server.
        """
        pairs = zip(listed(value, rows.count), listed(array, rows.count), strict=True)
        return pa.array([self._one(one, other, apply) for one, other in pairs], _BOOLEAN)

    def _one(self, value: Any, array: Any, apply: Apply) -> bool | None:
        if array is None:
            return None
        unknown = False
        for element in array.elements:
            result: bool | None = listed(apply([Same(value), Same(element)], 1), 1)[0]
            if result is self.use_or:
                return self.use_or
            unknown = unknown or result is None
        return None if unknown else not self.use_or


def _test(rows: Rows, slot: object, element: Value, apply: Apply) -> Callable[[Rows], Value]:
    """Return the comparison with one element, as a function of all rows or some of them."""
    place = object()
    rows.keep(place, element)
    return lambda part: apply([part.kept(slot), part.kept(place)], part.count)


def _repeated(value: Value, owner: Any) -> Value:
    """Return, for each element, the value of the row that the element belongs to."""
    if isinstance(value, Same):
        return value
    return [value[row] for row in owner.tolist()] if isinstance(value, list) else value.take(pa.array(owner))
