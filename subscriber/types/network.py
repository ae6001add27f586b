"""inet and cidr: an address and the length of its netmask. The types differ only in their texts."""

from __future__ import annotations

import ipaddress
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from subscriber.errors import DataException, NotSupportedError
from subscriber.types.family import as_text, family
from subscriber.types.form import Form, invalid_syntax, sign, without_modifier
from subscriber.types.wire import BadWire, Wire, value_by_value

_VERSIONS: Final = {2: 4, 3: 6}
"""The IP version for each address family on the wire: PGSQL_AF_INET and PGSQL_AF_INET6."""
_V4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})(?:/([0-9]{1,3}))?", re.ASCII)
_V6: Final = re.compile(r"([0-9A-Fa-f]*:[0-9A-Fa-f:.]*)(?:/([0-9]{1,3}))?", re.ASCII)
_SHORT: Final = re.compile(r"[0-9][0-9A-Fa-fxX.]*(?:/[0-9]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Inet:
    """A value of type inet or cidr.

    Attributes:
        version: the IP version, 4 or 6.
        bits: the length of the netmask.
        address: the address as a number.
    """

    version: int
    bits: int
    address: int

    @property
    def width(self) -> int:
        """The number of bits of an address of this version."""
        return 32 if self.version == 4 else 128

    @property
    def host_mask(self) -> int:
        """The bits that belong to the host and not to the network."""
        return (1 << (self.width - self.bits)) - 1


# --- text ---------------------------------------------------------------------------------------


def _read(name: str, text: str) -> Inet:
    if match := _V4.fullmatch(text):
        octets = [int(octet) for octet in match.groups()[:4]]
        value = Inet(
            4, 32 if match[5] is None else int(match[5]), int.from_bytes(bytes(min(one, 255) for one in octets))
        )
        if max(octets) > 255 or value.bits > 32:
            raise invalid_syntax(name)
        return value
    if match := _V6.fullmatch(text):
        bits = 128 if match[2] is None else int(match[2])
        try:
            address = int(ipaddress.IPv6Address(match[1]))
        except ValueError:
            # The server accepts some further notations, such as a colon at the end.
            raise _not_read(name) from None
        if bits > 128 or str(bits) != (match[2] or "128"):  # leading zeros are not allowed here
            raise invalid_syntax(name)
        return Inet(6, bits, address)
    raise _not_read(name) if _SHORT.fullmatch(text) else invalid_syntax(name)


def _not_read(name: str) -> NotSupportedError:
    return NotSupportedError(
        f"a value of type {name} that is written this way is not supported",
        hint="Write the address in full, such as 10.1.0.0/16.",
    )


def inet_in(text: str) -> Inet:
    """The input function of inet.

    Raises:
        DataException: 22P02, the text is not an address.
        NotSupportedError: the address is not written in full.
    """
    return _read("inet", text)


def cidr_in(text: str) -> Inet:
    """The input function of cidr, in which no bit may be set to the right of the netmask.

    It raises the errors of :func:`inet_in`.
    """
    value = _read("cidr", text)
    if value.address & value.host_mask:
        raise DataException("invalid cidr value", sqlstate="22P02")
    return value


def host_text(value: Inet) -> str:
    """The text of the address without its netmask.

    In an IPv6 address the longest run of zeros is left out, and an address that contains an IPv4
    address shows it in IPv4 notation.
    """
    if value.version == 4:
        return _dotted(value.address)
    words = [value.address >> shift & 0xFFFF for shift in range(112, -1, -16)]
    start, length = _longest_zeros(words)
    is_v4 = start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF))
    last = [_dotted(value.address & 0xFFFF_FFFF)] if is_v4 else [f"{word:x}" for word in words[6:]]
    parts = [f"{word:x}" for word in words[:6]] + last
    if length < 2:
        return ":".join(parts)
    return f"{':'.join(parts[:start])}::{':'.join(parts[start + length :])}"


def _dotted(address: int) -> str:
    return ".".join(str(octet) for octet in address.to_bytes(4))


def _longest_zeros(words: list[int]) -> tuple[int, int]:
    """Begin and length of the longest run of zeros, the first one if there are several.

    The length is 0 if no run has more than one zero.
    """
    best, start = (0, 0), 0
    for place, word in enumerate([*words, 1]):
        if word:
            if place - start > max(best[1], 1):
                best = (start, place - start)
            start = place + 1
    return best


def inet_out(value: Inet) -> str:
    """The output function of inet. The netmask is omitted if it covers the whole address."""
    return host_text(value) if value.bits == value.width else cidr_out(value)


def cidr_out(value: Inet) -> str:
    """The output function of cidr, which always writes the netmask."""
    return f"{host_text(value)}/{value.bits}"


# --- order ---------------------------------------------------------------------------------------


def compare(left: Inet, right: Inet) -> int:
    """Compare two addresses by the version, the bits that both networks have, the length of the
    netmask, and then the remaining bits.
    """
    if left.version != right.version:
        return sign(left.version, right.version)
    outside = left.width - min(left.bits, right.bits)
    return sign(
        (left.address >> outside, left.bits, left.address), (right.address >> outside, right.bits, right.address)
    )


# --- the families -------------------------------------------------------------------------------


def _from_wire(is_cidr: bool, wire: Wire) -> Inet:
    """Layout: family u8, length of the netmask u8, is cidr u8, bytes i8, address."""
    kind, bits, _, size = wire.numbers("BBBb")
    version = _VERSIONS.get(kind)
    if version is None or size != (4 if version == 4 else 16) or bits > size * 8:
        raise BadWire
    value = Inet(version, bits, int.from_bytes(wire.bytes(size)))
    if is_cidr and value.address & value.host_mask:
        raise BadWire
    return value


def inet_send(read: Callable[[str], Inet], is_cidr: bool, text: str) -> bytes:
    """The send function of inet and cidr (``network_send``). The layout is that of the decoder.

    Args:
        read: the input function.
        is_cidr: whether the type is cidr.
        text: the text of the value.
    """
    value = read(text)
    size = value.width // 8
    kind = next(kind for kind, version in _VERSIONS.items() if version == value.version)
    return struct.pack(">BBBb", kind, value.bits, is_cidr, size) + value.address.to_bytes(size)


def _convert(write: Callable[[Inet], str], is_cidr: bool, wire: Wire) -> str:
    return write(_from_wire(is_cidr, wire))


FAMILIES: Final = tuple(
    family(
        name,
        (oid,),
        pa.string(),
        as_text,
        value_by_value(name, partial(_convert, write, is_cidr)),
        Form(without_modifier(read), write, compare=compare),
        send=partial(inet_send, read, is_cidr),
    )
    for name, oid, read, write, is_cidr in (
        ("inet", 869, inet_in, inet_out, False),
        ("cidr", 650, cidr_in, cidr_out, True),
    )
)
