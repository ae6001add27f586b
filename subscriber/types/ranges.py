"""Decoding of ranges and multiranges; the binary format becomes the text that ``range_out`` writes.

As with arrays, the bounds of all ranges of a column are decoded together, as one column of the
bounds' type.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa

from subscriber.errors import DataException
from subscriber.types.equality import EXACT, Equality
from subscriber.types.family import Decoder, Send, TypeFamily, as_text, family, invalid_binary, sized
from subscriber.types.form import Form, without_modifier
from subscriber.types.numeric import canonical_inside
from subscriber.types.oids import type_name
from subscriber.types.output import output_texts
from subscriber.types.range_values import SUBTYPES, range_in, range_out, range_text
from subscriber.types.wire import BadWire, Wire

T = TypeVar("T")

_RANGES: Final = {4451: 3904, 4532: 3906, 4533: 3908, 4534: 3910, 4535: 3912, 4536: 3926}
"""OID of a multirange type → OID of its ranges' type."""

_OF_NUMERIC: Final = frozenset({3906, 4532})
_EMPTY, _LOWER_INCLUDED, _UPPER_INCLUDED, _LOWER_INFINITE, _UPPER_INFINITE = 1, 2, 4, 8, 16
_FLAGS: Final = 31
_LENGTH_SIZE: Final = 4
_PARTS: Final = re.compile(r'[\[(](?:"(?:[^"\\]|\\.|"")*"|\\.|[^"\\\])])*[\])]', re.DOTALL)
"""The ranges of a multirange."""


class _Range(NamedTuple):
    flags: int
    has_lower: bool
    has_upper: bool


def _from_binary(name: str, bounds: TypeFamily, array: pa.BinaryArray) -> pa.StringArray:
    """Layout: flags u8, then for each finite bound its length i32 and its bytes."""
    values: list[bytes] = []
    ranges = _each(name, partial(_range, values), array)
    texts = iter(output_texts(bounds.decode_binary(pa.array(values, type=pa.binary()))))
    return pa.array([_written(one, texts) for one in ranges], type=pa.string())


def _multirange_from_binary(name: str, ranges: TypeFamily, array: pa.BinaryArray) -> pa.StringArray:
    """Layout: number of ranges i32, then the length i32 and the bytes of each range."""
    values: list[bytes] = []
    counts = _each(name, partial(_multirange, values), array)
    texts = iter(ranges.decode_binary(pa.array(values, type=pa.binary())).to_pylist())
    return pa.array(["{" + ",".join(next(texts) for _ in range(count)) + "}" for count in counts], type=pa.string())


def _each(name: str, read: Callable[[Wire], T], array: pa.BinaryArray) -> list[T]:
    found = []
    try:
        for data in array.to_pylist():
            wire = Wire(data)
            found.append(read(wire))
            wire.end()
    except BadWire:
        raise invalid_binary(name) from None
    return found


def _range(values: list[bytes], wire: Wire) -> _Range:
    """Read the structure of one range; the bytes of its bounds are appended to ``values``."""
    flags = wire.number("B") & _FLAGS
    found = _Range(flags, not flags & (_EMPTY | _LOWER_INFINITE), not flags & (_EMPTY | _UPPER_INFINITE))
    values.extend(_part(wire) for _ in range(found.has_lower + found.has_upper))
    return found


def _multirange(values: list[bytes], wire: Wire) -> int:
    """The number of ranges of one multirange; the bytes of its ranges are appended to
    ``values``.
    """
    count = wire.count("i", _LENGTH_SIZE)
    values.extend(_part(wire) for _ in range(count))
    return count


def _part(wire: Wire) -> bytes:
    return wire.bytes(wire.count("i", 1))


def _written(found: _Range, texts: Iterator[str]) -> str:
    if found.flags & _EMPTY:
        return "empty"
    lower = next(texts) if found.has_lower else None
    upper = next(texts) if found.has_upper else None
    return range_text(lower, upper, bool(found.flags & _LOWER_INCLUDED), bool(found.flags & _UPPER_INCLUDED))


def range_send(oid: int, bounds: TypeFamily, text: str) -> bytes:
    """The send function of a range type (``range_send``).

    Args:
        oid: the range type.
        bounds: the family of the bounds, which has a form and a send function.
        text: the text of the range.

    Raises:
        DataException: as :func:`~subscriber.types.range_values.range_in`.
    """
    assert bounds.form is not None
    assert bounds.send is not None
    value = range_in(oid, bounds.form, text)
    if value.lower is None or value.upper is None:
        return bytes([_EMPTY])
    flags, parts = 0, b""
    for bound, included, infinite in (
        (value.lower, _LOWER_INCLUDED, _LOWER_INFINITE),
        (value.upper, _UPPER_INCLUDED, _UPPER_INFINITE),
    ):
        flags |= infinite if bound.value is None else included if bound.inclusive else 0
        if bound.value is not None:
            parts += sized(bounds.send(bounds.form.to_text(bound.value)))
    return bytes([flags]) + parts


def multirange_send(ranges: TypeFamily, text: str) -> bytes:
    """The send function of a multirange type (``multirange_send``), for a text that
    ``multirange_out`` wrote.

    Raises:
        DataException: 22P02, the text is not a multirange; and the errors of the ranges.
    """
    assert ranges.send is not None
    parts = _PARTS.findall(text)
    if text != "{" + ",".join(parts) + "}":
        raise DataException("malformed multirange literal", sqlstate="22P02")
    return struct.pack(">i", len(parts)) + b"".join(sized(ranges.send(part)) for part in parts)


def range_families(by_oid: Mapping[int, TypeFamily]) -> tuple[TypeFamily, ...]:
    """The families of the ranges and multiranges whose bounds' types are in ``by_oid``."""
    ranges = {
        oid: _family(
            oid,
            partial(_from_binary, type_name(oid), by_oid[subtype]),
            _form(oid, by_oid[subtype].form),
            partial(range_send, oid, by_oid[subtype]),
        )
        for oid, subtype in SUBTYPES.items()
    }
    multiranges = (
        _family(
            oid,
            partial(_multirange_from_binary, type_name(oid), ranges[part]),
            None,
            partial(multirange_send, ranges[part]),
        )
        for oid, part in _RANGES.items()
    )
    return (*ranges.values(), *multiranges)


def _form(oid: int, subtype: Form | None) -> Form:
    assert subtype is not None
    return Form(without_modifier(partial(range_in, oid, subtype)), partial(range_out, subtype))


def _family(oid: int, from_binary: Decoder, form: Form | None, send: Send) -> TypeFamily:
    equality = Equality(canonical=canonical_inside) if oid in _OF_NUMERIC else EXACT
    return family(type_name(oid), (oid,), pa.string(), as_text, from_binary, form, equality=equality, send=send)
