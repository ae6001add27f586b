"""numeric: its exact text, with every trailing zero, NaN and the infinities.

Arrow's decimals have at most 76 digits and one scale for each column. PostgreSQL's numeric has
neither limit. Computations use a Decimal whose exponent is the negated display scale, so ``1.50``
and ``1.5`` are equal and are written as they were. There is no negative zero.
"""

from __future__ import annotations

import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from subscriber.base.digits import parse_int
from subscriber.base.errors import DataException
from subscriber.postgres.types import family
from subscriber.postgres.types.equality import Equality

_TEXT: Final = r"-?[0-9]+(?:\.[0-9]+)?|NaN|-?Infinity"
_NINE: Final = np.uint8(9)
_HEADER: Final = struct.Struct(">HhHH")
_NEGATIVE: Final = 0x4000
_SPECIAL: Final = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_INFINITE_SCALE: Final = 0x20
"""The scale that PostgreSQL sends with an infinity: bits of its header."""
_LARGEST_SCALE: Final = 0x3FFF
_DIGITS_IN_GROUP: Final = 4
_LARGEST_GROUP: Final = 9999


def _from_text(array: pa.BinaryArray) -> pa.StringArray:
    if not _are_plain(array) and not family.all_match(array, _TEXT):
        raise family.invalid_text("numeric")
    return family.as_text(array)


def _are_plain(array: pa.BinaryArray) -> bool:
    """Whether all values are digits with a point in between, without a sign: most columns with a
    scale. It takes a fifth of the time of the regular expression.
    """
    data, offsets = family.values_of(array)
    points = np.flatnonzero(data - np.uint8(ord("0")) > _NINE)
    return bool(
        len(points) == len(array)
        and np.all(data[points] == ord("."))
        and np.all((offsets[:-1] < points) & (points < offsets[1:] - 1))
    )


def _from_binary(array: pa.BinaryArray) -> pa.StringArray:
    return pa.array([_text(value) for value in array.to_pylist()], type=pa.string())


def _text(value: bytes) -> str:
    """Layout: ndigits u16, weight i16, sign u16, dscale u16, ndigits base-10000 digits u16. The
    first digit counts 10000 ** weight; dscale is the number of decimals shown.
    """
    if len(value) < _HEADER.size:
        raise family.invalid_binary("numeric")
    ndigits, weight, sign, scale = _HEADER.unpack_from(value)
    if len(value) != _HEADER.size + 2 * ndigits or scale > _LARGEST_SCALE:
        raise family.invalid_binary("numeric")
    groups = struct.unpack_from(f">{ndigits}H", value, _HEADER.size)
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    if sign not in (0, _NEGATIVE) or any(group > _LARGEST_GROUP for group in groups):
        raise family.invalid_binary("numeric")
    number = _positional("".join(f"{group:04d}" for group in groups), (weight + 1) * _DIGITS_IN_GROUP, scale)
    return f"-{number}" if sign and number.strip("0.") else number


def _positional(digits: str, point: int, scale: int) -> str:
    """Show ``scale`` decimals after ``point`` digits; further ones are truncated (numeric_recv)."""
    whole = digits[: max(point, 0)].ljust(point, "0").lstrip("0") or "0"
    decimals = ("0" * -point + digits[max(point, 0) :])[:scale].ljust(scale, "0")
    return f"{whole}.{decimals}" if scale else whole


# --- values -----------------------------------------------------------------------------------

MOST_WHOLE_DIGITS: Final = 131_072
GREATEST_SCALE: Final = 16_383
_GREATEST_EXPONENT: Final = 2**30 - 1
"""The greatest exponent that a text may have (``PG_INT32_MAX / 2``). The limit matters for zeros
only: any other number with such an exponent overflows anyway.
"""
_HEADER_OF_MODIFIER: Final = 4
_MANY_CHARACTERS: Final = 1000
"""Plain text that is shorter than this is within every limit."""

EXACT: Final = Context(prec=2 * (MOST_WHOLE_DIGITS + GREATEST_SCALE) + 10, rounding=ROUND_HALF_UP, traps=[])

_ONE: Final = Decimal(1)
_SHOWN: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_DECIMAL: Final = re.compile(
    r"([+-]?)((?:[0-9](?:_?[0-9])*)?(?:\.(?:[0-9](?:_?[0-9])*)?)?)(?:[eE]([+-]?[0-9](?:_?[0-9])*))?"
)
_OTHER_BASE: Final = re.compile(r"([+-]?)0(?:[xX]((?:_?[0-9a-fA-F])+)|[oO]((?:_?[0-7])+)|[bB]((?:_?[01])+))")
_NAMED: Final = {"nan": Decimal("NaN")} | {
    f"{mark}{word}": Decimal(f"{mark}Infinity") for mark in ("", "+", "-") for word in ("inf", "infinity")
}


def overflow() -> DataException:
    return DataException("value overflows numeric format", sqlstate="22003")


def numeric_in(text: str, modifier: int = -1) -> Decimal:
    """22P02 if the text is not a number, 22003 if the number does not fit."""
    if modifier == -1 and len(text) < _MANY_CHARACTERS and _SHOWN.fullmatch(text):
        value = Decimal(text)
        return value or value.copy_abs()
    return coerced(_parsed(text), modifier)


def _parsed(text: str) -> Decimal:
    word = text.strip(family.WHITESPACE)
    if (named := _NAMED.get(word.lower())) is not None:
        return named
    if (other := _OTHER_BASE.fullmatch(word)) is not None:
        sign, *digits = other.groups()
        base, written = next((base, one) for base, one in zip((16, 8, 2), digits, strict=True) if one is not None)
        return checked(EXACT.create_decimal(int(written.replace("_", ""), base) * (-1 if sign == "-" else 1)))
    found = _DECIMAL.match(word)
    if found is None or not found[2].strip("."):
        raise family.invalid_syntax("numeric", text)
    exponent = parse_int((found[3] or "0").replace("_", ""))
    # The server checks the exponent before the text after it.
    if abs(exponent) > _GREATEST_EXPONENT:
        raise overflow()
    if found.end() < len(word):
        raise family.invalid_syntax("numeric", text)
    decimals = len(found[2].partition(".")[2].replace("_", "")) - exponent
    if decimals > GREATEST_SCALE:
        raise overflow()
    if not found[2].strip("0_."):
        return Decimal((0, (0,), -max(decimals, 0)))
    if exponent > 2 * MOST_WHOLE_DIGITS:
        raise overflow()
    return checked(rescaled_up(EXACT.create_decimal(f"{found[1]}{found[2].replace('_', '')}").scaleb(exponent, EXACT)))


def numeric_out(value: Decimal) -> str:
    if value.is_nan():
        return "NaN"
    return str(value) if value.is_infinite() else f"{value:f}"


def _column_in(array: pa.StringArray) -> list[Decimal | None]:
    """The column is checked as a whole: reading values one by one takes most of a filter's time."""
    present = array.drop_null()
    if not len(present) or family.all_match(present, _TEXT):
        return [None if text is None else Decimal(text) for text in array.to_pylist()]
    raise family.invalid_syntax("numeric")


def numeric_send(text: str) -> bytes:
    """The send function of numeric (``numeric_send``).

    >>> numeric_send("-1.50").hex(), numeric_send("10000").hex()
    ('000200004000000200011388', '00010001000000000001')
    """
    value = numeric_in(text)
    if not value.is_finite():
        sign = next(sign for sign, name in _SPECIAL.items() if name == numeric_out(value))
        return _HEADER.pack(0, 0, sign, 0 if value.is_nan() else _INFINITE_SCALE)
    whole, _, fraction = numeric_out(value.copy_abs()).partition(".")
    point = -(-len(whole) // _DIGITS_IN_GROUP)
    digits = whole.rjust(point * _DIGITS_IN_GROUP, "0") + fraction
    digits = digits.ljust(-(-len(digits) // _DIGITS_IN_GROUP) * _DIGITS_IN_GROUP, "0")
    groups = [int(digits[at : at + _DIGITS_IN_GROUP]) for at in range(0, len(digits), _DIGITS_IN_GROUP)]
    used = [place for place, group in enumerate(groups) if group]
    if not used:
        return _HEADER.pack(0, 0, 0, len(fraction))
    first, last = used[0], used[-1]
    head = _HEADER.pack(last - first + 1, point - 1 - first, _NEGATIVE if value < 0 else 0, len(fraction))
    return head + struct.pack(f">{last - first + 1}H", *groups[first : last + 1])


def scale_of(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return -exponent


def rescaled_up(value: Decimal) -> Decimal:
    """The same value with all digits before the point, so that its scale is not negative."""
    return value.quantize(_ONE, context=EXACT) if scale_of(value) < 0 else value


def at_scale(value: Decimal, scale: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    """Round a finite value; with a negative scale, digits before the point."""
    cut = value.quantize(Decimal((0, (1,), -scale)), rounding=rounding, context=EXACT)
    return rescaled_up(cut)


def checked(value: Decimal) -> Decimal:
    """Check that a result fits, and remove the sign of a negative zero (``make_result``)."""
    if not value:
        value = value.copy_abs()
    elif value.adjusted() >= MOST_WHOLE_DIGITS:
        raise overflow()
    return at_scale(value, GREATEST_SCALE) if scale_of(value) > GREATEST_SCALE else value


def coerced(value: Decimal, modifier: int) -> Decimal:
    """Convert to ``numeric(precision, scale)`` (``apply_typmod``)."""
    if modifier < _HEADER_OF_MODIFIER or value.is_nan():
        return value
    packed = modifier - _HEADER_OF_MODIFIER
    precision, scale = packed >> 16 & 0xFFFF, (packed & 0x7FF ^ 0x400) - 0x400
    if value.is_infinite():
        raise _field_overflow(f"A field with precision {precision}, scale {scale} cannot hold an infinite value.")
    result = checked(at_scale(value, scale))
    if result and result.adjusted() >= precision - scale:
        limit = "1" if precision == scale else f"10^{precision - scale}"
        raise _field_overflow(
            f"A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
        )
    return result


def _field_overflow(detail: str) -> DataException:
    return DataException("numeric field overflow", sqlstate="22003", detail=detail)


def compare(left: Decimal, right: Decimal) -> int:
    """NaN equals itself and is greater than all other values (``cmp_numerics``)."""
    if left.is_nan() or right.is_nan():
        return int(left.is_nan()) - int(right.is_nan())
    return int(left > right) - int(left < right)


# --- equality ---------------------------------------------------------------------------------


def canonical(text: str) -> str:
    """The canonical form of a numeric: without zeros at the end of the fraction.

    >>> [canonical(text) for text in ("1.50", "100", "-0.10", "0.000", "NaN", "Infinity")]
    ['1.5', '100', '-0.1', '0', 'NaN', 'Infinity']
    """
    if _SHOWN.fullmatch(text) is None:
        return text
    number = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if number == "-0" else number


def _spellings(number: str) -> tuple[str, str]:
    """The range of all texts of a number: its canonical form, with any number of zeros added.

    The zeros follow a point if the canonical form contains none. In byte order '-' and '.' come
    before '/', and '/' comes before the digits.

    >>> _spellings("15"), _spellings("1.5")
    (('15', '15/'), ('1.5', '1.51'))
    """
    return number, number + ("1" if "." in number else "/")


_JSON_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?')


def canonical_inside(text: str) -> str:
    """The canonical form of a jsonb or a range: every numeric outside of strings is canonical.

    >>> canonical_inside('{"1.0": [1.0, "2.0"]}'), canonical_inside("{[1.0,2.50),(3,)}")
    ('{"1.0": [1, "2.0"]}', '{[1,2.5),(3,)}')
    """
    return _JSON_TOKEN.sub(lambda token: token[0] if token[0][0] == '"' else canonical(token[0]), text)


_FORM: Final = family.Form(numeric_in, numeric_out, from_texts=_column_in, compare=compare)
_EQUALITY: Final = Equality(canonical=canonical, spellings=_spellings)

FAMILIES: Final = (
    family.of_decoders(
        "numeric", 1700, pa.string(), _from_text, _from_binary, _FORM, equality=_EQUALITY, send=numeric_send
    ),
)
