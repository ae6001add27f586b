"""real and double precision, with NaN, the infinities and -0.

Under ``extra_float_digits`` above 0 the text is the shortest that reads back to the same number, so
both forms give the same bits. Only NaN has many bit patterns; all become the one that text gives, so
that equal keys have equal bytes.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.types.family import TypeFamily, binary_numbers, family, invalid_text, values_of

_IS_FLOAT_BYTE: Final = np.isin(np.arange(256), list(b"0123456789+-.eNaInfity"))
_EXTREMES: Final = (b"0", b"-0", b"NaN", b"Infinity", b"-Infinity")


def _from_text(name: str, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    if not _IS_FLOAT_BYTE[values_of(array)[0]].all():
        raise invalid_text(name)
    try:
        parsed = array.cast(arrow_type).to_numpy()
    except pa.ArrowInvalid:
        raise invalid_text(name) from None
    # Arrow reads 1e999 as infinite and 1e-999 as zero; so a value that came out so must have said so.
    extreme = ~np.isfinite(parsed) | (parsed == 0)
    if extreme.any() and not pc.all(pc.is_in(array.filter(pa.array(extreme)), value_set=pa.array(_EXTREMES))).as_py():
        raise invalid_text(name)
    return _numbers(parsed, arrow_type)


def _from_binary(name: str, wire: str, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    return _numbers(binary_numbers(array, wire, name).astype(arrow_type.to_pandas_dtype()), arrow_type)


def _numbers(values: np.ndarray, arrow_type: pa.DataType) -> pa.Array:
    not_a_number = np.isnan(values)
    if not_a_number.any():
        values = np.where(not_a_number, values.dtype.type(np.nan), values)
    return pa.array(values, type=arrow_type)


def _float(name: str, oid: int, arrow_type: pa.DataType, wire: str) -> TypeFamily:
    from_text = partial(_from_text, name, arrow_type)
    return family(name, (oid,), arrow_type, from_text, partial(_from_binary, name, wire, arrow_type))


FAMILIES: Final = (
    _float("real", 700, pa.float32(), ">f4"),
    _float("double precision", 701, pa.float64(), ">f8"),
)
