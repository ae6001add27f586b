r"""The text of many statements, or of an INSERT of many rows, column by column.

::

    compiled          UPDATE t SET b = %s WHERE a = %s
    pieces            ┊UPDATE t SET b = ┊   ┊ WHERE a = ┊ ┊;┊
    texts of a row                      'x'              1        one text for each row, made by Arrow

The protocol of PyMySQL has no parameters: the driver writes every value into the statement, one
after the other. Here Arrow writes all values of a column at once, in the same forms. Texts are
quoted, and a backslash and a quote are escaped by a backslash: the character set of the session is
utf8mb4, and its SQL mode is the one that :mod:`subscriber.targets.mariadb.target` sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.targets.loader import RowStatement

_MARK: Final = "\0"
"""Surrounds the index of a column in a statement. A name cannot contain this character."""


def literals(values: pa.Array) -> pa.Array:
    r"""The values as SQL.

    Args:
        values: integers, finite double precision numbers, bytes or texts.

    >>> literals(pa.array(["it's", None])).to_pylist(), literals(pa.array([0.5, 1e30])).to_pylist()
    (["'it\\'s'", 'NULL'], ['0.5e0', '1e+30'])
    """
    if pa.types.is_integer(values.type):
        texts = values.cast(pa.string())
    elif pa.types.is_floating(values.type):
        texts = values.cast(pa.string())
        # Without an exponent it would be a decimal number.
        texts = pc.if_else(pc.match_substring(texts, "e"), texts, pc.binary_join_element_wise(texts, "e0", ""))
    elif pa.types.is_binary(values.type):
        texts = pa.array([None if one is None else f"X'{one.hex()}'" for one in values.to_pylist()], pa.string())
    else:
        texts = values.cast(pa.string())
        for character in ("\\", "'"):
            texts = pc.replace_substring(texts, character, f"\\{character}")
        texts = pc.binary_join_element_wise("'", texts, "'", "")
    return pc.fill_null(texts, "NULL")


def pieces(statement: RowStatement) -> tuple[list[str], list[int]]:
    """The parts of a statement between its values, and the index of the column of each value.

    >>> pieces(RowStatement("UPDATE t SET `100%%s` = %(b)s WHERE a = %(a)s", (0, 1), ("a", "b")))
    (['UPDATE t SET `100%s` = ', ' WHERE a = ', ''], [1, 0])
    """
    marks = [f"{_MARK}{index}{_MARK}" for index in statement.order]
    filled = statement.sql % (
        tuple(marks) if statement.names is None else dict(zip(statement.names, marks, strict=True))
    )
    parts = filled.split(_MARK)
    return parts[::2], [int(index) for index in parts[1::2]]


def packets(
    head: str, parts: Sequence[str], values: Sequence[pa.Array], separator: str, *, tail: str = "", most: int
) -> Iterator[bytes]:
    """Texts of one or more rows each.

    Args:
        head: what every text begins with.
        parts: what is before, between and after the values of a row.
        values: the values of each parameter, as :func:`literals` gives them.
        separator: the character between two rows.
        tail: what every text ends with.
        most: the number of bytes that a text may have. A text of one row may be larger.
    """
    mixed: list[pa.Array | str] = [parts[0]]
    for value, part in zip(values, parts[1:], strict=True):
        mixed += [value, part]
    rows = pc.binary_join_element_wise(*mixed, separator, "")
    _, offsets, data = rows.buffers()
    ends = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + len(rows) + 1]
    text, begin, end, start = memoryview(data), head.encode(), tail.encode(), 0
    room = most - len(begin) - len(end) + 1  # the separator after the last row is not sent
    while start < len(rows):
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + room, "right")) - 1)
        yield begin + bytes(text[ends[start] : ends[stop] - 1]) + end
        start = stop
