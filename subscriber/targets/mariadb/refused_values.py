"""Which values a column of MariaDB cannot hold: those that :mod:`subscriber.targets.mariadb.values`
refuses to bind, and those that the server refuses in its strict mode.

The server also refuses some values that are not found here: a time zone's gap or a moment outside
the range of TIMESTAMP, which depends on the version, and a text that is too long only in the
column's character set. These stop the subscription as before.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.targets.declared_columns import declared_length, none_of, out_of_range, unfit_numbers
from subscriber.targets.mariadb.values import (
    BYTES,
    HELD_MOMENT,
    INTEGERS,
    SIZED,
    TEXTS,
    TIMES,
    as_stored,
    conversion_of,
    greatest_integer,
)
from subscriber.targets.target_table import TargetColumn
from subscriber.targets.unrepresentable import refused_one_by_one

_BLOB_BYTES: Final = {"tinyblob": 255, "blob": 65_535, "mediumblob": 16_777_215}


def unrepresentable_values(type_oid: int, column: TargetColumn, values: pa.Array) -> pa.Array:
    """For each value whether the column cannot hold it; see
    :meth:`Values.unrepresentable_values`.
    """
    if conversion_of(type_oid, column) is not None:
        refused = refused_one_by_one(lambda some: as_stored(type_oid, column, some), values)
    elif pa.types.is_boolean(values.type):
        return none_of(values)
    elif pa.types.is_floating(values.type):
        refused = pc.invert(pc.fill_null(pc.is_finite(values), True))
    elif column.storage == "decimal":
        refused = unfit_numbers(column, values.cast(pa.string()))
    elif column.storage in TIMES or column.storage == "date":
        refused = pc.fill_null(pc.invert(pc.match_substring_regex(values, HELD_MOMENT)), False)
    elif column.storage in SIZED or column.storage in BYTES or column.storage in _BLOB_BYTES:
        return _too_long(column, values)
    else:
        refused = none_of(values)
    if pa.types.is_integer(values.type) and column.storage in INTEGERS:
        greatest = greatest_integer(column)
        least = 0 if "unsigned" in column.declared_type else -greatest - 1
        # The types of both are the same for bigint, which has no greater values.
        refused = pc.or_(refused, out_of_range(values.cast(pa.int64()), least, greatest))
    return refused


def _too_long(column: TargetColumn, values: pa.Array) -> pa.Array:
    if pa.types.is_binary(values.type):
        length = declared_length(column.declared_type) if column.storage in SIZED else _BLOB_BYTES[column.storage]
        lengths = pc.binary_length(values)
    else:
        texts = values.cast(pa.string())
        if column.storage in TEXTS and column.storage in BYTES:
            length = BYTES[column.storage]
            # In another character set than utf8mb4, a character may have only one byte. A text that
            # ends with a blank would be truncated without an error.
            bytes_, characters = pc.binary_length(texts), pc.utf8_length(texts)
            lengths = pc.if_else(pc.ends_with(texts, " "), bytes_, characters)
        else:
            length, lengths = declared_length(column.declared_type), pc.utf8_length(texts)
    return none_of(values) if length is None else pc.fill_null(pc.greater(lengths, length), False)
