"""Constructors and operators of the built-in range types (``rangetypes.c``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.comparison import register_values
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.types.form import sign
from subscriber.types.range_values import Bound, Range, compare_bounds, compare_values, is_discrete, make

FUNCTIONS: Final = FunctionTable()

_CONSTRUCTORS: Final = {
    "int4range(int4,int4": 3904,
    "numrange(numeric,numeric": 3906,
    "tsrange(timestamp,timestamp": 3908,
    "tstzrange(timestamptz,timestamptz": 3910,
    "daterange(date,date": 3912,
    "int8range(int8,int8": 3926,
}


def _constructor(oid: int) -> Callable[..., Range]:
    def construct(lower: Any, upper: Any, flags: str | None = "[)") -> Range:
        if flags is None:
            raise RowFilterError("range constructor flags argument must not be null", sqlstate="22000")
        if flags not in {"[]", "[)", "(]", "()"}:
            raise RowFilterError(
                "invalid range bound flags", sqlstate="42601", hint='Valid values are "[]", "[)", "(]", and "()".'
            )
        return make(oid, Bound(lower, flags[0] == "[", True), Bound(upper, flags[1] == "]", False))

    return construct


for _beginning, _oid in _CONSTRUCTORS.items():
    FUNCTIONS.elementwise(f"{_beginning})", f"{_beginning},text)", strict=False)(_constructor(_oid))


# --- questions --------------------------------------------------------------------------------


def _order(left: Range, right: Range) -> int:
    """Compare two ranges; the empty range comes first (``range_cmp``)."""
    if left.lower is None or right.lower is None:
        return sign(left.lower is not None, right.lower is not None)
    assert left.upper is not None
    assert right.upper is not None
    return compare_bounds(left.lower, right.lower) or compare_bounds(left.upper, right.upper)


register_values(FUNCTIONS, "range_{}(anyrange,anyrange)", _order)

_Ends = tuple[Bound, Bound, Bound, Bound]


def _question(signature: str) -> Callable[[Callable[[Bound, Bound, Bound, Bound], bool]], Callable[..., bool]]:
    """Register a function that gives a boolean, computed from the bounds of the left and the right
    range.

    The result is false if one of the ranges is empty.
    """

    def decorate(answer: Callable[[Bound, Bound, Bound, Bound], bool]) -> Callable[..., bool]:
        def ask(left: Range, right: Range) -> bool:
            ends = _ends(left, right)
            return ends is not None and answer(*ends)

        FUNCTIONS.elementwise(signature)(ask)
        return ask

    return decorate


def _ends(left: Range, right: Range) -> _Ends | None:
    if left.lower is None or left.upper is None or right.lower is None or right.upper is None:
        return None
    return left.lower, left.upper, right.lower, right.upper


@_question("range_before(anyrange,anyrange)")
def _before(_low: Bound, high: Bound, other_low: Bound, _other_high: Bound) -> bool:
    return compare_bounds(high, other_low) < 0


@_question("range_after(anyrange,anyrange)")
def _after(low: Bound, _high: Bound, _other_low: Bound, other_high: Bound) -> bool:
    return compare_bounds(low, other_high) > 0


@_question("range_overleft(anyrange,anyrange)")
def _not_right_of(_low: Bound, high: Bound, _other_low: Bound, other_high: Bound) -> bool:
    return compare_bounds(high, other_high) <= 0


@_question("range_overright(anyrange,anyrange)")
def _not_left_of(low: Bound, _high: Bound, other_low: Bound, _other_high: Bound) -> bool:
    return compare_bounds(low, other_low) >= 0


@_question("range_overlaps(anyrange,anyrange)")
def _overlaps(low: Bound, high: Bound, other_low: Bound, other_high: Bound) -> bool:
    return compare_bounds(low, other_high) <= 0 and compare_bounds(other_low, high) <= 0


@FUNCTIONS.elementwise("range_adjacent(anyrange,anyrange)")
def _adjacent(left: Range, right: Range) -> bool:
    ends = _ends(left, right)
    if ends is None:
        return False
    low, high, other_low, other_high = ends
    return _meet(left.oid, high, other_low) or _meet(left.oid, other_high, low)


def _meet(oid: int, upper: Bound, lower: Bound) -> bool:
    """Whether nothing lies between two bounds and they have no common value
    (``bounds_adjacent``).
    """
    order = compare_values(upper, lower)
    if order == 0:
        return upper.inclusive != lower.inclusive
    if order > 0 or not is_discrete(oid):
        return False
    between = make(oid, Bound(upper.value, not upper.inclusive, True), Bound(lower.value, not lower.inclusive, False))
    return between.lower is None


@FUNCTIONS.elementwise("range_contains(anyrange,anyrange)", raises=False)
def _contains(whole: Range, part: Range) -> bool:
    if part.lower is None:
        return True
    ends = _ends(whole, part)
    return ends is not None and compare_bounds(ends[0], ends[2]) <= 0 and compare_bounds(ends[1], ends[3]) >= 0


@FUNCTIONS.elementwise("range_contained_by(anyrange,anyrange)", raises=False)
def _contained(part: Range, whole: Range) -> bool:
    return _contains(whole, part)


@FUNCTIONS.elementwise("range_contains_elem(anyrange,anyelement)", raises=False)
def _contains_element(whole: Range, value: Any) -> bool:
    if whole.lower is None or whole.upper is None:
        return False
    low, high = Bound(value, True, True), Bound(value, True, False)
    return compare_bounds(whole.lower, low) <= 0 and compare_bounds(whole.upper, high) >= 0


@FUNCTIONS.elementwise("elem_contained_by_range(anyelement,anyrange)", raises=False)
def _element_contained(value: Any, whole: Range) -> bool:
    return _contains_element(whole, value)


# --- parts ------------------------------------------------------------------------------------


@FUNCTIONS.elementwise("isempty(anyrange)", raises=False)
def _is_empty(value: Range) -> bool:
    return value.lower is None


@FUNCTIONS.elementwise("lower(anyrange)", raises=False)
def _lower(value: Range) -> Any:
    return None if value.lower is None else value.lower.value


@FUNCTIONS.elementwise("upper(anyrange)", raises=False)
def _upper(value: Range) -> Any:
    return None if value.upper is None else value.upper.value


@FUNCTIONS.elementwise("lower_inc(anyrange)", raises=False)
def _has_lower(value: Range) -> bool:
    return value.lower is not None and value.lower.inclusive


@FUNCTIONS.elementwise("upper_inc(anyrange)", raises=False)
def _has_upper(value: Range) -> bool:
    return value.upper is not None and value.upper.inclusive


@FUNCTIONS.elementwise("lower_inf(anyrange)", raises=False)
def _is_without_lower(value: Range) -> bool:
    return value.lower is not None and value.lower.value is None


@FUNCTIONS.elementwise("upper_inf(anyrange)", raises=False)
def _is_without_upper(value: Range) -> bool:
    return value.upper is not None and value.upper.value is None


# --- union, intersection, difference ----------------------------------------------------------


def _lesser(left: Bound, right: Bound) -> Bound:
    """The lesser bound; if both are equal, the second."""
    return left if compare_bounds(left, right) < 0 else right


def _greater(left: Bound, right: Bound) -> Bound:
    """The greater bound; if both are equal, the second."""
    return left if compare_bounds(left, right) > 0 else right


@FUNCTIONS.elementwise("range_merge(anyrange,anyrange)")
def _merged(left: Range, right: Range) -> Range:
    """The smallest range that contains both ranges."""
    ends = _ends(left, right)
    if ends is None:
        return right if left.lower is None else left
    low, high, other_low, other_high = ends
    return make(left.oid, _lesser(low, other_low), _greater(high, other_high))


@FUNCTIONS.elementwise("range_union(anyrange,anyrange)")
def _union(left: Range, right: Range) -> Range:
    if _ends(left, right) is not None and not _overlaps(left, right) and not _adjacent(left, right):
        raise RowFilterError("result of range union would not be contiguous", sqlstate="22000")
    return _merged(left, right)


@FUNCTIONS.elementwise("range_intersect(anyrange,anyrange)")
def _intersection(left: Range, right: Range) -> Range:
    ends = _ends(left, right)
    if ends is None or not _overlaps(left, right):
        return Range(left.oid)
    low, high, other_low, other_high = ends
    # If the bounds are equal, the left range's bound is used, with its number of decimals.
    return make(left.oid, _greater(other_low, low), _lesser(other_high, high))


@FUNCTIONS.elementwise("range_minus(anyrange,anyrange)")
def _difference(left: Range, right: Range) -> Range:
    ends = _ends(left, right)
    if ends is None:
        return left
    low, high, other_low, other_high = ends
    lows, highs = compare_bounds(low, other_low), compare_bounds(high, other_high)
    if lows < 0 and highs > 0:
        raise RowFilterError("result of range difference would not be contiguous", sqlstate="22000")
    if compare_bounds(low, other_high) > 0 or compare_bounds(high, other_low) < 0:
        return left
    if lows >= 0 and highs <= 0:
        return Range(left.oid)
    if lows <= 0 and highs <= 0:
        return make(left.oid, low, Bound(other_low.value, not other_low.inclusive, False))
    return make(left.oid, Bound(other_high.value, not other_high.inclusive, True), high)
