"""What is decided by the first of several values: AND, OR, and ``operator ANY (array)`` and
``ALL``.
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
"""Functions that are true where Arrow's values are the same, so that many constants are looked up
in a hash table.
"""
_FEW: Final = 4
"""Up to so many constants are compared one after the other; from there on the hash table is faster.
"""


def decided(
    rows: Rows, arguments: Sequence[Callable[[Rows], Value]], raises: Sequence[bool], *, is_or: bool
) -> pa.BooleanArray:
    """AND or OR of the arguments, in their order; the first of them that decides a row is the last
    that it is asked for.
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
    """``operator ANY`` or ``ALL`` (``ScalarArrayOpExpr``).

    Attributes:
        signature: of the operator's function.
        arrow_type: of the value.
        use_or: ANY.
    """

    signature: str
    arrow_type: pa.DataType | None
    use_or: bool

    def with_each(
        self, rows: Rows, value: Value, elements: Sequence[Value], functions: Sequence[tuple[Apply, bool]]
    ) -> Value:
        """With each element a value of its own, and for each the function and whether it
        may raise.
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
        # What is not among them is unknown where it, or one of them, is NULL.
        unknown = value.is_null() if len(present) == len(elements) else pc.invert(found)
        return pc.if_else(unknown, pa.scalar(None, _BOOLEAN), found)

    def with_arrays(
        self, rows: Rows, value: Value, array: Value, element_arrow: pa.DataType | None, apply: Apply
    ) -> Value:
        """With an array a row; the function cannot raise."""
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
        """With an array a row; the function is not asked any further than the server would."""
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
    """The comparison with an element, for all rows or some of them."""
    place = object()
    rows.keep(place, element)
    return lambda part: apply([part.kept(slot), part.kept(place)], part.count)


def _repeated(value: Value, owner: Any) -> Value:
    """The value of the row that an element belongs to."""
    if isinstance(value, Same):
        return value
    return [value[row] for row in owner.tolist()] if isinstance(value, list) else value.take(pa.array(owner))
