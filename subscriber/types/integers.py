"""smallint, integer, bigint, and the unsigned 32-bit oid, xid and cid (as int64, which has room)."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.types.family import TypeFamily, binary_numbers, family, invalid_text, values_of

_IS_DIGIT_OR_SIGN: Final = np.isin(np.arange(256), list(b"0123456789-"))
_LARGEST_UNSIGNED: Final = 2**32 - 1


def _from_text(name: str, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    # Arrow would read 0x10 too, and 0xFFFFFFFF as -1: no output function writes that, so only digits may pass.
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


def _signed(name: str, oid: int, arrow_type: pa.DataType, wire: str) -> TypeFamily:
    from_text = partial(_from_text, name, arrow_type)
    return family(name, (oid,), arrow_type, from_text, partial(_from_binary, name, wire, arrow_type))


def _unsigned(name: str, oid: int) -> TypeFamily:
    from_text = partial(_unsigned_from_text, name)
    return family(name, (oid,), pa.int64(), from_text, partial(_from_binary, name, ">u4", pa.int64()))


FAMILIES: Final = (
    _signed("smallint", 21, pa.int16(), ">i2"),
    _signed("integer", 23, pa.int32(), ">i4"),
    _signed("bigint", 20, pa.int64(), ">i8"),
    _unsigned("oid", 26),
    _unsigned("xid", 28),
    _unsigned("cid", 29),
)
