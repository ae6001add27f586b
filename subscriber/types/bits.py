"""bit and bit varying: zeros and ones; binary the number of bits and the bytes that hold them, the first bit highest."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from subscriber.types.family import as_text, family
from subscriber.types.wire import BadWire, Wire, value_by_value


def _bits(wire: Wire) -> str:
    """Layout: bits i32, bytes; what the last byte has too many is nothing (VARBIT_PAD)."""
    bits = wire.number("i")
    if bits < 0:
        raise BadWire
    size = (bits + 7) // 8
    return f"{int.from_bytes(wire.bytes(size)):0{size * 8}b}"[:bits]


FAMILIES: Final = tuple(
    family(name, (oid,), pa.string(), as_text, value_by_value(name, _bits))
    for name, oid in (("bit", 1560), ("bit varying", 1562))
)
