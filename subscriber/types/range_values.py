"""The values of range types, and their text.

A range is empty or has two bounds. A bound is infinite or has a value, which is inclusive or not.
Ranges of integers and dates are stored as ``[)``, so that equal ranges have the same text. Ranges
of the other types are stored as they were written. An infinite bound is a property of the range;
``infinity`` as a date or timestamp is an ordinary value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from subscriber.errors import DataException
from subscriber.types.datetimes.calendar import DATE_INFINITIES, is_valid_date, out_of_range
from subscriber.types.form import WHITESPACE, Form, sign
from subscriber.types.numeric import compare as compare_numerics

_INT4, _INT8, _DATE = 23, 20, 1082
SUBTYPES: Final = {3904: _INT4, 3906: 1700, 3908: 1114, 3910: 1184, 3912: _DATE, 3926: _INT8}
"""OID of a range type → OID of its bounds' type."""
_DISCRETE: Final = frozenset({_INT4, _INT8, _DATE})
_SPECIAL: Final = frozenset('"\\()[],' + WHITESPACE)


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of a range.

    Attributes:
        value: the value of the bound; None if it is infinite.
        inclusive: whether the range contains the value.
        is_lower: whether it is the lower bound.
    """

    value: Any
    inclusive: bool
    is_lower: bool


@dataclass(frozen=True, slots=True)
class Range:
    """A value of a range type; the empty range has no bounds."""

    oid: int
    lower: Bound | None = None
    upper: Bound | None = None


def is_discrete(oid: int) -> bool:
    """Whether the subtype of a range type is discrete, so that each value has a next value."""
    return SUBTYPES[oid] in _DISCRETE


def _values(left: Any, right: Any) -> int:
    return compare_numerics(left, right) if isinstance(left, Decimal) else sign(left, right)


def compare_values(left: Bound, right: Bound) -> int:
    """Compare the values of two bounds, regardless of whether they are inclusive
    (``range_cmp_bound_values``).
    """
    if left.value is None and right.value is None:
        return 0 if left.is_lower == right.is_lower else -1 if left.is_lower else 1
    if left.value is None:
        return -1 if left.is_lower else 1
    if right.value is None:
        return 1 if right.is_lower else -1
    return _values(left.value, right.value)


def compare_bounds(left: Bound, right: Bound) -> int:
    """Compare two bounds (``range_cmp_bounds``).

    An exclusive lower bound is directly above its value, an exclusive upper bound is directly below
    it.
    """
    found = compare_values(left, right)
    if found or left.value is None or right.value is None:
        return found

    def inwards(bound: Bound) -> int:
        return 0 if bound.inclusive else 1 if bound.is_lower else -1

    return sign(inwards(left), inwards(right))


# --- making -----------------------------------------------------------------------------------


def make(oid: int, lower: Bound, upper: Bound) -> Range:
    """Make a range in the form in which its type stores it (``make_range``).

    Raises:
        DataException: 22000, the lower bound is greater; 22003 or 22008, there is no next value.
    """
    found = _checked(oid, lower, upper)
    subtype = SUBTYPES[oid]
    if found.lower is None or found.upper is None or not is_discrete(oid):
        return found
    low, high = found.lower, found.upper
    if _has_next(subtype, low) and not low.inclusive:
        low = Bound(_next(subtype, low.value), True, True)
    if _has_next(subtype, high) and high.inclusive:
        high = Bound(_next(subtype, high.value), False, False)
    return _checked(oid, low, high)


def _checked(oid: int, lower: Bound, upper: Bound) -> Range:
    """Check the bounds of a range, and detect an empty range (``range_serialize``)."""
    order = compare_values(lower, upper)
    if order > 0:
        message = "range lower bound must be less than or equal to range upper bound"
        raise DataException(message, sqlstate="22000")
    if order == 0 and not (lower.inclusive and upper.inclusive):
        return Range(oid)
    low, high = (replace(one, inclusive=one.inclusive and one.value is not None) for one in (lower, upper))
    return Range(oid, low, high)


def _has_next(subtype: int, bound: Bound) -> bool:
    return bound.value is not None and not (subtype == _DATE and bound.value in DATE_INFINITIES)


def _next(subtype: int, value: int) -> int:
    if subtype == _DATE:
        if not is_valid_date(value + 1):
            raise out_of_range("date")
    elif value + 1 == (2**31 if subtype == _INT4 else 2**63):
        name = "integer" if subtype == _INT4 else "bigint"
        raise DataException(f"{name} out of range", sqlstate="22003")
    return value + 1


# --- text -------------------------------------------------------------------------------------


def _malformed(detail: str) -> DataException:
    return DataException("malformed range literal", sqlstate="22P02", detail=detail)


def range_in(oid: int, subtype: Form, text: str) -> Range:
    """The input function of a range type.

    Args:
        oid: the OID of the range type.
        subtype: the form of the bounds' type.
        text: the text of the range.

    Raises:
        DataException: 22P02, 22000, and the errors of the subtype's input function.
    """
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
    values = [None if one is None else subtype.from_text(one, -1) for one in (lower, upper)]
    return make(oid, Bound(values[0], word[0] == "[", True), Bound(values[1], word[at] == "]", False))


def _bound_text(text: str, at: int) -> tuple[str | None, int]:
    """The text of a bound, and the position of the character after it (``range_parse_bound``).

    The text is None for an infinite bound.
    """
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


def range_out(subtype: Form, value: Range) -> str:
    """The output function of a range type whose bounds have this form."""
    if value.lower is None or value.upper is None:
        return "empty"
    low, high = (None if one.value is None else subtype.to_text(one.value) for one in (value.lower, value.upper))
    return range_text(low, high, value.lower.inclusive, value.upper.inclusive)


def range_text(lower: str | None, upper: str | None, lower_inclusive: bool, upper_inclusive: bool) -> str:
    """The text of a range from the texts of its bounds (``range_deparse``).

    None is an infinite bound, which is never inclusive.

    >>> range_text("1", None, True, True), range_text("a b", "", False, False)
    ('[1,)', '("a b","")')
    """
    left = "[" if lower is not None and lower_inclusive else "("
    right = "]" if upper is not None and upper_inclusive else ")"
    low, high = ("" if one is None else _quoted(one) for one in (lower, upper))
    return f"{left}{low},{high}{right}"


def _quoted(text: str) -> str:
    if text and not _SPECIAL & set(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
