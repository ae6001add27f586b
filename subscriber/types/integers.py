"""smallint, integer, bigint, and the unsigned 32-bit types oid, xid and cid, which are stored as
int64.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.digits import integer_of
from subscriber.errors import DataException
from subscriber.types.family import TypeFamily, binary_numbers, family, invalid_text, packed, values_of
from subscriber.types.form import WHITESPACE, Form, invalid_syntax, sign, without_modifier

_IS_DIGIT_OR_SIGN: Final = np.isin(np.arange(256), list(b"0123456789-"))
_LAYOUTS: Final = {">i2": "h", ">i4": "i", ">i8": "q"}
_LARGEST_UNSIGNED: Final = 2**32 - 1
_INTEGER: Final = re.compile(
    r"([+-]?)(?:0[xX]((?:_?[0-9a-fA-F])+)|0[oO]((?:_?[0-7])+)|0[bB]((?:_?[01])+)|([0-9](?:_?[0-9])*))"
)
_C_INTEGER: Final = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")


def _from_text(name: str, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    # Arrow would also read 0x10, and would read 0xFFFFFFFF as -1. No output function writes these,
    # so only digits and signs are accepted.
    if _IS_DIGIT_OR_SIGN[values_of(array)[0]].all():
        try:
            return array.cast(arrow_type)
        except pa.ArrowInvalid:
            pass
    raise invalid_text(name)


def _unsigned_from_text(name: str, array: pa.BinaryArray) -> pa.Int64Array:
    numbers = _from_text(name, pa.int64(), array)
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] < 0 or bounds["max"] > _LARGEST_UNSIGNED:
        raise invalid_text(name)
    return numbers


def _from_binary(name: str, wire: str, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    return pa.array(binary_numbers(array, wire, name).astype(arrow_type.to_pandas_dtype()))


def _integer_in(name: str, bits: int, text: str) -> int:
    stripped = text.strip(WHITESPACE)
    found = _INTEGER.match(stripped)
    if found is None:
        raise invalid_syntax(name, text)
    sign, *digits = found.groups()
    base, written = next((base, one) for base, one in zip((16, 8, 2, 10), digits, strict=True) if one is not None)
    magnitude = integer_of(written.replace("_", ""), base)
    limit = 1 << bits - 1
    # The server adds digits one by one, so an overflow is detected before the text after it is
    # checked.
    if magnitude // base <= limit // base and found.end() < len(stripped):
        raise invalid_syntax(name, text)
    number = -magnitude if sign == "-" else magnitude
    if not -limit <= number < limit:
        raise _out_of_range(name, text)
    return number


int2in: Final = partial(_integer_in, "smallint", 16)
int4in: Final = partial(_integer_in, "integer", 32)
int8in: Final = partial(_integer_in, "bigint", 64)
"""The input functions of smallint, integer and bigint, which read decimal numbers, 0x, 0o, 0b and
underscores.

Raises:
    DataException: the text is not an integer (22P02), or the integer is out of range (22003).
"""


def oidin(text: str) -> int:
    """The input function of oid, which follows C's rules: 010 is octal, a negative number is taken
    modulo 2**32.

    Raises:
        DataException: the text is not an integer (22P02), or the integer is out of range (22003).
    """
    stripped = text.strip(WHITESPACE)
    found = _C_INTEGER.match(stripped)
    sign, *digits = ("", None, None, None) if found is None else found.groups()
    magnitude = next((integer_of(one, base) for base, one in zip((16, 8, 10), digits, strict=True) if one), 0)
    if found is None or (magnitude < 2**64 and found.end() < len(stripped)):
        raise invalid_syntax("oid", text)
    number = -magnitude if sign == "-" else magnitude
    if not -(2**31) <= number < 2**32:
        raise _out_of_range("oid", text)
    return number % 2**32


def _out_of_range(name: str, text: str) -> DataException:
    return DataException(
        f"value is out of range for type {name}",
        sqlstate="22003",
        quoting=f'value "{text}" is out of range for type {name}',
    )


def _signed(name: str, oid: int, arrow_type: pa.DataType, wire: str, read: Callable[[str], int]) -> TypeFamily:
    from_text = partial(_from_text, name, arrow_type)
    from_binary = partial(_from_binary, name, wire, arrow_type)
    form = Form(without_modifier(read), str, arrow_type, compare=sign)
    return family(name, (oid,), arrow_type, from_text, from_binary, form, send=partial(packed, _LAYOUTS[wire], read))


def _unsigned(name: str, oid: int, form: Form | None = None) -> TypeFamily:
    from_text = partial(_unsigned_from_text, name)
    from_binary = partial(_from_binary, name, ">u4", pa.int64())
    return family(name, (oid,), pa.int64(), from_text, from_binary, form, send=partial(packed, "I", oidin))


FAMILIES: Final = (
    _signed("smallint", 21, pa.int16(), ">i2", int2in),
    _signed("integer", 23, pa.int32(), ">i4", int4in),
    _signed("bigint", 20, pa.int64(), ">i8", int8in),
    _unsigned("oid", 26, Form(without_modifier(oidin), str, pa.int64(), compare=sign)),
    _unsigned("xid", 28),
    _unsigned("cid", 29),
)
