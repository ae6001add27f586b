"""The values of range and multirange types, and their text.

A range is empty or has two bounds. A bound is infinite or has a value, which is inclusive or not.
Ranges of integers and dates are stored as ``[)``, so that equal ranges have the same text. Others
are stored as they were written. An infinite bound is a property of the range; ``infinity`` as a
date or timestamp is an ordinary value.

The ranges of a multirange are in order. None is empty, and ranges that overlap or meet have become
one.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cmp_to_key, partial
from itertools import pairwise, zip_longest
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from subscriber.base.byte_reader import Reader
from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types import family
from subscriber.postgres.types.arrays import output_texts
from subscriber.postgres.types.datetimes.date_values import DATE_INFINITIES, is_valid_date, out_of_range
from subscriber.postgres.types.equality import EXACT, Equality
from subscriber.postgres.types.numeric import canonical_inside
from subscriber.postgres.types.numeric import compare as compare_numerics
from subscriber.postgres.types.oids import type_name

_INT4, _INT8, _DATE = 23, 20, 1082
SUBTYPES: Final = {3904: _INT4, 3906: 1700, 3908: 1114, 3910: 1184, 3912: _DATE, 3926: _INT8}
"""OID of a range type → OID of its bounds' type."""
MULTIRANGES: Final = {4451: 3904, 4532: 3906, 4533: 3908, 4534: 3910, 4535: 3912, 4536: 3926}
"""OID of a multirange type → OID of its ranges' type."""
_MOST_STABLE: Final = 6
"""The number of values up to which the server's sort leaves equal values in their order."""
_DISCRETE: Final = frozenset({_INT4, _INT8, _DATE})
_SPECIAL: Final = frozenset('"\\()[],' + family.WHITESPACE)


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of a range; ``value`` is None if it is infinite."""

    value: Any
    inclusive: bool
    is_lower: bool


@dataclass(frozen=True, slots=True)
class Range:
    """The empty range has no bounds."""

    oid: int
    lower: Bound | None = None
    upper: Bound | None = None


@dataclass(frozen=True, slots=True)
class Multirange:
    """A multirange: the OID of its ranges' type, and the ranges, lowest first."""

    oid: int
    ranges: tuple[Range, ...]


def parts_of(value: Range | Multirange) -> tuple[Range, ...]:
    if isinstance(value, Multirange):
        return value.ranges
    return () if value.lower is None else (value,)


def ends_of(value: Range | Multirange) -> tuple[Bound, Bound] | None:
    """The lowest and the highest bound; None for an empty value."""
    parts = parts_of(value)
    if not parts:
        return None
    lower, upper = parts[0].lower, parts[-1].upper
    assert lower is not None
    assert upper is not None
    return lower, upper


def is_discrete(oid: int) -> bool:
    return SUBTYPES[oid] in _DISCRETE


def _values(left: Any, right: Any) -> int:
    return compare_numerics(left, right) if isinstance(left, Decimal) else family.sign(left, right)


def compare_values(left: Bound, right: Bound) -> int:
    """Regardless of whether the bounds are inclusive (``range_cmp_bound_values``)."""
    if left.value is None and right.value is None:
        return 0 if left.is_lower == right.is_lower else -1 if left.is_lower else 1
    if left.value is None:
        return -1 if left.is_lower else 1
    if right.value is None:
        return 1 if right.is_lower else -1
    return _values(left.value, right.value)


def compare_bounds(left: Bound, right: Bound) -> int:
    """An exclusive bound is directly above (lower) or below (upper) its value."""
    found = compare_values(left, right)
    if found or left.value is None or right.value is None:
        return found

    def inwards(bound: Bound) -> int:
        return 0 if bound.inclusive else 1 if bound.is_lower else -1

    return family.sign(inwards(left), inwards(right))


def compare_ranges(left: Range, right: Range) -> int:
    """``range_cmp``: the empty range comes first."""
    if left.lower is None or left.upper is None or right.lower is None or right.upper is None:
        return family.sign(left.lower is not None, right.lower is not None)
    return compare_bounds(left.lower, right.lower) or compare_bounds(left.upper, right.upper)


def compare_multiranges(left: Multirange, right: Multirange) -> int:
    """As if the shorter one had empty ranges at its end (``multirange_cmp``)."""
    pairs = zip_longest(left.ranges, right.ranges, fillvalue=Range(left.oid))
    return next((found for found in (compare_ranges(*pair) for pair in pairs) if found), 0)


def meet(oid: int, upper: Bound, lower: Bound) -> bool:
    """Nothing lies between two bounds, and they have no common value (``bounds_adjacent``)."""
    order = compare_values(upper, lower)
    if order == 0:
        return upper.inclusive != lower.inclusive
    if order > 0 or not is_discrete(oid):
        return False
    between = make(oid, Bound(upper.value, not upper.inclusive, True), Bound(lower.value, not lower.inclusive, False))
    return between.lower is None


# --- making -----------------------------------------------------------------------------------


def make(oid: int, lower: Bound, upper: Bound) -> Range:
    """``make_range``: 22000 if the lower bound is greater, 22003 or 22008 without a next value."""
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


def merged(left: Range, right: Range) -> Range:
    """The smallest range that contains both (``range_merge``), with equal bounds of the second."""
    if left.lower is None or left.upper is None or right.lower is None or right.upper is None:
        return right if left.lower is None else left
    low = left.lower if compare_bounds(left.lower, right.lower) < 0 else right.lower
    high = left.upper if compare_bounds(left.upper, right.upper) > 0 else right.upper
    return make(left.oid, low, high)


def make_multirange(oid: int, ranges: Sequence[Range]) -> Multirange:
    """``make_multirange``; NotSupportedError if the server's sort decides between equal ranges."""
    ordered = sorted(ranges, key=cmp_to_key(compare_ranges))
    moved = len(ranges) > _MOST_STABLE and ordered != list(ranges)
    if moved and any(repr(one) != repr(other) and not compare_ranges(one, other) for one, other in pairwise(ordered)):
        raise NotSupportedError("a multirange of equal ranges that are written differently is not supported")
    joined: list[Range] = []
    for one in ordered:
        if joined and joined[-1].upper is not None and one.lower is not None:
            last = joined[-1].upper
            if meet(oid, last, one.lower) or compare_bounds(last, one.lower) >= 0:
                joined[-1] = merged(joined[-1], one)
                continue
        if one.lower is not None:
            joined.append(one)
    return Multirange(oid, tuple(joined))


# --- text -------------------------------------------------------------------------------------


def _malformed(detail: str, kind: str = "range") -> DataException:
    return DataException(f"malformed {kind} literal", sqlstate="22P02", detail=detail)


def range_in(oid: int, subtype: family.Form, text: str) -> Range:
    word = text.strip(family.WHITESPACE)
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
    """``range_parse_bound``: the text (None: infinite), and the position after it."""
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


_ONE_RANGE: Final = re.compile(r'(?:[^"\\\])]|\\\s*\S|"(?:[^"\\]|""|\\\s*\S)*+")*+[\])]', re.DOTALL | re.ASCII)
"""The rest of a range after its first bracket. White space after a backslash is skipped."""


def multirange_in(oid: int, subtype: family.Form, text: str) -> Multirange:
    def malformed(detail: str) -> DataException:
        return _malformed(detail, "multirange")

    word = text.strip(family.WHITESPACE)
    if not word.startswith("{"):
        raise malformed("Missing left brace.")
    ranges: list[Range] = []
    rest, seen = word[1:].lstrip(family.WHITESPACE), False
    while not (rest.startswith("}") and not seen):
        if rest[:1] in {"[", "("}:
            found = _ONE_RANGE.match(rest, 1)
            if found is None:
                raise malformed("Unexpected end of input.")
            ranges.append(range_in(oid, subtype, rest[: found.end()]))
            rest = rest[found.end() :]
        elif rest[:5].lower() == "empty":
            rest = rest[5:]
        else:
            raise malformed("Expected range start." if rest else "Unexpected end of input.")
        rest, seen = rest.lstrip(family.WHITESPACE), True
        if rest.startswith("}"):
            break
        if not rest.startswith(","):
            raise malformed("Expected comma or end of multirange." if rest else "Unexpected end of input.")
        rest = rest[1:].lstrip(family.WHITESPACE)
    if rest != "}":
        raise malformed("Junk after closing right brace.")
    return make_multirange(oid, ranges)


def multirange_out(subtype: family.Form, value: Multirange) -> str:
    return "{" + ",".join(range_out(subtype, one) for one in value.ranges) + "}"


def range_out(subtype: family.Form, value: Range) -> str:
    if value.lower is None or value.upper is None:
        return "empty"
    low, high = (None if one.value is None else subtype.to_text(one.value) for one in (value.lower, value.upper))
    return range_text(low, high, value.lower.inclusive, value.upper.inclusive)


def range_text(lower: str | None, upper: str | None, lower_inclusive: bool, upper_inclusive: bool) -> str:
    """The text of a range from the texts of its bounds (``range_deparse``). None is an infinite
    bound.

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


T = TypeVar("T")

_OF_NUMERIC: Final = frozenset({3906, 4532})
_EMPTY, _LOWER_INCLUDED, _UPPER_INCLUDED, _LOWER_INFINITE, _UPPER_INFINITE = 1, 2, 4, 8, 16
_FLAGS: Final = 31
_LENGTH_SIZE: Final = 4


class _Range(NamedTuple):
    flags: int
    has_lower: bool
    has_upper: bool


def _from_binary(name: str, bounds: family.TypeFamily, array: pa.BinaryArray) -> pa.StringArray:
    """Layout: flags u8, then for each finite bound its length i32 and its bytes."""
    values: list[bytes] = []
    ranges = family.each_value(name, partial(_range, values), array)
    texts = iter(output_texts(bounds.decode_binary(pa.array(values, type=pa.binary()))))
    return pa.array([_written(one, texts) for one in ranges], type=pa.string())


def _multirange_from_binary(name: str, ranges: family.TypeFamily, array: pa.BinaryArray) -> pa.StringArray:
    """Layout: number of ranges i32, then the length i32 and the bytes of each range."""
    values: list[bytes] = []
    counts = family.each_value(name, partial(_multirange, values), array)
    texts = iter(ranges.decode_binary(pa.array(values, type=pa.binary())).to_pylist())
    return pa.array(["{" + ",".join(next(texts) for _ in range(count)) + "}" for count in counts], type=pa.string())


def _range(values: list[bytes], wire: Reader) -> _Range:
    flags = wire.number("B") & _FLAGS
    found = _Range(flags, not flags & (_EMPTY | _LOWER_INFINITE), not flags & (_EMPTY | _UPPER_INFINITE))
    values.extend(_part(wire) for _ in range(found.has_lower + found.has_upper))
    return found


def _multirange(values: list[bytes], wire: Reader) -> int:
    count = wire.count(wire.number("i"), _LENGTH_SIZE)
    values.extend(_part(wire) for _ in range(count))
    return count


def _part(wire: Reader) -> bytes:
    return wire.bytes(wire.count(wire.number("i"), 1))


def _written(found: _Range, texts: Iterator[str]) -> str:
    if found.flags & _EMPTY:
        return "empty"
    lower = next(texts) if found.has_lower else None
    upper = next(texts) if found.has_upper else None
    return range_text(lower, upper, bool(found.flags & _LOWER_INCLUDED), bool(found.flags & _UPPER_INCLUDED))


def range_send(oid: int, bounds: family.TypeFamily, text: str) -> bytes:
    """``range_send``; ``bounds`` has a form and a send function."""
    assert bounds.form is not None
    assert bounds.send is not None
    value = range_in(oid, bounds.form, text)
    if value.lower is None or value.upper is None:
        return bytes([_EMPTY])
    flags, parts = 0, b""
    for bound, included, infinite in (
        (value.lower, _LOWER_INCLUDED, _LOWER_INFINITE),
        (value.upper, _UPPER_INCLUDED, _UPPER_INFINITE),
    ):
        flags |= infinite if bound.value is None else included if bound.inclusive else 0
        if bound.value is not None:
            parts += family.sized(bounds.send(bounds.form.to_text(bound.value)))
    return bytes([flags]) + parts


def multirange_send(oid: int, ranges: family.TypeFamily, bounds: family.TypeFamily, text: str) -> bytes:
    assert bounds.form is not None
    assert ranges.send is not None
    parts = [range_out(bounds.form, one) for one in multirange_in(oid, bounds.form, text).ranges]
    return struct.pack(">i", len(parts)) + b"".join(family.sized(ranges.send(part)) for part in parts)


def range_families(by_oid: Mapping[int, family.TypeFamily]) -> tuple[family.TypeFamily, ...]:
    ranges = {
        oid: _family(
            oid,
            partial(_from_binary, type_name(oid), by_oid[subtype]),
            _form(oid, by_oid[subtype].form),
            partial(range_send, oid, by_oid[subtype]),
        )
        for oid, subtype in SUBTYPES.items()
    }
    multiranges = (
        _family(
            oid,
            partial(_multirange_from_binary, type_name(oid), ranges[part]),
            _multirange_form(part, by_oid[SUBTYPES[part]].form),
            partial(multirange_send, part, ranges[part], by_oid[SUBTYPES[part]]),
        )
        for oid, part in MULTIRANGES.items()
    )
    return (*ranges.values(), *multiranges)


def _form(oid: int, subtype: family.Form | None) -> family.Form:
    assert subtype is not None
    read, write = partial(range_in, oid, subtype), partial(range_out, subtype)
    return family.Form(family.without_modifier(read), write, compare=compare_ranges)


def _multirange_form(oid: int, subtype: family.Form | None) -> family.Form:
    assert subtype is not None
    read, write = partial(multirange_in, oid, subtype), partial(multirange_out, subtype)
    return family.Form(family.without_modifier(read), write, compare=compare_multiranges)


def _family(oid: int, from_binary: family.Decoder, form: family.Form, send: family.Send) -> family.TypeFamily:
    equality = Equality(canonical=canonical_inside) if oid in _OF_NUMERIC else EXACT
    return family.of_decoders(
        type_name(oid), oid, pa.string(), family.as_text, from_binary, form, equality=equality, send=send
    )
