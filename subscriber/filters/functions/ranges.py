"""int4range, int8range, numrange, daterange, tsrange and tstzrange (``rangetypes.c``).

A range is empty, or has two bounds, each with a value or infinite, inclusive or not. Ranges of integers and dates are kept as ``[)``, so that
equal ones look alike; those of the other types are kept as they were written. A bound that is infinite is the range's; ``infinity``
as a date or timestamp is a value like others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.calendar import DATE_INFINITIES, is_valid_date
from subscriber.filters.functions.calendar import out_of_range as date_out_of_range
from subscriber.filters.functions.comparison import register_values, sign
from subscriber.filters.functions.forms import Form, form_of, register
from subscriber.filters.functions.function_registry import elementwise
from subscriber.filters.functions.integers import out_of_range
from subscriber.filters.functions.logic import WHITESPACE
from subscriber.filters.functions.numeric import order_of_numbers

INT4, INT8, DATE, NUMERIC, TIMESTAMP, TIMESTAMPTZ = 23, 20, 1082, 1700, 1114, 1184
SUBTYPES: Final = {3904: INT4, 3906: NUMERIC, 3908: TIMESTAMP, 3910: TIMESTAMPTZ, 3912: DATE, 3926: INT8}
"""Of the range types, by OID."""
_CONSTRUCTORS: Final = {
    "int4range(int4,int4": 3904,
    "numrange(numeric,numeric": 3906,
    "tsrange(timestamp,timestamp": 3908,
    "tstzrange(timestamptz,timestamptz": 3910,
    "daterange(date,date": 3912,
    "int8range(int8,int8": 3926,
}
_SPECIAL: Final = frozenset('"\\()[],' + WHITESPACE)


@dataclass(frozen=True, slots=True)
class Bound:
    """An end of a range.

    Attributes:
        value: None where it is infinite.
        inclusive: the value is in the range.
        is_lower: it is the lower one.
    """

    value: Any
    inclusive: bool
    is_lower: bool


@dataclass(frozen=True, slots=True)
class Range:
    """A range of a type; the empty one has no bounds."""

    oid: int
    lower: Bound | None = None
    upper: Bound | None = None


def _values(left: Any, right: Any) -> int:
    return order_of_numbers(left, right) if isinstance(left, Decimal) else sign(left, right)


def _compare_values(left: Bound, right: Bound) -> int:
    """``range_cmp_bound_values``: whether they are inclusive does not count."""
    if left.value is None and right.value is None:
        return 0 if left.is_lower == right.is_lower else -1 if left.is_lower else 1
    if left.value is None:
        return -1 if left.is_lower else 1
    if right.value is None:
        return 1 if right.is_lower else -1
    return _values(left.value, right.value)


def _compare(left: Bound, right: Bound) -> int:
    """``range_cmp_bounds``: an end that is not in the range lies beside its value, inwards."""
    found = _compare_values(left, right)
    if found or left.value is None or right.value is None:
        return found

    def inwards(bound: Bound) -> int:
        return 0 if bound.inclusive else 1 if bound.is_lower else -1

    return sign(inwards(left), inwards(right))


# --- making -----------------------------------------------------------------------------------


def make(oid: int, lower: Bound, upper: Bound) -> Range:
    """``make_range``: in the form in which the type keeps it.

    Raises:
        RowFilterError: 22000, the bounds are the wrong way round; 22003 or 22008, there is no next value.
    """
    found = _checked(oid, lower, upper)
    subtype = SUBTYPES[oid]
    if found.lower is None or found.upper is None or subtype not in {INT4, INT8, DATE}:
        return found
    low, high = found.lower, found.upper
    if _has_next(subtype, low) and not low.inclusive:
        low = Bound(_next(subtype, low.value), True, True)
    if _has_next(subtype, high) and high.inclusive:
        high = Bound(_next(subtype, high.value), False, False)
    return _checked(oid, low, high)


def _checked(oid: int, lower: Bound, upper: Bound) -> Range:
    """``range_serialize``."""
    order = _compare_values(lower, upper)
    if order > 0:
        message = "range lower bound must be less than or equal to range upper bound"
        raise RowFilterError(message, sqlstate="22000")
    if order == 0 and not (lower.inclusive and upper.inclusive):
        return Range(oid)
    low, high = (replace(one, inclusive=one.inclusive and one.value is not None) for one in (lower, upper))
    return Range(oid, low, high)


def _has_next(subtype: int, bound: Bound) -> bool:
    return bound.value is not None and not (subtype == DATE and bound.value in DATE_INFINITIES)


def _next(subtype: int, value: int) -> int:
    if subtype == DATE:
        if not is_valid_date(value + 1):
            raise date_out_of_range("date")
    elif value + 1 == (2**31 if subtype == INT4 else 2**63):
        raise out_of_range("integer" if subtype == INT4 else "bigint")
    return value + 1


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
    elementwise(f"{_beginning})", f"{_beginning},text)", strict=False)(_constructor(_oid))


# --- text -------------------------------------------------------------------------------------


def _malformed(detail: str) -> RowFilterError:
    return RowFilterError("malformed range literal", sqlstate="22P02", detail=detail)


def _from_text(oid: int, text: str) -> Range:
    """``range_in``."""
    word = text.strip(WHITESPACE)
    if word[:5].lower() == "empty":
        if len(word) > 5:
            raise _malformed('Junk after "empty" key word.')
        return Range(oid)
    if word[:1] not in {"[", "("}:
        raise _malformed("Missing left parenthesis or bracket.")
    lower, at = _bound_text(word, 1)
    if word[at] != ",":
        raise _malformed("Missing comma after lower bound.")
    upper, at = _bound_text(word, at + 1)
    if word[at] == ",":
        raise _malformed("Too many commas.")
    if at + 1 < len(word):
        raise _malformed("Junk after right parenthesis or bracket.")
    form = form_of(SUBTYPES[oid])
    assert form is not None
    values = [None if one is None else form.from_text(one, -1) for one in (lower, upper)]
    return make(oid, Bound(values[0], word[0] == "[", True), Bound(values[1], word[at] == "]", False))


def _bound_text(text: str, at: int) -> tuple[str | None, int]:
    """``range_parse_bound``: the text of a bound, None for infinite, and where the character behind it is."""
    if text[at : at + 1] and text[at] in ",)]":
        return None, at
    found, quoted = [], False
    while at < len(text) and (quoted or text[at] not in ",)]"):
        character = text[at]
        at += 1
        if character == "\\":
            found.append(text[at : at + 1])
            at += 1
        elif character == '"' and quoted and text[at : at + 1] == '"':
            found.append('"')
            at += 1
        elif character == '"':
            quoted = not quoted
        else:
            found.append(character)
    if at >= len(text):
        raise _malformed("Unexpected end of input.")
    return "".join(found), at


def _to_text(value: Range) -> str:
    """``range_out``."""
    if value.lower is None or value.upper is None:
        return "empty"
    ends = "[" if value.lower.inclusive else "(", "]" if value.upper.inclusive else ")"
    form = form_of(SUBTYPES[value.oid])
    assert form is not None
    low, high = ("" if one.value is None else _escaped(form.to_text(one.value)) for one in (value.lower, value.upper))
    return f"{ends[0]}{low},{high}{ends[1]}"


def _escaped(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"' if _SPECIAL & set(text) else text


def _register(oid: int) -> None:
    register(Form((oid,), lambda text, _: _from_text(oid, text), _to_text))


for _oid in SUBTYPES:
    _register(_oid)


# --- questions --------------------------------------------------------------------------------


def _order(left: Range, right: Range) -> int:
    """``range_cmp``: the empty range comes first."""
    if left.lower is None or right.lower is None:
        return sign(left.lower is not None, right.lower is not None)
    assert left.upper is not None
    assert right.upper is not None
    return _compare(left.lower, right.lower) or _compare(left.upper, right.upper)


register_values("range_{}(anyrange,anyrange)", _order)

_Ends = tuple[Bound, Bound, Bound, Bound]


def _question(signature: str) -> Callable[[Callable[[Bound, Bound, Bound, Bound], bool]], Callable[..., bool]]:
    """Register a question that has the answer no for an empty range, of the ends of the left and of the right one."""

    def decorate(answer: Callable[[Bound, Bound, Bound, Bound], bool]) -> Callable[..., bool]:
        def ask(left: Range, right: Range) -> bool:
            ends = _ends(left, right)
            return ends is not None and answer(*ends)

        elementwise(signature)(ask)
        return ask

    return decorate


def _ends(left: Range, right: Range) -> _Ends | None:
    if left.lower is None or left.upper is None or right.lower is None or right.upper is None:
        return None
    return left.lower, left.upper, right.lower, right.upper


@_question("range_before(anyrange,anyrange)")
def _before(_low: Bound, high: Bound, other_low: Bound, _other_high: Bound) -> bool:
    return _compare(high, other_low) < 0


@_question("range_after(anyrange,anyrange)")
def _after(low: Bound, _high: Bound, _other_low: Bound, other_high: Bound) -> bool:
    return _compare(low, other_high) > 0


@_question("range_overleft(anyrange,anyrange)")
def _not_right_of(_low: Bound, high: Bound, _other_low: Bound, other_high: Bound) -> bool:
    return _compare(high, other_high) <= 0


@_question("range_overright(anyrange,anyrange)")
def _not_left_of(low: Bound, _high: Bound, other_low: Bound, _other_high: Bound) -> bool:
    return _compare(low, other_low) >= 0


@_question("range_overlaps(anyrange,anyrange)")
def _overlaps(low: Bound, high: Bound, other_low: Bound, other_high: Bound) -> bool:
    return _compare(low, other_high) <= 0 and _compare(other_low, high) <= 0


@elementwise("range_adjacent(anyrange,anyrange)")
def _adjacent(left: Range, right: Range) -> bool:
    ends = _ends(left, right)
    if ends is None:
        return False
    low, high, other_low, other_high = ends
    return _meet(left.oid, high, other_low) or _meet(left.oid, other_high, low)


def _meet(oid: int, upper: Bound, lower: Bound) -> bool:
    """``bounds_adjacent``: nothing is between them, and they have nothing in common."""
    order = _compare_values(upper, lower)
    if order == 0:
        return upper.inclusive != lower.inclusive
    if order > 0 or SUBTYPES[oid] not in {INT4, INT8, DATE}:
        return False
    between = make(oid, Bound(upper.value, not upper.inclusive, True), Bound(lower.value, not lower.inclusive, False))
    return between.lower is None


@elementwise("range_contains(anyrange,anyrange)", raises=False)
def _contains(whole: Range, part: Range) -> bool:
    if part.lower is None:
        return True
    ends = _ends(whole, part)
    return ends is not None and _compare(ends[0], ends[2]) <= 0 and _compare(ends[1], ends[3]) >= 0


@elementwise("range_contained_by(anyrange,anyrange)", raises=False)
def _contained(part: Range, whole: Range) -> bool:
    return _contains(whole, part)


@elementwise("range_contains_elem(anyrange,anyelement)", raises=False)
def _contains_element(whole: Range, value: Any) -> bool:
    if whole.lower is None or whole.upper is None:
        return False
    low, high = Bound(value, True, True), Bound(value, True, False)
    return _compare(whole.lower, low) <= 0 and _compare(whole.upper, high) >= 0


@elementwise("elem_contained_by_range(anyelement,anyrange)", raises=False)
def _element_contained(value: Any, whole: Range) -> bool:
    return _contains_element(whole, value)


# --- parts ------------------------------------------------------------------------------------


@elementwise("isempty(anyrange)", raises=False)
def _is_empty(value: Range) -> bool:
    return value.lower is None


@elementwise("lower(anyrange)", raises=False)
def _lower(value: Range) -> Any:
    return None if value.lower is None else value.lower.value


@elementwise("upper(anyrange)", raises=False)
def _upper(value: Range) -> Any:
    return None if value.upper is None else value.upper.value


@elementwise("lower_inc(anyrange)", raises=False)
def _has_lower(value: Range) -> bool:
    return value.lower is not None and value.lower.inclusive


@elementwise("upper_inc(anyrange)", raises=False)
def _has_upper(value: Range) -> bool:
    return value.upper is not None and value.upper.inclusive


@elementwise("lower_inf(anyrange)", raises=False)
def _is_without_lower(value: Range) -> bool:
    return value.lower is not None and value.lower.value is None


@elementwise("upper_inf(anyrange)", raises=False)
def _is_without_upper(value: Range) -> bool:
    return value.upper is not None and value.upper.value is None


# --- union, intersection, difference ----------------------------------------------------------


def _lesser(left: Bound, right: Bound) -> Bound:
    """Of equal ones, the second."""
    return left if _compare(left, right) < 0 else right


def _greater(left: Bound, right: Bound) -> Bound:
    """Of equal ones, the second."""
    return left if _compare(left, right) > 0 else right


@elementwise("range_merge(anyrange,anyrange)")
def _merged(left: Range, right: Range) -> Range:
    """The least range that contains both."""
    ends = _ends(left, right)
    if ends is None:
        return right if left.lower is None else left
    low, high, other_low, other_high = ends
    return make(left.oid, _lesser(low, other_low), _greater(high, other_high))


@elementwise("range_union(anyrange,anyrange)")
def _union(left: Range, right: Range) -> Range:
    if _ends(left, right) is not None and not _overlaps(left, right) and not _adjacent(left, right):
        raise RowFilterError("result of range union would not be contiguous", sqlstate="22000")
    return _merged(left, right)


@elementwise("range_intersect(anyrange,anyrange)")
def _intersection(left: Range, right: Range) -> Range:
    ends = _ends(left, right)
    if ends is None or not _overlaps(left, right):
        return Range(left.oid)
    low, high, other_low, other_high = ends
    # Of equal bounds the left one's counts, with its decimals.
    return make(left.oid, _greater(other_low, low), _lesser(other_high, high))


@elementwise("range_minus(anyrange,anyrange)")
def _difference(left: Range, right: Range) -> Range:
    ends = _ends(left, right)
    if ends is None:
        return left
    low, high, other_low, other_high = ends
    lows, highs = _compare(low, other_low), _compare(high, other_high)
    if lows < 0 and highs > 0:
        raise RowFilterError("result of range difference would not be contiguous", sqlstate="22000")
    if _compare(low, other_high) > 0 or _compare(high, other_low) < 0:
        return left
    if lows >= 0 and highs <= 0:
        return Range(left.oid)
    if lows <= 0 and highs <= 0:
        return make(left.oid, low, Bound(other_low.value, not other_low.inclusive, False))
    return make(left.oid, Bound(other_high.value, not other_high.inclusive, True), high)
