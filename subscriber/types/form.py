"""The form of a type: the representation in which row filters compute with its values.

It is PostgreSQL's own representation where Python has an equivalent.

::

    text ──from_text──▶ value (Python) ◀──▶ Arrow array, where the form has an Arrow type
         ◀──to_text───

    type                   value (Python)                                  column
    bool                   bool                                            pa.bool_()
    int2 int4 int8 oid     int                                             signed, of as many bits; 64 for oid
    float4 float8          float                                           pa.float32() pa.float64()
    text, varchar, bpchar  str, with its blanks                            pa.string()
    bytea                  bytes                                           pa.binary()
    uuid macaddr macaddr8  bytes, 16, 6 or 8                               pa.binary()
    date                   int: days since 2000-01-01                      pa.int32()
    timestamp timestamptz  int: microseconds since 2000-01-01 (UTC)        pa.int64()
    time                   int: microseconds                               pa.int64()
    timetz                 datetimes.values.TimeTZ
    interval               datetimes.intervals.Interval
    numeric                Decimal: its exponent is the display scale
    json                   str, as it was written
    jsonb                  json.Jsonb
    inet cidr              network.Inet
    bit varbit             str of 0 and 1                                  pa.string()
    pg_lsn                 int                                             pa.uint64()
    ranges                 range_values.Range
    arrays                 array_text.Array of elements in their form

The infinities of a date and a timestamp are the least and the greatest integer of that size. NULL
is None in Python, and null in Arrow.

Input functions raise :class:`~subscriber.errors.DataException` with PostgreSQL's SQLSTATE and a
message that does not show the text. The caller adds where the error happened. A notation that
PostgreSQL reads and that cannot be read here is refused with NotSupportedError; its meaning is
never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from subscriber.errors import DataException

FromText = Callable[[str, int], Any]
"""The input function of a type: text and type modifier (-1 for none) → value."""
ToText = Callable[[Any], str]
"""The output function of a type: value → the text that a replication session prints (ISO dates,
UTC, bytea in hex).
"""
FromTexts = Callable[[pa.StringArray], Any]
"""The input function for a column of texts that a replication session prints. The result is an
Arrow array, or a list if the form has no Arrow type.
"""
Compare = Callable[[Any, Any], int]
"""Compares two values. The result is less than, equal to or greater than zero, as the first value
is to the second.
"""

WHITESPACE: Final = " \t\n\v\f\r"
"""The characters that input functions skip at both ends of a text: those of C's isspace."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one type or several types.

    Attributes:
        from_text: the input function.
        to_text: the output function.
        arrow: the Arrow type of a column of values; None if only Python objects hold the values.
        from_texts: the input function for a whole column. If it is None, the texts themselves are
            the values if ``arrow`` is a string, and otherwise ``from_text`` reads each distinct
            text.
        compare: the default order of the type, in which two NaNs are equal; None if the order is
            not known. Only types with an order have a form of their arrays.
    """

    from_text: FromText
    to_text: ToText
    arrow: pa.DataType | None = None
    from_texts: FromTexts | None = None
    compare: Compare | None = None


def without_modifier(read: Callable[[str], Any]) -> FromText:
    """The input function of a type that takes no modifier."""
    # There is no nested function here, because families are sent to Spark's executors.
    return partial(_without_modifier, read)


def _without_modifier(read: Callable[[str], Any], text: str, _: int) -> Any:
    return read(text)


def sign(left: Any, right: Any) -> int:
    """Compare two values by Python's order, for types whose order in Python is that of
    PostgreSQL.
    """
    return int(left > right) - int(left < right)


def invalid_syntax(name: str, text: str | None = None, *, sqlstate: str = "22P02") -> DataException:
    """The error for text that is not a value of a type.

    Args:
        name: the type's name in PostgreSQL's message.
        text: the text that was read, for :attr:`~subscriber.errors.DataException.quoting`.
        sqlstate: the SQLSTATE; it is 22007 for dates and times.
    """
    message = f"invalid input syntax for type {name}"
    return DataException(message, sqlstate=sqlstate, quoting=None if text is None else f'{message}: "{text}"')
