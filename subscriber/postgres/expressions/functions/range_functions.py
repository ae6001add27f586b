"""Constructors and operators of the built-in range and multirange types (``rangetypes.c``,
``multirangetypes.c``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions.function_table import elementwise, register_values
from subscriber.postgres.types.arrays import EMPTY, Array
from subscriber.postgres.types.ranges import (
    Bound,
    Multirange,
    Range,
    compare_bounds,
    compare_multiranges,
    compare_ranges,
    ends_of,
    make,
    make_multirange,
    meet,
    merged,
    parts_of,
)

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


def _multirange_constructor(oid: int) -> Callable[..., Multirange]:
    def construct(ranges: Array = EMPTY) -> Multirange:
        if len(ranges.dimensions) > 1:
            message = "multiranges cannot be constructed from multidimensional arrays"
            raise RowFilterError(message, sqlstate="21000")
        if None in ranges.elements:
            raise RowFilterError("multirange values cannot contain null members", sqlstate="22004")
        return make_multirange(oid, ranges.elements)

    return construct


def _multirange_of(value: Range) -> Multirange:
    return make_multirange(value.oid, (value,))


for _beginning, _oid in _CONSTRUCTORS.items():
    elementwise(f"{_beginning})", f"{_beginning},text)", strict=False)(_constructor(_oid))
    _name = _beginning.partition("(")[0]
    _many = _name.replace("range", "multirange")
    elementwise(f"{_many}()", f"{_many}(_{_name})")(_multirange_constructor(_oid))
    elementwise(f"{_many}({_name})")(_multirange_of)
elementwise("multirange(anyrange)")(_multirange_of)


# --- questions --------------------------------------------------------------------------------

register_values("range_{}(anyrange,anyrange)", compare_ranges)
register_values("multirange_{}(anymultirange,anymultirange)", compare_multiranges)

_Either = Range | Multirange
_Question = Callable[[Any, Any], bool]


def _each(operation: str, *, raises: bool = False) -> Callable[[_Question], _Question]:
    """Register a function for a range or a multirange on both sides."""
    return elementwise(
        f"range_{operation}(anyrange,anyrange)",
        f"range_{operation}_multirange(anyrange,anymultirange)",
        f"multirange_{operation}_range(anymultirange,anyrange)",
        f"multirange_{operation}_multirange(anymultirange,anymultirange)",
        raises=raises,
    )


def _by_ends(operation: str, answer: Callable[[Bound, Bound, Bound, Bound], bool]) -> None:
    """Register a function of the lowest and highest bounds; it is false for an empty value."""

    @_each(operation)
    def ask(left: _Either, right: _Either) -> bool:
        ends, others = ends_of(left), ends_of(right)
        return ends is not None and others is not None and answer(*ends, *others)


_by_ends("before", lambda _, high, other_low, __: compare_bounds(high, other_low) < 0)
_by_ends("after", lambda low, _, __, other_high: compare_bounds(low, other_high) > 0)
_by_ends("overleft", lambda _, high, __, other_high: compare_bounds(high, other_high) <= 0)
_by_ends("overright", lambda low, _, other_low, __: compare_bounds(low, other_low) >= 0)


@_each("adjacent", raises=True)
def _adjacent(left: _Either, right: _Either) -> bool:
    ends, others = ends_of(left), ends_of(right)
    if ends is None or others is None:
        return False
    return meet(left.oid, ends[1], others[0]) or meet(left.oid, others[1], ends[0])


def _is_before(left: Range, right: Range) -> bool:
    assert left.upper is not None
    assert right.lower is not None
    return compare_bounds(left.upper, right.lower) < 0


@_each("overlaps")
def _overlaps(left: _Either, right: _Either) -> bool:
    return any(
        not _is_before(one, other) and not _is_before(other, one) for one in parts_of(left) for other in parts_of(right)
    )


def _range_contains(whole: Range, part: Range) -> bool:
    assert whole.lower is not None
    assert whole.upper is not None
    assert part.lower is not None
    assert part.upper is not None
    return compare_bounds(whole.lower, part.lower) <= 0 and compare_bounds(whole.upper, part.upper) >= 0


@_each("contains")
def _contains(whole: _Either, part: _Either) -> bool:
    return all(any(_range_contains(one, other) for one in parts_of(whole)) for other in parts_of(part))


@_each("contained_by")
def _contained(part: _Either, whole: _Either) -> bool:
    return _contains(whole, part)


@elementwise(
    "range_contains_elem(anyrange,anyelement)", "multirange_contains_elem(anymultirange,anyelement)", raises=False
)
def _contains_element(whole: _Either, value: Any) -> bool:
    return _contains(whole, Range(whole.oid, Bound(value, True, True), Bound(value, True, False)))


elementwise(
    "elem_contained_by_range(anyelement,anyrange)",
    "elem_contained_by_multirange(anyelement,anymultirange)",
    raises=False,
)(lambda value, whole: _contains_element(whole, value))


# --- parts ------------------------------------------------------------------------------------


def _of_end(name: str, of: Callable[[Bound], Any], empty: Any) -> None:
    """Register a function of each bound; ``empty`` is the result for an empty value."""

    def register(word: str, place: int) -> None:
        def value_of(value: _Either) -> Any:
            ends = ends_of(value)
            return empty if ends is None else of(ends[place])

        signatures = (f"{name.format(word)}({kind})" for kind in ("anyrange", "anymultirange"))
        elementwise(*signatures, raises=False)(value_of)

    register("lower", 0)
    register("upper", 1)


_of_end("{}", lambda bound: bound.value, None)
_of_end("{}_inc", lambda bound: bound.inclusive, False)
_of_end("{}_inf", lambda bound: bound.value is None, False)
elementwise("isempty(anyrange)", "isempty(anymultirange)", raises=False)(lambda value: not parts_of(value))


# --- union, intersection, difference ----------------------------------------------------------

elementwise("range_merge(anyrange,anyrange)")(merged)


@elementwise("range_merge(anymultirange)")
def _merged_ranges(value: Multirange) -> Range:
    if len(value.ranges) < 2:
        return value.ranges[0] if value.ranges else Range(value.oid)
    ends = ends_of(value)
    assert ends is not None
    return make(value.oid, *ends)


@elementwise("range_union(anyrange,anyrange)")
def _union(left: Range, right: Range) -> Range:
    if left.lower is not None and right.lower is not None and not _overlaps(left, right) and not _adjacent(left, right):
        raise RowFilterError("result of range union would not be contiguous", sqlstate="22000")
    return merged(left, right)


@elementwise("range_intersect(anyrange,anyrange)")
def _intersection(left: Range, right: Range) -> Range:
    if not _overlaps(left, right):
        return Range(left.oid)
    low, high, other_low, other_high = _bounds(left, right)
    # If the bounds are equal, the left range's bound is used, with its number of decimals.
    return make(
        left.oid,
        other_low if compare_bounds(other_low, low) > 0 else low,
        other_high if compare_bounds(other_high, high) < 0 else high,
    )


def _bounds(left: Range, right: Range) -> tuple[Bound, Bound, Bound, Bound]:
    assert left.lower is not None
    assert left.upper is not None
    assert right.lower is not None
    assert right.upper is not None
    return left.lower, left.upper, right.lower, right.upper


@elementwise("range_minus(anyrange,anyrange)")
def _difference(left: Range, right: Range) -> Range:
    rest = _without(left, right) if left.lower is not None and right.lower is not None else [left]
    if len(rest) > 1:
        raise RowFilterError("result of range difference would not be contiguous", sqlstate="22000")
    return rest[0]


def _without(left: Range, right: Range) -> list[Range]:
    """``range_split``: one range, or two if the other lies inside."""
    low, high, other_low, other_high = _bounds(left, right)
    lows, highs = compare_bounds(low, other_low), compare_bounds(high, other_high)
    before, after = (
        Bound(other_low.value, not other_low.inclusive, False),
        Bound(other_high.value, not other_high.inclusive, True),
    )
    if lows < 0 and highs > 0:
        return [make(left.oid, low, before), make(left.oid, after, high)]
    if compare_bounds(low, other_high) > 0 or compare_bounds(high, other_low) < 0:
        return [left]
    if lows >= 0 and highs <= 0:
        return [Range(left.oid)]
    return [make(left.oid, low, before) if lows <= 0 and highs <= 0 else make(left.oid, after, high)]


@elementwise("multirange_union(anymultirange,anymultirange)")
def _multirange_union(left: Multirange, right: Multirange) -> Multirange:
    if not left.ranges or not right.ranges:
        return left if left.ranges else right
    return make_multirange(left.oid, left.ranges + right.ranges)


@elementwise("multirange_intersect(anymultirange,anymultirange)")
def _multirange_intersection(left: Multirange, right: Multirange) -> Multirange:
    common = [_intersection(one, other) for one in left.ranges for other in right.ranges if _overlaps(one, other)]
    return make_multirange(left.oid, common)


@elementwise("multirange_minus(anymultirange,anymultirange)")
def _multirange_difference(left: Multirange, right: Multirange) -> Multirange:
    rest = list(left.ranges)
    for other in right.ranges:
        rest = [part for one in rest for part in (_without(one, other) if one.lower is not None else ())]
    return make_multirange(left.oid, rest)
