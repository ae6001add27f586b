"""real and double precision, with NaN, the infinities and -0.

Only NaN has many bit patterns. All of them become the one that the text gives, so that equal keys
have equal bytes.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.digits import digits_of, parse_int
from subscriber.base.errors import DataException
from subscriber.postgres.types import family
from subscriber.postgres.types.float_text import double_text, real_text

_IS_FLOAT_BYTE: Final = np.isin(np.arange(256), list(b"0123456789+-.eNaInfity"))
_EXTREMES: Final = (b"0", b"-0", b"NaN", b"Infinity", b"-Infinity")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL: Final = re.compile(
    r"([+-]?)0[xX](?=\.?[0-9a-fA-F])([0-9a-fA-F]*)(?:\.([0-9a-fA-F]*))?(?:[pP]([+-]?[0-9]+))?"
)
_LARGEST_POWER: Final = 2_000
_NAN: Final = re.compile(r"[+-]?nan(?:\([0-9a-z_]*\))?", re.IGNORECASE | re.ASCII)
"""C's strtod reads a sign and a text in parentheses, and PostgreSQL ignores them."""
_INFINITIES: Final = {
    f"{mark}{word}": -math.inf if mark == "-" else math.inf for mark in ("", "+", "-") for word in ("inf", "infinity")
}


def _from_text(name: str, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    if not _IS_FLOAT_BYTE[family.values_of(array)[0]].all():
        raise family.invalid_text(name)
    try:
        parsed = array.cast(arrow_type).to_numpy()
    except pa.ArrowInvalid:
        raise family.invalid_text(name) from None
    # Arrow reads 1e999 as infinity and 1e-999 as zero. So a result of infinity or zero is accepted
    # only if the text says so.
    extreme = ~np.isfinite(parsed) | (parsed == 0)
    if extreme.any() and not pc.all(pc.is_in(array.filter(pa.array(extreme)), value_set=pa.array(_EXTREMES))).as_py():
        raise family.invalid_text(name)
    return _numbers(parsed, arrow_type)


def _from_binary(name: str, wire: str, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    return _numbers(family.binary_numbers(array, wire, name).astype(arrow_type.to_pandas_dtype()), arrow_type)


def _numbers(values: np.ndarray, arrow_type: pa.DataType) -> pa.Array:
    not_a_number = np.isnan(values)
    if not_a_number.any():
        values = np.where(not_a_number, values.dtype.type(np.nan), values)
    return pa.array(values, type=arrow_type)


def _float_in(name: str, arrow_type: pa.DataType, text: str) -> float:
    word = text.strip(family.WHITESPACE)
    if _NAN.fullmatch(word):
        return math.nan
    if (infinity := _INFINITIES.get(word.lower())) is not None:
        return infinity
    found = _HEXADECIMAL.match(word) or _NUMBER.match(word)
    decimal = decimal_text(found[0]) if found else "0"
    value = _nearest(decimal, arrow_type)
    # An out-of-range number is detected before the text after it is checked.
    if found and (math.isinf(value) or (value == 0 and re.search("[1-9]", decimal.lower().partition("e")[0]))):
        raise DataException(
            f"value is out of range for type {name}",
            sqlstate="22003",
            quoting=f'"{found[0]}" is out of range for type {name}',
        )
    if found is None or found.end() < len(word):
        raise family.invalid_syntax(name, text)
    return value


float4in: Final = partial(_float_in, "real", pa.float32())
float8in: Final = partial(_float_in, "double precision", pa.float64())
"""The nearest number, rounded once; 22P02 if the text is not a number, 22003 if out of range."""


def decimal_text(number: str) -> str:
    """A hexadecimal number (0x1.8p3) is read as C's strtod reads it, and all digits are kept."""
    hexadecimal = _HEXADECIMAL.match(number)
    if hexadecimal is None:
        return number
    sign, whole, fraction, exponent = hexadecimal.groups(default="")
    digits = parse_int(whole + fraction, 16)
    # Beyond these limits the number is out of range anyway.
    limit = _LARGEST_POWER + 4 * len(whole + fraction)
    power = max(min(parse_int(exponent or "0"), limit), -limit) - 4 * len(fraction)
    return sign + (digits_of(digits << power) if power >= 0 else f"{digits_of(digits * 5**-power)}e{power}")


def _nearest(decimal: str, arrow_type: pa.DataType) -> float:
    parsed: float = pc.cast(pa.scalar(decimal.lstrip("+")), arrow_type).as_py()
    return parsed


def compare_floats(left: float, right: float) -> int:
    """Compare two numbers: NaN equals itself and is greater than all other numbers."""
    if math.isnan(left) or math.isnan(right):
        return family.sign(math.isnan(left), math.isnan(right))
    return family.sign(left, right)


def canonical_text(text: str) -> str:
    return "0" if text == "-0" else text


def _float(
    name: str, oid: int, arrow_type: pa.DataType, wire: str, form: family.Form, send: family.Send
) -> family.TypeFamily:
    from_text = partial(_from_text, name, arrow_type)
    from_binary = partial(_from_binary, name, wire, arrow_type)
    return family.of_decoders(name, oid, arrow_type, from_text, from_binary, form, send=send)


FAMILIES: Final = (
    _float(
        "real",
        700,
        pa.float32(),
        ">f4",
        family.Form(family.without_modifier(float4in), real_text, pa.float32(), compare=compare_floats),
        partial(family.packed, "f", float4in),
    ),
    _float(
        "double precision",
        701,
        pa.float64(),
        ">f8",
        family.Form(family.without_modifier(float8in), double_text, pa.float64(), compare=compare_floats),
        partial(family.packed, "d", float8in),
    ),
)
