"""Convert Arrow values to the text that PostgreSQL's output functions write.

Arrays and ranges need this for their elements and bounds.
"""

from __future__ import annotations

import pyarrow as pa

from subscriber.types.boolean import boolout
from subscriber.types.bytea import byteaout
from subscriber.types.float_text import double_text, real_text


def output_text(value: pa.Scalar) -> str | None:
    """The text of one value of a family's Arrow type; None for NULL."""
    return output_texts(pa.array([value.as_py()], value.type))[0] if value.is_valid else None


def output_texts(values: pa.Array) -> list[str]:
    """The text of each value of an array.

    Args:
        values: an array of a family's Arrow type, without nulls.
    """
    kind = values.type
    if pa.types.is_string(kind):
        texts: list[str] = values.to_pylist()
        return texts
    if pa.types.is_integer(kind):
        return [str(value) for value in values.to_pylist()]
    if pa.types.is_boolean(kind):
        return [boolout(value) for value in values.to_pylist()]
    if pa.types.is_binary(kind):
        return [byteaout(value) for value in values.to_pylist()]
    to_text = real_text if pa.types.is_float32(kind) else double_text
    return [to_text(value) for value in values.to_pylist()]
