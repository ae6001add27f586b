"""inet and cidr. The two have one form; only their texts differ."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from subscriber.errors import NotSupportedError, RowFilterError
from subscriber.filters.functions.calendar import wrapped
from subscriber.filters.functions.comparison import register_extremes, register_values, sign
from subscriber.filters.functions.forms import Form, register
from subscriber.filters.functions.function_registry import elementwise

_INT64: Final = (-(2**63), 2**63 - 1)
_V4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})(?:/([0-9]{1,3}))?", re.ASCII)
_V6: Final = re.compile(r"([0-9A-Fa-f]*:[0-9A-Fa-f:.]*)(?:/([0-9]{1,3}))?", re.ASCII)
_SHORT: Final = re.compile(r"[0-9][0-9A-Fa-fxX.]*(?:/[0-9]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Inet:
    """A value of both types.

    Attributes:
        version: 4 or 6.
        bits: of the netmask.
        address: as a number.
    """

    version: int
    bits: int
    address: int

    @property
    def width(self) -> int:
        """Bits of an address of this version."""
        return 32 if self.version == 4 else 128

    @property
    def host_mask(self) -> int:
        """The bits that are not the network's."""
        return (1 << (self.width - self.bits)) - 1


# --- text ---------------------------------------------------------------------------------------


def _invalid(name: str) -> RowFilterError:
    return RowFilterError(f"invalid input syntax for type {name}", sqlstate="22P02")


def _read(name: str, text: str) -> Inet:
    if match := _V4.fullmatch(text):
        octets = [int(octet) for octet in match.groups()[:4]]
        value = Inet(
            4, 32 if match[5] is None else int(match[5]), int.from_bytes(bytes(min(one, 255) for one in octets))
        )
        if max(octets) > 255 or value.bits > 32:
            raise _invalid(name)
        return value
    if match := _V6.fullmatch(text):
        bits = 128 if match[2] is None else int(match[2])
        try:
            address = int(ipaddress.IPv6Address(match[1]))
        except ValueError:
            # The server reads some more, such as a colon at the end.
            raise _not_read(name) from None
        if bits > 128 or str(bits) != (match[2] or "128"):  # no leading zeros here
            raise _invalid(name)
        return Inet(6, bits, address)
    raise _not_read(name) if _SHORT.fullmatch(text) else _invalid(name)


def _not_read(name: str) -> NotSupportedError:
    return NotSupportedError(
        f"a value of type {name} that is written this way is not supported",
        hint="Write the address in full, such as 10.1.0.0/16.",
    )


def inet_from_text(text: str, _: int) -> Inet:
    """``inet_in``.

    Raises:
        RowFilterError: 22P02.
        NotSupportedError: an address that is not written in full.
    """
    return _read("inet", text)


def cidr_from_text(text: str, _: int) -> Inet:
    """``cidr_in``: no bit may be set to the right of the mask."""
    value = _read("cidr", text)
    if value.address & value.host_mask:
        raise RowFilterError("invalid cidr value", sqlstate="22P02")
    return value


def host_text(value: Inet) -> str:
    """The address alone; the longest run of zeros is left out, and what looks like an old address is written as one."""
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
    """Begin and length of the first longest run of zeros; the length is 0 where none is longer than one."""
    best, start = (0, 0), 0
    for place, word in enumerate([*words, 1]):
        if word:
            if place - start > max(best[1], 1):
                best = (start, place - start)
            start = place + 1
    return best


def inet_to_text(value: Inet) -> str:
    """``inet_out``: the mask is written unless it is the whole address."""
    return host_text(value) if value.bits == value.width else cidr_to_text(value)


@elementwise("text(inet)", raises=False)
def cidr_to_text(value: Inet) -> str:
    """``cidr_out``, and ``text(inet)``: always with the mask."""
    return f"{host_text(value)}/{value.bits}"


INET: Final = register(Form((869,), inet_from_text, inet_to_text))
CIDR: Final = register(Form((650,), cidr_from_text, cidr_to_text))

elementwise("host(inet)", raises=False)(host_text)
elementwise("abbrev(inet)", raises=False)(inet_to_text)


# --- comparison ---------------------------------------------------------------------------------


def compare(left: Inet, right: Inet) -> int:
    """By the version, the bits that both networks have, the length of the masks, and then the rest."""
    if left.version != right.version:
        return sign(left.version, right.version)
    outside = left.width - min(left.bits, right.bits)
    return sign(
        (left.address >> outside, left.bits, left.address), (right.address >> outside, right.bits, right.address)
    )


# network_cmp gives what C's memcmp does, which is more or less than zero by an amount that C leaves open.
register_values("network_{}(inet,inet)", compare, cmp=False)
register_extremes("network_larger(inet,inet)", "network_smaller(inet,inet)", compare)


def _same_network(left: Inet, right: Inet, bits: int) -> bool:
    outside = left.width - bits
    return left.version == right.version and left.address >> outside == right.address >> outside


@elementwise("network_sub(inet,inet)", raises=False)
def _is_inside(left: Inet, right: Inet) -> bool:
    return left.bits > right.bits and _same_network(left, right, min(right.bits, left.width))


@elementwise("network_subeq(inet,inet)", raises=False)
def _is_inside_or_equal(left: Inet, right: Inet) -> bool:
    return left.bits >= right.bits and _same_network(left, right, min(right.bits, left.width))


@elementwise("network_sup(inet,inet)", raises=False)
def _is_around(left: Inet, right: Inet) -> bool:
    return _is_inside(right, left)


@elementwise("network_supeq(inet,inet)", raises=False)
def _is_around_or_equal(left: Inet, right: Inet) -> bool:
    return _is_inside_or_equal(right, left)


@elementwise("network_overlap(inet,inet)", raises=False)
def _overlap(left: Inet, right: Inet) -> bool:
    return left.version == right.version and _same_network(left, right, min(left.bits, right.bits))


@elementwise("inet_same_family(inet,inet)", raises=False)
def _same_family(left: Inet, right: Inet) -> bool:
    return left.version == right.version


# --- parts and other addresses ------------------------------------------------------------------


@elementwise("family(inet)", raises=False)
def _family(value: Inet) -> int:
    return value.version


@elementwise("masklen(inet)", raises=False)
def _mask_length(value: Inet) -> int:
    return value.bits


@elementwise("broadcast(inet)", raises=False)
def _broadcast(value: Inet) -> Inet:
    return Inet(value.version, value.bits, value.address | value.host_mask)


@elementwise("network(inet)", "cidr(inet)", raises=False)
def _network(value: Inet) -> Inet:
    return Inet(value.version, value.bits, value.address & ~value.host_mask)


@elementwise("netmask(inet)", raises=False)
def _net_mask(value: Inet) -> Inet:
    return Inet(value.version, value.width, _all_ones(value) & ~value.host_mask)


@elementwise("hostmask(inet)", raises=False)
def _host_mask(value: Inet) -> Inet:
    return Inet(value.version, value.width, value.host_mask)


def _all_ones(value: Inet) -> int:
    return (1 << value.width) - 1


@elementwise("set_masklen(inet,int4)")
def _with_mask(value: Inet, bits: int) -> Inet:
    if bits == -1:
        bits = value.width
    if not 0 <= bits <= value.width:
        raise RowFilterError("invalid mask length", sqlstate="22023")
    return Inet(value.version, bits, value.address)


@elementwise("set_masklen(cidr,int4)")
def _network_with_mask(value: Inet, bits: int) -> Inet:
    return _network(_with_mask(value, bits))


@elementwise("inet_merge(inet,inet)")
def _merge(left: Inet, right: Inet) -> Inet:
    if left.version != right.version:
        raise RowFilterError("cannot merge addresses from different families", sqlstate="22023")
    differing = (left.address ^ right.address).bit_length()
    bits = min(left.bits, right.bits, left.width - differing)
    return _network(Inet(left.version, bits, left.address))


@elementwise("inetnot(inet)", raises=False)
def _inverted(value: Inet) -> Inet:
    return Inet(value.version, value.bits, value.address ^ _all_ones(value))


def _same_size(left: Inet, right: Inet, what: str) -> int:
    """The longer mask of the two.

    Raises:
        RowFilterError: 22023, they are of different versions.
    """
    if left.version != right.version:
        raise RowFilterError(f"cannot {what} inet values of different sizes", sqlstate="22023")
    return max(left.bits, right.bits)


@elementwise("inetand(inet,inet)")
def _and(left: Inet, right: Inet) -> Inet:
    return Inet(left.version, _same_size(left, right, "AND"), left.address & right.address)


@elementwise("inetor(inet,inet)")
def _or(left: Inet, right: Inet) -> Inet:
    return Inet(left.version, _same_size(left, right, "OR"), left.address | right.address)


@elementwise("inetpl(inet,int8)")
def _plus(value: Inet, count: int) -> Inet:
    address = value.address + count
    if not 0 <= address <= _all_ones(value):
        raise _result_out_of_range()
    return Inet(value.version, value.bits, address)


def _result_out_of_range() -> RowFilterError:
    return RowFilterError("result is out of range", sqlstate="22003")


@elementwise("int8pl_inet(int8,inet)")
def _plus_mirrored(count: int, value: Inet) -> Inet:
    return _plus(value, count)


@elementwise("inetmi_int8(inet,int8)")
def _minus(value: Inet, count: int) -> Inet:
    # The least integer has no negative: the server adds it where it should be subtracted.
    return _plus(value, count if count == _INT64[0] else -count)


@elementwise("inetmi(inet,inet)")
def _difference(left: Inet, right: Inet) -> int:
    _same_size(left, right, "subtract")
    # Sixteen bytes are subtracted without a sign, and what is left of them is taken for a number with one.
    difference = wrapped(left.address - right.address, 128)
    if not _INT64[0] <= difference <= _INT64[1]:
        raise _result_out_of_range()
    return difference
