"""Hash functions of types, such as ``hashtext``, by which filters divide rows into parts.

The algorithm is Bob Jenkins' lookup3 (``hashfn.c``), the same in all versions. Its results depend
on the machine's byte order, so a publisher must give the result of :data:`PROBE`. The hash
functions of numeric, jsonb, arrays, ranges and ``"char"`` are not supported.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from subscriber.postgres.expressions.functions.function_table import elementwise
from subscriber.postgres.types.datetimes.date_values import Interval, TimeTZ, wrapped
from subscriber.postgres.types.network import Inet

_MASK: Final = 0xFFFF_FFFF
_START: Final = 0x9E37_79B9 + 3_923_095
_WORDS: Final = struct.Struct("<III")


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = (a - c & _MASK) ^ _rotated(c, 4)
    c = c + b & _MASK
    b = (b - a & _MASK) ^ _rotated(a, 6)
    a = a + c & _MASK
    c = (c - b & _MASK) ^ _rotated(b, 8)
    b = b + a & _MASK
    a = (a - c & _MASK) ^ _rotated(c, 16)
    c = c + b & _MASK
    b = (b - a & _MASK) ^ _rotated(a, 19)
    a = a + c & _MASK
    c = (c - b & _MASK) ^ _rotated(b, 4)
    b = b + a & _MASK
    return a, b, c


def _final(a: int, b: int, c: int) -> tuple[int, int]:
    c = (c ^ b) - _rotated(b, 14) & _MASK
    a = (a ^ c) - _rotated(c, 11) & _MASK
    b = (b ^ a) - _rotated(a, 25) & _MASK
    c = (c ^ b) - _rotated(b, 16) & _MASK
    a = (a ^ c) - _rotated(c, 4) & _MASK
    b = (b ^ a) - _rotated(a, 14) & _MASK
    c = (c ^ b) - _rotated(b, 24) & _MASK
    return b, c


def _started(length: int, seed: int) -> tuple[int, int, int]:
    start = _START + length & _MASK
    if not seed:
        return start, start, start
    return _mixed(start + (seed >> 32) & _MASK, start + seed & _MASK, start)


def _hash_of_bytes(value: bytes, seed: int) -> int:
    """``hash_bytes_extended``: 64 bits; the lower half for the seed 0 is ``hash_bytes``."""
    a, b, c = _started(len(value), seed & 0xFFFF_FFFF_FFFF_FFFF)
    whole = len(value) // 12 * 12
    for one, two, three in _WORDS.iter_unpack(value[:whole]):
        a, b, c = _mixed(a + one & _MASK, b + two & _MASK, c + three & _MASK)
    rest = value[whole:]
    # The lowest byte of the third word is left out.
    one, two, three = _WORDS.unpack(rest[:8].ljust(8, b"\0") + b"\0" + rest[8:].ljust(3, b"\0"))
    b, c = _final(a + one & _MASK, b + two & _MASK, c + three & _MASK)
    return b << 32 | c


def _hash_of_word(value: int, seed: int) -> int:
    """``hash_bytes_uint32_extended``."""
    a, b, c = _started(4, seed & 0xFFFF_FFFF_FFFF_FFFF)
    b, c = _final(a + (value & _MASK) & _MASK, b, c)
    return b << 32 | c


def _hash_of_bigint(value: int, seed: int) -> int:
    high = value >> 32
    return _hash_of_word(value ^ (high if value >= 0 else ~high), seed)


def _hash_of_float(value: float, seed: int) -> int:
    if value == 0:
        return seed  # 0 and -0 are equal
    return _hash_of_bytes(struct.pack("<d", math.nan if math.isnan(value) else value), seed)


def _hash_of_text(value: str, seed: int) -> int:
    return _hash_of_bytes(value.encode(), seed)


def _hash_of_inet(value: Inet, seed: int) -> int:
    head = bytes([2 if value.version == 4 else 3, value.bits])
    return _hash_of_bytes(head + value.address.to_bytes(value.width // 8), seed)


def _hash_of_timetz(value: TimeTZ, seed: int) -> int:
    return _hash_of_bigint(value.microseconds, seed) ^ _hash_of_word(value.zone, seed)


def _hash_of_interval(value: Interval, seed: int) -> int:
    return _hash_of_bigint(wrapped(value.span, 64), seed)


_HASHES: Final[dict[str, Callable[[Any, int], int]]] = {
    **dict.fromkeys(("hashtext(text)", "hashname(name)"), _hash_of_text),
    "hashbpchar(bpchar)": lambda value, seed: _hash_of_text(value.rstrip(" "), seed),
    **dict.fromkeys(
        ("hashbytea(bytea)", "uuid_hash(uuid)", "hashmacaddr(macaddr)", "hashmacaddr8(macaddr8)"), _hash_of_bytes
    ),
    **dict.fromkeys(
        ("hashint2(int2)", "hashint4(int4)", "hashoid(oid)", "hashdate(date)", "hashbool(bool)"), _hash_of_word
    ),
    **dict.fromkeys(
        ("hashint8(int8)", "time_hash(time)", "timestamp_hash(timestamp)", "timestamptz_hash(timestamptz)"),
        _hash_of_bigint,
    ),
    "pg_lsn_hash(pg_lsn)": lambda value, seed: _hash_of_bigint(wrapped(value, 64), seed),
    **dict.fromkeys(("hashfloat4(float4)", "hashfloat8(float8)"), _hash_of_float),
    "hashinet(inet)": _hash_of_inet,
    "timetz_hash(timetz)": _hash_of_timetz,
    "interval_hash(interval)": _hash_of_interval,
}  # fmt: skip


SIGNATURES: Final = set[str]()
"""All hash functions."""


def _register(signature: str, of: Callable[[Any, int], int]) -> None:
    name, kind = signature[:-1].split("(")
    extended = f"{name}_extended" if "_" in name else f"{name}extended"
    seeded = f"{extended}({kind},int8)"
    elementwise(signature, raises=False)(lambda value: wrapped(of(value, 0), 32))
    elementwise(seeded, raises=False)(lambda value, seed: wrapped(of(value, seed), 64))
    SIGNATURES.update((signature, seeded))


for _signature, _of in _HASHES.items():
    _register(_signature, _of)

_PROBED: Final = "the order of bytes"
PROBE: Final = f"hashtext('{_PROBED}') = {wrapped(_hash_of_text(_PROBED, 0), 32)}"
"""An SQL expression that is true for a server whose hash functions give the results of these."""
