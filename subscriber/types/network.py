"""Network addresses: inet and cidr with their mask, macaddr and macaddr8 as pairs of hex digits."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa

from subscriber.types.family import as_text, family
from subscriber.types.wire import BadWire, Wire, value_by_value

_SIZES: Final = {2: 4, 3: 16}
"""Bytes of an address by its family: PGSQL_AF_INET and PGSQL_AF_INET6, the same on every system."""
_MAPPED: Final = 0xFFFF


def _address(is_cidr: bool, wire: Wire) -> str:
    """Layout: family u8, bits of the mask u8, is cidr u8, bytes i8, address."""
    kind, bits, _, size = wire.numbers("BBBb")
    if _SIZES.get(kind) != size or bits > size * 8:
        raise BadWire
    address = wire.bytes(size)
    if is_cidr and int.from_bytes(address) & ((1 << (size * 8 - bits)) - 1):
        raise BadWire
    text = ".".join(map(str, address)) if size == 4 else _ipv6(address)
    return f"{text}/{bits}" if is_cidr or bits < size * 8 else text


def _ipv6(address: bytes) -> str:
    """The longest run of zero groups is left out; an address that has an IPv4 address in it shows it as such."""
    groups = [int.from_bytes(address[at : at + 2]) for at in range(0, len(address), 2)]
    start, length = _longest_zeros(groups)
    embedded = start == 0 and (length == 6 or (length == 5 and groups[5] == _MAPPED))
    words = [f"{group:x}" for group in groups]
    if embedded:
        words[6:] = [".".join(map(str, address[12:]))]
    if length < 2:
        return ":".join(words)
    return f"{':'.join(words[:start])}::{':'.join(words[start + length :])}"


def _longest_zeros(groups: list[int]) -> tuple[int, int]:
    """Where the longest run of zeros begins, the first of equals, and how long it is."""
    best = (0, 0)
    start = None
    for at, group in enumerate([*groups, 1]):
        if group:
            if start is not None and at - start > best[1]:
                best = (start, at - start)
            start = None
        elif start is None:
            start = at
    return best


def _hardware(size: int, wire: Wire) -> str:
    return wire.bytes(size).hex(":")


FAMILIES: Final = (
    family("inet", (869,), pa.string(), as_text, value_by_value("inet", partial(_address, False))),
    family("cidr", (650,), pa.string(), as_text, value_by_value("cidr", partial(_address, True))),
    family("macaddr", (829,), pa.string(), as_text, value_by_value("macaddr", partial(_hardware, 6))),
    family("macaddr8", (774,), pa.string(), as_text, value_by_value("macaddr8", partial(_hardware, 8))),
)
