"""The class TypeFamily, and the steps that the decoders of all families share.

A decoder is a function from ``binary`` to the Arrow type of the family. It never gets a null, a
``large_binary`` or an empty array: :func:`family` wraps the decoder accordingly, because the kind
byte of the tuple (rule A11) defines which values are NULL, and not the type. A decoder raises an
error for a value that it cannot read; no value becomes NULL. The error texts are PostgreSQL's
without the value, because errors are logged (design: names_are_data).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.errors import NotSupportedError, ProtocolError
from subscriber.types.equality import EXACT, Equality
from subscriber.types.form import Form

Decoder: TypeAlias = Callable[[pa.BinaryArray], pa.Array]
Send: TypeAlias = Callable[[str], bytes]
"""The send function of a type: the text of a value → its binary format. It raises the errors of the
type's input function.
"""


@dataclass(frozen=True, slots=True)
class TypeFamily:
    """The types that share an Arrow type and decoders (rule C5).

    Attributes:
        name: the name in error messages, such as ``integer``.
        oids: the OIDs of the built-in types that belong to the family.
        arrow_type: the Arrow type that both decoders return. It holds every value of the types
            exactly.
        decode_text: reads the text of the output function (kind ``t``). Raises ProtocolError
            (22P02, 22007, 22021).
        decode_binary: reads the bytes of the send function (kind ``b``). Raises ProtocolError
            (22P03, 22008), or NotSupportedError for a type whose binary format cannot be read.
        reads_binary: whether ``decode_binary`` can read the binary format.
        form: the input and output function; None for types whose values are only passed on.
        equality: when two texts of a type are equal values.
        send: the send function: the inverse of ``decode_binary``, from the text of a value; None if
            it is not known.
    """

    name: str
    oids: tuple[int, ...]
    arrow_type: pa.DataType
    decode_text: Decoder
    decode_binary: Decoder
    reads_binary: bool = True
    form: Form | None = None
    equality: Equality = EXACT
    send: Send | None = None


def family(
    name: str,
    oids: tuple[int, ...],
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
        oids,
        arrow_type,
        decode_text,
        partial(_decode_present, from_binary or partial(_refuse_binary, name), arrow_type),
        from_binary is not None,
        form,
        equality,
        send,
    )


def packed(layout: str, read: Callable[[str], Any], text: str) -> bytes:
    """The send function of a type whose format is numbers in network byte order.

    Args:
        layout: their layout, a format of :mod:`struct`.
        read: the input function; its result is one number or a tuple of numbers.
        text: the text of the value.
    """
    value = read(text)
    return struct.pack(f">{layout}", *(value if isinstance(value, tuple) else (value,)))


def sized(data: bytes) -> bytes:
    """Bytes after their length, as send functions write a part of a value."""
    return struct.pack(">i", len(data)) + data


def _decode_texts(decode_text: Decoder, texts: pa.StringArray) -> pa.Array:
    return decode_text(texts.cast(pa.binary()))


def _decode_present(decode: Decoder, arrow_type: pa.DataType, array: pa.BinaryArray) -> pa.Array:
    """Decode the values that are not null, and put the nulls back at their places."""
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
    """The error for text that is not a value of the type; it does not contain the text."""
    return ProtocolError(f"invalid input syntax for type {name}", sqlstate=sqlstate, hint=hint)


def invalid_binary(name: str) -> ProtocolError:
    """The error for bytes that the type's send function cannot have written (22P03)."""
    return ProtocolError(f"incorrect binary data format for type {name}", sqlstate="22P03")


def values_of(array: pa.BinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The bytes of all values of a null-free array one after another, and the len + 1 offsets of
    the values.
    """
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0]


def binary_array(data: NDArray[np.uint8], offsets: NDArray[np.int32]) -> pa.BinaryArray:
    """The array of these bytes and offsets: the inverse of :func:`values_of`."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def fixed_width(array: pa.BinaryArray, width: int) -> NDArray[np.uint8] | None:
    """A null-free array as a matrix with one row of ``width`` bytes for each value.

    None if a value has another length.
    """
    data, offsets = values_of(array)
    if np.any(np.diff(offsets) != width):
        return None
    return data.reshape(-1, width)


def binary_numbers(array: pa.BinaryArray, wire: str, name: str) -> NDArray[np.generic]:
    """The numbers of a null-free array in network byte order, of numpy type ``wire`` (such as
    ``>i4``).

    Raises:
        ProtocolError: 22P03, a value has another length.
    """
    dtype = np.dtype(wire)
    rows = fixed_width(array, dtype.itemsize)
    if rows is None:
        raise invalid_binary(name)
    return rows.view(dtype).reshape(-1)


def as_text(array: pa.BinaryArray) -> pa.StringArray:
    """Bytes as text, unchanged.

    Raises:
        ProtocolError: 22021, the bytes are not UTF-8, or contain a zero byte, which no PostgreSQL
            text contains.
    """
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
