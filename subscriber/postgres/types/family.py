"""What a type is here: its family with decoders, its form, and helpers for them.

The form of a type is the representation in which row filters compute with its values. A text
becomes a form's value by ``from_text``, and a value its text by ``to_text``::

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
    timetz                 datetimes.date_values.TimeTZ
    interval               datetimes.date_values.Interval
    numeric                Decimal: its exponent is the display scale
    json                   str, as it was written
    jsonb                  json.Jsonb
    inet cidr              network.Inet
    bit varbit             str of 0 and 1                                  pa.string()
    pg_lsn                 int                                             pa.uint64()
    ranges, multiranges    ranges.Range, ranges.Multirange
    arrays                 arrays.Array of elements in their form

The infinities of a date and a timestamp are the least and the greatest integer of that size.

Input functions raise :class:`~subscriber.base.errors.DataException` with PostgreSQL's SQLSTATE and
without the text, because errors are logged (names_are_data); NotSupportedError for a notation that
PostgreSQL reads and that cannot be read here.

A decoder is a function from ``binary`` to the Arrow type of the family. It never gets a null, a
``large_binary`` or an empty array: :func:`of_decoders` wraps it, because the kind byte of the tuple
(rule A11) defines which values are NULL. :func:`of_texts` takes a function that reads a single
value from a :class:`Reader`, and gives the text of the type's output function.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.base.byte_reader import Reader
from subscriber.base.errors import DataException, NotSupportedError, ProtocolError
from subscriber.postgres.types.equality import EXACT, Equality

T = TypeVar("T")

FromText = Callable[[str, int], Any]
"""The input function of a type: text and type modifier (-1 for none) → value."""
ToText = Callable[[Any], str]
"""Writes what a replication session prints (ISO dates, UTC, bytea in hex)."""
FromTexts = Callable[[pa.StringArray], Any]
"""Reads a column of such texts to an Arrow array, or a list if the form has no Arrow type."""
Compare = Callable[[Any, Any], int]
"""Less than, equal to or greater than zero, as the first value is to the second."""

WHITESPACE: Final = " \t\n\v\f\r"
"""The characters that input functions skip at both ends of a text: those of C's isspace."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one or several types. ``arrow`` is None if only Python objects hold the values.

    ``from_texts`` is the input function for a whole column. If it is None, the texts themselves are
    the values if ``arrow`` is a string, and otherwise ``from_text`` reads each distinct text.
    ``compare`` is the default order of the type, in which two NaNs are equal; None if it is not
    known. Only types with an order have a form of their arrays.
    """

    from_text: FromText
    to_text: ToText
    arrow: pa.DataType | None = None
    from_texts: FromTexts | None = None
    compare: Compare | None = None


def without_modifier(read: Callable[[str], Any]) -> FromText:
    # There is no nested function here, because families are sent to Spark's executors.
    return partial(_without_modifier, read)


def _without_modifier(read: Callable[[str], Any], text: str, _: int) -> Any:
    return read(text)


def sign(left: Any, right: Any) -> int:
    """The order of types whose order in Python is that of PostgreSQL."""
    return int(left > right) - int(left < right)


def invalid_syntax(name: str, text: str | None = None, *, sqlstate: str = "22P02") -> DataException:
    """The error for a text that is no value of a type; 22007 for dates and times. ``text`` is for
    :attr:`~subscriber.base.errors.DataException.quoting`.
    """
    message = f"invalid input syntax for type {name}"
    return DataException(message, sqlstate=sqlstate, quoting=None if text is None else f'{message}: "{text}"')


Decoder: TypeAlias = Callable[[pa.BinaryArray], pa.Array]
Send: TypeAlias = Callable[[str], bytes]
"""The send function of a type: text → binary format. It raises the errors of the input function."""


@dataclass(frozen=True, slots=True)
class TypeFamily:
    """How values of a type are decoded, computed with, compared and sent (rule C5).

    ``decode_text`` reads the output function's text (ProtocolError 22P02, 22007, 22021),
    ``decode_binary`` the send function's bytes (22P03, 22008; NotSupportedError if not
    ``reads_binary``). Both return ``arrow_type``, which holds every value exactly. ``form`` is None
    for types whose values are only passed on. ``send`` is the inverse of ``decode_binary``, from a
    value's text; None if it is not known.
    """

    name: str
    oid: int
    arrow_type: pa.DataType
    decode_text: Decoder
    decode_binary: Decoder
    reads_binary: bool = True
    form: Form | None = None
    equality: Equality = EXACT
    send: Send | None = None


def of_decoders(
    name: str,
    oid: int,
    arrow_type: pa.DataType,
    from_text: Decoder,
    from_binary: Decoder | None = None,
    form: Form | None = None,
    *,
    equality: Equality = EXACT,
    send: Send | None = None,
) -> TypeFamily:
    """Make a family from decoders that never get a null.

    Without ``from_binary``, binary values are refused. If the form's Arrow type is that of the
    decoded values, and is not text, the decoder of texts is also the form's ``from_texts``.
    """
    decode_text = partial(_decode_present, from_text, arrow_type)
    if form is not None and form.arrow == arrow_type and not pa.types.is_string(arrow_type):
        form = replace(form, from_texts=partial(_decode_texts, decode_text))
    return TypeFamily(
        name,
        oid,
        arrow_type,
        decode_text,
        partial(_decode_present, from_binary or partial(_refuse_binary, name), arrow_type),
        from_binary is not None,
        form,
        equality,
        send,
    )


def of_texts(
    name: str,
    oid: int,
    convert: Callable[[Reader], str],
    form: Form | None = None,
    *,
    equality: Equality = EXACT,
    send: Send | None = None,
) -> TypeFamily:
    """A family of texts. ``convert`` reads one value in binary format, and gives its text."""
    return of_decoders(
        name, oid, pa.string(), as_text, partial(_texts, name, convert), form, equality=equality, send=send
    )


def packed(layout: str, read: Callable[[str], Any], text: str) -> bytes:
    """Sends numbers in network byte order; ``read`` returns one number or a tuple of numbers."""
    value = read(text)
    return struct.pack(f">{layout}", *(value if isinstance(value, tuple) else (value,)))


def sized(data: bytes) -> bytes:
    """Bytes after their length, as send functions write a part of a value."""
    return struct.pack(">i", len(data)) + data


def _decode_texts(decode_text: Decoder, texts: pa.StringArray) -> pa.Array:
    return decode_text(texts.cast(pa.binary()))


def _decode_present(decode: Decoder, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    if array.null_count == len(array):
        return pa.nulls(len(array), arrow_type)
    values = _narrow(array.drop_null() if array.null_count else array)
    decoded = decode(values)
    if not array.null_count:
        return decoded
    null = array.is_null().to_numpy(zero_copy_only=False)
    return decoded.take(pa.array(np.cumsum(~null) - 1, mask=null))


def _narrow(array: pa.BinaryArray | pa.LargeBinaryArray) -> pa.BinaryArray:
    """Convert ``large_binary`` (values at large offsets of a large buffer) to ``binary``."""
    if pa.types.is_binary(array.type):
        return array
    if pc.sum(pc.binary_length(array)).as_py() >= 2**31:
        raise NotSupportedError(
            "cannot decode more than 2 GiB of one column's values at once", hint="Make the batches smaller."
        )
    return array.cast(pa.binary())


def _refuse_binary(name: str, _: pa.BinaryArray) -> pa.Array:
    raise NotSupportedError(
        f"cannot decode values of type {name} in binary format",
        hint="Use ALTER SUBSCRIPTION ... SET (binary = false).",
    )


def invalid_text(name: str, sqlstate: str = "22P02", hint: str | None = None) -> ProtocolError:
    return ProtocolError(f"invalid input syntax for type {name}", sqlstate=sqlstate, hint=hint)


def invalid_binary(name: str) -> ProtocolError:
    """22P03, for bytes that the type's send function cannot have written."""
    return ProtocolError(f"incorrect binary data format for type {name}", sqlstate="22P03")


def values_of(array: pa.BinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The bytes of all values of a null-free array one after another, and their len + 1 offsets."""
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0]


def binary_array(data: NDArray[np.uint8], offsets: NDArray[np.int32]) -> pa.BinaryArray:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def fixed_width(array: pa.BinaryArray, width: int) -> NDArray[np.uint8] | None:
    """One row of ``width`` bytes for each value; None if a value has another length."""
    data, offsets = values_of(array)
    if np.any(np.diff(offsets) != width):
        return None
    return data.reshape(-1, width)


def binary_numbers(array: pa.BinaryArray, wire: str, name: str) -> NDArray[np.generic]:
    """The numbers of a null-free array, of numpy type ``wire`` (such as ``>i4``)."""
    dtype = np.dtype(wire)
    rows = fixed_width(array, dtype.itemsize)
    if rows is None:
        raise invalid_binary(name)
    return rows.view(dtype).reshape(-1)


def as_text(array: pa.BinaryArray) -> pa.StringArray:
    data, _ = values_of(array)
    if data.all():
        try:
            return array.cast(pa.string())
        except pa.ArrowInvalid:
            pass
    raise ProtocolError('invalid byte sequence for encoding "UTF8"', sqlstate="22021")


def all_match(array: pa.BinaryArray | pa.StringArray, pattern: str) -> bool:
    """Whether every value of a null-free array matches the whole of ``pattern`` (RE2)."""
    return bool(pc.all(pc.match_substring_regex(array, rf"\A(?:{pattern})\z")).as_py())


def all_have_form(array: pa.BinaryArray, form: str) -> bool:
    """Whether every value has the length of ``form``, digits in the places of its nines, and
    elsewhere its characters. It takes a tenth of the time of a regular expression.

    >>> all_have_form(pa.array([b"12:05", b"24:00"]), "99:99"), all_have_form(pa.array([b"1:05"]), "99:99")
    (True, False)
    """
    data, offsets = values_of(array)
    if np.any(np.diff(offsets) != len(form)):
        return False
    least = np.frombuffer(form.replace("9", "0").encode(), np.uint8)
    room = np.where(np.frombuffer(form.encode(), np.uint8) == ord("9"), np.uint8(9), np.uint8(0))
    # A difference below zero becomes a large number.
    return bool((data - np.tile(least, len(array)) <= np.tile(room, len(array))).all())


class BadWire(Exception):
    """The bytes are not a value of the type. It becomes a ProtocolError with the type's name."""


def each_value(name: str, read: Callable[[Reader], T], array: pa.BinaryArray) -> list[T]:
    """Read the values of a null-free array one by one. Each must be read to its end."""
    found = []
    try:
        for value in array.to_pylist():
            wire = Reader(value)
            found.append(read(wire))
            wire.end()
    except ProtocolError as error:
        if error.sqlstate == "22021":
            raise ProtocolError(error.message, sqlstate=error.sqlstate) from None
        raise invalid_binary(name) from None
    except BadWire:
        raise invalid_binary(name) from None
    return found


def _texts(name: str, convert: Callable[[Reader], str], array: pa.BinaryArray) -> pa.StringArray:
    return pa.array(each_value(name, convert, array), type=pa.string())
