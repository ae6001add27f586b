"""Decoding of ranges and multiranges; the binary format becomes the text that ``range_out`` writes.

As with arrays, the bounds of all ranges of a column are decoded together, as one column of the
bounds' type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa

from subscriber.types.equality import EXACT, Equality
from subscriber.types.family import Decoder, TypeFamily, as_text, family, invalid_binary
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


def range_families(by_oid: Mapping[int, TypeFamily]) -> tuple[TypeFamily, ...]:
    """The families of the ranges and multiranges whose bounds' types are in ``by_oid``."""
    ranges = {
        oid: _family(oid, partial(_from_binary, type_name(oid), by_oid[subtype]), _form(oid, by_oid[subtype].form))
        for oid, subtype in SUBTYPES.items()
    }
    multiranges = (
        _family(oid, partial(_multirange_from_binary, type_name(oid), ranges[part])) for oid, part in _RANGES.items()
    )
    return (*ranges.values(), *multiranges)


def _form(oid: int, subtype: Form | None) -> Form:
    assert subtype is not None
    return Form(without_modifier(partial(range_in, oid, subtype)), partial(range_out, subtype))


def _family(oid: int, from_binary: Decoder, form: Form | None = None) -> TypeFamily:
    equality = Equality(canonical=canonical_inside) if oid in _OF_NUMERIC else EXACT
    return family(type_name(oid), (oid,), pa.string(), as_text, from_binary, form, equality=equality)
