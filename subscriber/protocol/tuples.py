"""Parses the tuples of many messages together, column by column.

It reads the same bytes as :mod:`subscriber.protocol.decode`. A micro-batch has many tuples of one
relation, one after the other in one buffer, with message headers and other relations' messages
between them. They all have the same number of columns, so that one numpy step can read column *j*
of every tuple at once::

    buffer  ..|I....N|0 2|t|0 0 0 1|7|n|..|I....N|0 2|t|0 0 0 2|1 2|t|0 0 0 1|x|..
                      ^               ^            ^               ^
    cursor            row 0           row 0        row 1           row 1
                      column 0        column 1     column 0        column 1

``cursor`` is an array with one position for each row. A step reads the kind at every cursor, then
the length if the kind has one, and moves every cursor behind its value. No value is copied:
:class:`TupleColumns` has the places of the values, and :func:`column_bytes` makes an Arrow array of
those that are needed, which are few after row filters and folding.

Invariants
    - Nothing at or behind a row's limit is read: each gather is preceded by a comparison with
      ``limits``, so that a truncated tuple is a :class:`ProtocolError` and never includes bytes of
      the next message.
    - ``starts[j][i] <= ends[j][i] <= limits[i] <= len(buffer)``: code that has a TupleColumns may
      slice without further checks. Arrow does not check offsets; this module does.
    - NULL, unchanged and not-sent are distinguished: null is a kind and becomes an Arrow null,
      unchanged is a kind and never becomes an array element, not-sent is a column beyond
      ``ncolumns``.

*Rejected:* a loop over rows with ``struct`` (as in ``decode``: 50 times slower on rows of five
columns). *Rejected:* gathering value bytes by an index array of every byte (9 times slower than
Arrow's ``take`` on rows of 80 bytes). It is still used below for positions that are not in order.

Rules A11 (layout), A12 (``t`` may occur in a binary stream), A19 (error texts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from subscriber.errors import ProtocolError

Bytes: TypeAlias = NDArray[np.uint8]
"""One buffer of messages."""

Positions: TypeAlias = NDArray[np.int64]
"""Byte offsets into such a buffer, or row numbers."""

KIND_NULL: Final = ord("n")
KIND_UNCHANGED: Final = ord("u")
KIND_TEXT: Final = ord("t")
KIND_BINARY: Final = ord("b")

_INSUFFICIENT: Final = "insufficient data left in message"
_UNKNOWN, _BARE, _VALUED = 0, 1, 2
_FORM_OF_KIND: Final = np.full(256, _UNKNOWN, dtype=np.uint8)
_FORM_OF_KIND[[KIND_NULL, KIND_UNCHANGED]] = _BARE
_FORM_OF_KIND[[KIND_TEXT, KIND_BINARY]] = _VALUED

_KIND_SIZE: Final = 1
_COUNT_SIZE: Final = 2
_LENGTH_SIZE: Final = 4
_LARGEST_OFFSET: Final = 2**31 - 1
"""The last position that an Arrow ``binary`` array can address; beyond it, offsets need 64 bits."""


@dataclass(frozen=True, slots=True)
class TupleColumns:
    """The places of the values of some tuples of one relation, column by column (rule A11).

    Attributes:
        kinds: for each column, the kind byte of each row: ``KIND_NULL``, ``KIND_UNCHANGED``,
            ``KIND_TEXT`` or ``KIND_BINARY``.
        starts: for each column, the buffer offset of each row's first value byte; where there is no
            value, of the byte behind the kind.
        ends: for each column, the offset behind each row's last value byte (equal to the start
            where there is no value).
        end: the offset behind each tuple. The caller knows whether the message must end there (a
            new tuple) or continues (an old tuple).
    """

    kinds: tuple[Bytes, ...]
    starts: tuple[Positions, ...]
    ends: tuple[Positions, ...]
    end: Positions


def split_tuples(buffer: Bytes, starts: Positions, limits: Positions, ncolumns: int) -> TupleColumns:
    """Find every value of the tuples at ``starts`` (rules A11, A12).

    Args:
        buffer: contiguous bytes with all the messages.
        starts: the offset of each tuple's column count.
        limits: the offset behind each tuple's message.
        ncolumns: the number of columns in the relation's description.

    Raises:
        ProtocolError: a tuple is truncated, has another number of columns, or has a column of an
            unknown kind (A19). ``offset`` is the offset in ``buffer``; the detail also has the row.
    """
    if np.any(starts < 0):
        raise ValueError("a tuple cannot start before the buffer")
    view = np.ascontiguousarray(buffer)
    walk = _Walk(view, np.minimum(limits, view.size))
    cursor = walk.skip_count(starts.astype(np.int64, copy=False), ncolumns)
    kinds, firsts, ends = [], [], []
    for _ in range(ncolumns):
        kind, first, cursor = walk.read_column(cursor)
        kinds.append(kind)
        firsts.append(first)
        ends.append(cursor)
    return TupleColumns(tuple(kinds), tuple(firsts), tuple(ends), cursor)


class _Walk:
    """The bounds-checked gathers of one :func:`split_tuples`. The positions are arguments."""

    __slots__ = ("_buffer", "_lengths", "_limits")

    def __init__(self, buffer: Bytes, limits: Positions) -> None:
        self._buffer = buffer
        self._limits = limits
        # A view with a big-endian u32 at every byte position, overlapping and unaligned: it needs
        # one gather instead of four.
        readable = max(buffer.size - _LENGTH_SIZE + 1, 0)
        self._lengths = np.ndarray((readable,), dtype=">u4", buffer=buffer if readable else b"", strides=(1,))

    def skip_count(self, cursor: Positions, ncolumns: int) -> Positions:
        """Check the column counts and return the positions behind them."""
        self._demand(cursor, _COUNT_SIZE)
        count = self._buffer[cursor].astype(np.int64) << 8 | self._buffer[cursor + 1]
        wrong = count != ncolumns
        if wrong.any():
            row = int(wrong.argmax())
            raise _error(f"tuple has {count[row]} columns, its relation {ncolumns}", row, cursor)
        return cursor + _COUNT_SIZE

    def read_column(self, cursor: Positions) -> tuple[Bytes, Positions, Positions]:
        """Read the kind and find the value at every cursor; returns kinds, starts and ends."""
        self._demand(cursor, _KIND_SIZE)
        kind = self._buffer[cursor]
        form = _FORM_OF_KIND[kind]
        unknown = form == _UNKNOWN
        if unknown.any():
            row = int(unknown.argmax())
            raise _error(f"unrecognized data representation type '{_printable(int(kind[row]))}'", row, cursor)
        behind_kind = cursor + _KIND_SIZE
        valued = form == _VALUED
        if valued.all():
            return kind, *self._find_values(behind_kind, None)
        start, end = behind_kind, behind_kind.copy()
        rows = np.flatnonzero(valued)
        if rows.size:
            start = behind_kind.copy()
            start[rows], end[rows] = self._find_values(behind_kind[rows], rows)
        return kind, start, end

    def _find_values(self, cursor: Positions, rows: Positions | None) -> tuple[Positions, Positions]:
        """Read the u32 length at every cursor; returns where each value starts and ends."""
        self._demand(cursor, _LENGTH_SIZE, rows)
        start = cursor + _LENGTH_SIZE
        length = self._lengths[cursor].astype(np.int64)
        self._demand(start, length, rows)
        return start, start + length

    def _demand(self, cursor: Positions, size: Positions | int, rows: Positions | None = None) -> None:
        """Raise an error unless ``size`` more bytes belong to the message of every row."""
        limits = self._limits if rows is None else self._limits[rows]
        short = cursor + size > limits
        if short.any():
            index = int(short.argmax())
            row = index if rows is None else int(rows[index])
            raise _error(_INSUFFICIENT, row, cursor, index)


def column_bytes(
    buffer: Bytes, columns: TupleColumns, index: int, rows: Positions | None = None
) -> pa.BinaryArray | pa.LargeBinaryArray:
    """The value bytes of column ``index``, null where the value is NULL.

    Args:
        buffer: the buffer from which ``columns`` was made.
        columns: the places of the values.
        index: the column, from 0.
        rows: the rows to return, in this order; all rows by default.

    Returns:
        ``binary``, or ``large_binary`` when a value lies beyond the buffer's first 2 GiB. The array
            does not distinguish text from binary values: check ``columns.kinds`` before decoding.

    Raises:
        ValueError: the value of a selected row is unchanged (TOAST), which no array element can
            express. Callers group rows by their sent columns first, so that an unchanged value
            never becomes NULL.
    """
    kinds, starts, ends = columns.kinds[index], columns.starts[index], columns.ends[index]
    if rows is not None:
        kinds, starts, ends = kinds[rows], starts[rows], ends[rows]
    if np.any(kinds == KIND_UNCHANGED):
        raise ValueError(f"column {index} has unchanged values in the selected rows")
    null = kinds == KIND_NULL
    return _slices(np.ascontiguousarray(buffer), starts, ends, null if null.any() else None)


def _slices(
    buffer: Bytes, starts: Positions, ends: Positions, null: NDArray[np.bool_] | None
) -> pa.BinaryArray | pa.LargeBinaryArray:
    """Gather ``buffer[start:end]`` for every row.

    The starts and ends, interleaved, are the offsets of an Arrow array over the whole buffer. Its
    even elements are the values, and its odd elements are the bytes between them, so that Arrow's
    ``take`` copies the values. This requires ascending positions, as those of one batch are.
    """
    if not starts.size:
        return pa.array([], type=pa.binary())
    offsets = np.empty(2 * starts.size, dtype=np.int64)
    offsets[0::2] = starts
    offsets[1::2] = ends
    if np.any(offsets[1:] < offsets[:-1]):
        buffer, offsets = _in_order(buffer, starts, ends)
    large = int(offsets[-1]) > _LARGEST_OFFSET
    array_class, width = (pa.LargeBinaryArray, np.int64) if large else (pa.BinaryArray, np.int32)
    offset_buffer = pa.py_buffer(offsets.astype(width, copy=False))
    kind = pa.large_binary() if large else pa.binary()
    interleaved = array_class.from_buffers(kind, offsets.size - 1, [None, offset_buffer, pa.py_buffer(buffer)])
    return interleaved.take(pa.array(np.arange(0, offsets.size, 2), mask=null))


def _in_order(buffer: Bytes, starts: Positions, ends: Positions) -> tuple[Bytes, Positions]:
    """Copy values at unordered positions behind each other; returns their bytes and interleaved
    offsets.
    """
    lengths = ends - starts
    behind = np.cumsum(lengths)
    source = np.repeat(starts - (behind - lengths), lengths) + np.arange(behind[-1])
    offsets = np.empty(2 * starts.size, dtype=np.int64)
    offsets[0::2] = behind - lengths
    offsets[1::2] = behind
    return buffer[source], offsets


def _printable(byte: int) -> str:
    """A byte as ``%c`` prints it in a message; bytes that are not printable ASCII are escaped."""
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"


def _error(message: str, row: int, cursor: Positions, index: int | None = None) -> ProtocolError:
    """An error at ``cursor[index]``; ``index`` differs from ``row`` where only some rows are
    read.
    """
    offset = int(cursor[row if index is None else index])
    # Row and buffer are not in the message, since the caller may have better terms for both.
    return ProtocolError(message, offset=offset, detail=f"Tuple {row}, at offset {offset} of its buffer.")
