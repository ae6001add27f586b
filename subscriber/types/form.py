"""The form in which a type's values are computed with: PostgreSQL's own, where Python has the like.

::

    text ──from_text──▶ value (Python) ◀──▶ Arrow array, where the form has an Arrow type
         ◀──to_text───

    type                   value (Python)                                  column
    bool                   bool                                            pa.bool_()
    int2 int4 int8 oid     int                                             of as many bits; oid 64
    float4 float8          float                                           pa.float32() pa.float64()
    text and its kin       str, blanks kept                                pa.string()
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

The infinities of a date and a timestamp are the least and the greatest integer of its size.
NULL is None, and Arrow's null.

Input functions raise :class:`~subscriber.errors.DataException` with PostgreSQL's SQLSTATE and a
message that does not show the text; whoever calls them adds where it happened. A notation that
PostgreSQL reads and that is not read here is refused with NotSupportedError, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from subscriber.errors import DataException

FromText = Callable[[str, int], Any]
"""A type's input function: text and type modifier (-1 for none) → value."""
ToText = Callable[[Any], str]
"""A type's output function, as a replication session would print it (ISO dates, UTC, bytea in hex).
"""
FromTexts = Callable[[pa.StringArray], Any]
"""The input function over a column of what a replication session prints → an Arrow array, or a list
where the form has no Arrow type."""
Compare = Callable[[Any, Any], int]
"""Less than, equal to or greater than zero, as the first value is to the second."""

WHITESPACE: Final = " \t\n\v\f\r"
"""What input functions skip at both ends: C's isspace."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of some types.

    Attributes:
        from_text: their input function.
        to_text: their output function.
        arrow: the Arrow type of a column of them; None where only Python holds the values.
        from_texts: a column of output texts at once; without it, text is what it is where ``arrow``
            is a string, and ``from_text`` reads each distinct one otherwise.
        compare: their default order, in which two NaNs are equal; None where it is not known. Only
            types that have one have a form of their arrays.
    """

    from_text: FromText
    to_text: ToText
    arrow: pa.DataType | None = None
    from_texts: FromTexts | None = None
    compare: Compare | None = None


def without_modifier(read: Callable[[str], Any]) -> FromText:
    """The input function of a type that takes no modifier."""
    # No function inside this one: families travel to Spark's executors.
    return partial(_without_modifier, read)


def _without_modifier(read: Callable[[str], Any], text: str, _: int) -> Any:
    return read(text)


def sign(left: Any, right: Any) -> int:
    """The order of two values of one Python type that orders them as PostgreSQL does."""
    return int(left > right) - int(left < right)


def invalid_syntax(name: str, text: str | None = None, *, sqlstate: str = "22P02") -> DataException:
    """The error for text that is no value of a type.

    Args:
        name: of the type, as PostgreSQL's message has it.
        text: what was read, for :attr:`~subscriber.errors.DataException.quoting`.
        sqlstate: 22007 for dates and times.
    """
    message = f"invalid input syntax for type {name}"
    return DataException(message, sqlstate=sqlstate, quoting=None if text is None else f'{message}: "{text}"')
