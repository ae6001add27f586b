r"""COPY's text format, column by column: whole lines become Arrow arrays of bytes.

Only the columns that are asked for are read. The fields are those that the server writes: a tab
between two fields, ``\N`` for NULL, and the escapes of COPY TO.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

NULL: Final = rb"\N"

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_TO_ESCAPE: Final = re.compile(rb"[\\\b\f\n\r\t\v]")
_WRITTEN: Final = {value: b"\\" + letter for letter, value in _ESCAPES.items()} | {b"\\": rb"\\"}


def copy_text_columns(lines: bytes, places: Sequence[int]) -> list[pa.Array]:
    """The values of the columns at ``places`` (from 0, at least one), without escapes; NULL is
    null. ``lines`` are whole, each with its line feed, and all have the same fields.
    """
    if not lines:
        return [pa.array([], pa.binary()) for _ in places]
    names = [f"f{place}" for place in places]
    table = csv.read_csv(
        # Arrow removes a byte order mark, which may be the first value's.
        pa.BufferReader(_BYTE_ORDER_MARK + lines if lines.startswith(_BYTE_ORDER_MARK) else lines),
        csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(lines) + 4),
        csv.ParseOptions(delimiter="\t", quote_char=False, newlines_in_values=False, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            include_columns=names,
            null_values=[NULL.decode()],
            strings_can_be_null=True,
        ),
    )
    return [_without_escapes(table.column(name).combine_chunks()) for name in names]


def _without_escapes(fields: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring(fields, "\\")).as_py():
        return fields
    return pa.array([None if field is None else _unescaped(field) for field in fields.to_pylist()], pa.binary())


def _unescaped(field: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), field)


def with_columns(lines: bytes, columns: Mapping[int, pa.Array]) -> bytes:
    """The lines with other values, texts or bytes, in the columns at these places."""
    if not lines or not columns:
        return lines
    rows = [line.split(b"\t") for line in lines.removesuffix(b"\n").split(b"\n")]
    for place, values in columns.items():
        for row, value in zip(rows, values.cast(pa.binary()).to_pylist(), strict=True):
            row[place] = NULL if value is None else _TO_ESCAPE.sub(lambda match: _WRITTEN[match[0]], value)
    return b"".join(b"\t".join(row) + b"\n" for row in rows)
