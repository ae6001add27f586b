"""PostgreSQL's types as Spark's: the type of a column, and its values as Spark's Arrow arrays.

::

    column's bytes ──registry: decode_column──▶ Arrow array of the family ──SparkType.convert──▶ Arrow array of Spark's type

The values of most families already have Spark's type. Texts of dates, timestamps and numerics are
read by Arrow, and so are arrays, whose elements are converted together. Some values have no place
in Spark's type: the infinities, years before 1 and after 9999, NaN of a numeric, arrays of several
dimensions. They are never changed; the option ``unsupportedValues`` says what is done
(:class:`OnUnsupported`). ``docs/spark-types.md`` is generated from this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import types as spark

from subscriber.postgres.types.arrays import array_in
from subscriber.postgres.types.oids import ELEMENT_TYPES
from subscriber.postgres.types.registry import decode_column, family_of

_NUMERIC, _DATE, _TIMESTAMP, _TIMESTAMPTZ, _BOX = 1700, 1082, 1114, 1184, 603
_LARGEST_PRECISION: Final = 38
_HEADER: Final = 4
_PLAIN_ARRAY: Final = r"^\{[^{}\"\\]*\}$"
"""An array of one dimension from subscript 1, without quotes: Arrow can divide its text."""

Bad = NDArray[np.bool_]
Convert = Callable[[pa.Array], tuple[pa.Array, Bad | None]]
"""Values of the family → Spark's values, with NULL for each that Spark's type cannot hold. The
second result marks these; it is None if there are none.
"""


class OnUnsupported(StrEnum):
    """What becomes of a value that Spark's type cannot hold."""

    FAIL = "fail"
    """The query ends with an error."""
    NULL = "null"
    """The value is NULL."""
    STRING = "string"
    """Columns of types that have such values are strings, with PostgreSQL's text."""


@dataclass(frozen=True, slots=True)
class SparkType:
    """``exact``: Spark's type holds every value of PostgreSQL's type."""

    type: spark.DataType
    convert: Convert
    exact: bool = True


def spark_type(type_oid: int, modifier: int, unsupported: OnUnsupported = OnUnsupported.FAIL) -> SparkType:
    """The type of a column. A type that is not built in is a string, as PostgreSQL writes it."""
    found = _nearest(type_oid, modifier)
    return _STRING if unsupported is OnUnsupported.STRING and not found.exact else found


def _nearest(type_oid: int, modifier: int) -> SparkType:
    element = ELEMENT_TYPES.get(type_oid)
    if element == _BOX:
        return _STRING  # its elements contain commas; semicolons are between them
    if element is not None:
        one = _nearest(element, modifier)
        return SparkType(spark.ArrayType(one.type), partial(_arrays, element, one.convert), exact=False)
    if type_oid == _NUMERIC:
        return _numeric(modifier)
    if type_oid in _MOMENTS:
        return _MOMENTS[type_oid]
    return SparkType(_OF_ARROW[family_of(type_oid).arrow_type], _same)


def _numeric(modifier: int) -> SparkType:
    """decimal for a declared precision of at most 38 digits, otherwise a string."""
    if modifier < _HEADER:
        return _STRING
    packed = modifier - _HEADER
    precision, scale = packed >> 16 & 0xFFFF, (packed & 0x7FF ^ 0x400) - 0x400
    # numeric(2,-3) has five digits before the point; numeric(3,5) has five after it.
    digits, scale = max(precision - min(scale, 0), scale), max(scale, 0)
    if digits > _LARGEST_PRECISION:
        return _STRING
    return SparkType(spark.DecimalType(digits, scale), partial(_read, pa.decimal128(digits, scale)), exact=False)


def _same(values: pa.Array) -> tuple[pa.Array, Bad | None]:
    return values, None


def _read(arrow_type: pa.DataType, texts: pa.StringArray) -> tuple[pa.Array, Bad | None]:
    """Texts that Arrow reads. The others, which are rare, are found one by one."""
    try:
        return texts.cast(arrow_type), None
    except pa.ArrowInvalid:
        bad = np.zeros(len(texts), np.bool_)
        for row in range(len(texts)):
            try:
                texts.slice(row, 1).cast(arrow_type)
            except pa.ArrowInvalid:
                bad[row] = True
    return pc.if_else(pa.array(bad), pa.scalar(None, pa.string()), texts).cast(arrow_type), bad


def _arrays(element: int, convert: Convert, texts: pa.StringArray) -> tuple[pa.Array, Bad | None]:
    elements, offsets, bad = _divided(texts)
    values, bad_values = convert(decode_column(element, elements, binary=False, column=1))
    if bad_values is not None:
        owners = np.searchsorted(offsets, np.flatnonzero(bad_values), side="right") - 1
        bad[owners] = True
    null = np.asarray(texts.is_null().to_numpy(zero_copy_only=False)) | bad
    lists = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32(), mask=np.append(null, False)), values, pa.list_(values.type)
    )
    return lists, bad if bad.any() else None


def _divided(texts: pa.StringArray) -> tuple[pa.BinaryArray, NDArray[np.int32], Bad]:
    """The texts of the elements of all arrays, the offsets of each array, and which arrays are not
    of one dimension with subscripts from 1.
    """
    bad = np.zeros(len(texts), np.bool_)
    plain = pc.match_substring_regex(texts, _PLAIN_ARRAY)
    if pc.all(plain).as_py() is not False:
        inner = pc.utf8_slice_codeunits(texts, 1, -1)
        empty = np.asarray(pc.fill_null(pc.equal(inner, ""), True).to_numpy(zero_copy_only=False))
        parts = pc.split_pattern(inner, ",")
        sizes = np.where(empty, 0, pc.fill_null(pc.list_value_length(parts), 0).to_numpy(zero_copy_only=False))
        elements = pc.list_flatten(parts.filter(pa.array(~empty)))
        elements = pc.if_else(pc.equal(elements, "NULL"), pa.scalar(None, pa.string()), elements)
        return elements.cast(pa.binary()), np.concatenate(([0], np.cumsum(sizes))).astype(np.int32), bad
    offsets = [0]
    found: list[str | None] = []
    for row, text in enumerate(texts.to_pylist()):
        if text is not None:
            array = array_in(str, text)
            if len(array.dimensions) > 1 or any(lower != 1 for lower in array.lower_bounds):
                bad[row] = True
            else:
                found += array.elements
        offsets.append(len(found))
    return pa.array(found, pa.string()).cast(pa.binary()), np.array(offsets, np.int32), bad


_STRING: Final = SparkType(spark.StringType(), _same)
_OF_ARROW: Final[dict[pa.DataType, spark.DataType]] = {
    pa.bool_(): spark.BooleanType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
}
_MOMENTS: Final = {
    _DATE: SparkType(spark.DateType(), partial(_read, pa.date32()), exact=False),
    _TIMESTAMP: SparkType(spark.TimestampNTZType(), partial(_read, pa.timestamp("us")), exact=False),
    _TIMESTAMPTZ: SparkType(spark.TimestampType(), partial(_read, pa.timestamp("us", "UTC")), exact=False),
}
