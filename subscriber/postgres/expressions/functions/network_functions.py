"""inet, cidr, macaddr, macaddr8 and uuid: comparisons, parts, and arithmetic of addresses."""

from __future__ import annotations

from typing import Final

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions import function_table
from subscriber.postgres.types import network
from subscriber.postgres.types.datetimes.date_values import DAY, UNIX_EPOCH, wrapped
from subscriber.postgres.types.family import sign

_INT64: Final = (-(2**63), 2**63 - 1)

function_table.elementwise("text(inet)", raises=False)(network.cidr_out)
function_table.elementwise("host(inet)", raises=False)(network.host_text)
function_table.elementwise("abbrev(inet)", raises=False)(network.inet_out)


@function_table.elementwise("abbrev(cidr)", raises=False)
def _abbreviated(value: network.Inet) -> str:
    """``inet_cidr_ntop``: the octets or words that the netmask covers, and its length."""
    if value.version == 6:
        return f"{_abbreviated_words(value)}/{value.bits}"
    octets = value.address.to_bytes(4)[: (value.bits + 7) // 8]
    return f"{'.'.join(map(str, octets)) or '0'}/{value.bits}"


def _abbreviated_words(value: network.Inet) -> str:
    if not value.bits:
        return "::"
    data = value.address.to_bytes(16)
    words = [int.from_bytes(data[at : at + 2]) for at in range(0, max((value.bits + 15) // 16, 2) * 2, 2)]
    start, length = _zeros(words)
    is_v4 = (
        length != len(words)
        and start == 0
        and (
            length == 6 or (length == 5 and words[5:6] == [0xFFFF]) or (length == 7 and data[14] != 0 and data[15] != 1)
        )
    )
    text = ""
    for place, word in enumerate(words):
        if start <= place < start + length:
            text += ":" * ((place == start) + (place == len(words) - 1))
        elif is_v4 and place > 5:
            text += f"{':' if place == 6 else '.'}{word >> 8}"
            if place != 7 or value.bits > 120:
                text += f".{word & 0xFF}"
        else:
            text += f":{word:x}" if text else f"{word:x}"
    return text


def _zeros(words: list[int]) -> tuple[int, int]:
    """Begin and length of the longest run of zeros. As in the server, a run that is not longer than
    the one before goes on at the next zero.
    """
    best, start, length = (0, 0), 0, 0
    for place, word in enumerate([*words, 1]):
        if not word:
            start, length = (place, 1) if not length else (start, length + 1)
        elif length > best[1]:
            best, length = (start, length), 0
    return best


# --- comparison ---------------------------------------------------------------------------------


# network_cmp is not here: it returns the result of C's memcmp, of which only the sign is
# defined.
function_table.register_values("network_{}(inet,inet)", network.compare_addresses, cmp=False)
function_table.register_extremes("network_larger(inet,inet)", "network_smaller(inet,inet)", network.compare_addresses)


def _same_network(left: network.Inet, right: network.Inet, bits: int) -> bool:
    outside = left.width - bits
    return left.version == right.version and left.address >> outside == right.address >> outside


@function_table.elementwise("network_sub(inet,inet)", raises=False)
def _is_inside(left: network.Inet, right: network.Inet) -> bool:
    return left.bits > right.bits and _same_network(left, right, min(right.bits, left.width))


@function_table.elementwise("network_subeq(inet,inet)", raises=False)
def _is_inside_or_equal(left: network.Inet, right: network.Inet) -> bool:
    return left.bits >= right.bits and _same_network(left, right, min(right.bits, left.width))


function_table.elementwise("network_sup(inet,inet)", raises=False)(lambda left, right: _is_inside(right, left))
function_table.elementwise("network_supeq(inet,inet)", raises=False)(
    lambda left, right: _is_inside_or_equal(right, left)
)
function_table.elementwise("network_overlap(inet,inet)", raises=False)(
    lambda left, right: left.version == right.version and _same_network(left, right, min(left.bits, right.bits))
)
function_table.elementwise("inet_same_family(inet,inet)", raises=False)(
    lambda left, right: left.version == right.version
)


# --- parts and other addresses ------------------------------------------------------------------

function_table.elementwise("family(inet)", raises=False)(lambda value: value.version)
function_table.elementwise("masklen(inet)", raises=False)(lambda value: value.bits)
function_table.elementwise("broadcast(inet)", raises=False)(
    lambda value: network.Inet(value.version, value.bits, value.address | value.host_mask)
)


@function_table.elementwise("network(inet)", "cidr(inet)", raises=False)
def _network(value: network.Inet) -> network.Inet:
    return network.Inet(value.version, value.bits, value.address & ~value.host_mask)


function_table.elementwise("netmask(inet)", raises=False)(
    lambda value: network.Inet(value.version, value.width, _all_ones(value) & ~value.host_mask)
)
function_table.elementwise("hostmask(inet)", raises=False)(
    lambda value: network.Inet(value.version, value.width, value.host_mask)
)


def _all_ones(value: network.Inet) -> int:
    return (1 << value.width) - 1


@function_table.elementwise("set_masklen(inet,int4)")
def _with_mask(value: network.Inet, bits: int) -> network.Inet:
    if bits == -1:
        bits = value.width
    if not 0 <= bits <= value.width:
        raise RowFilterError("invalid mask length", sqlstate="22023")
    return network.Inet(value.version, bits, value.address)


function_table.elementwise("set_masklen(cidr,int4)")(lambda value, bits: _network(_with_mask(value, bits)))


@function_table.elementwise("inet_merge(inet,inet)")
def _merge(left: network.Inet, right: network.Inet) -> network.Inet:
    if left.version != right.version:
        raise RowFilterError("cannot merge addresses from different families", sqlstate="22023")
    differing = (left.address ^ right.address).bit_length()
    bits = min(left.bits, right.bits, left.width - differing)
    return _network(network.Inet(left.version, bits, left.address))


function_table.elementwise("inetnot(inet)", raises=False)(
    lambda value: network.Inet(value.version, value.bits, value.address ^ _all_ones(value))
)


def _same_size(left: network.Inet, right: network.Inet, what: str) -> int:
    if left.version != right.version:
        raise RowFilterError(f"cannot {what} inet values of different sizes", sqlstate="22023")
    return max(left.bits, right.bits)


function_table.elementwise("inetand(inet,inet)")(
    lambda left, right: network.Inet(left.version, _same_size(left, right, "AND"), left.address & right.address)
)
function_table.elementwise("inetor(inet,inet)")(
    lambda left, right: network.Inet(left.version, _same_size(left, right, "OR"), left.address | right.address)
)


@function_table.elementwise("inetpl(inet,int8)")
def _plus(value: network.Inet, count: int) -> network.Inet:
    address = value.address + count
    if not 0 <= address <= _all_ones(value):
        raise _result_out_of_range()
    return network.Inet(value.version, value.bits, address)


def _result_out_of_range() -> RowFilterError:
    return RowFilterError("result is out of range", sqlstate="22003")


@function_table.elementwise("inetmi_int8(inet,int8)")
def _minus(value: network.Inet, count: int) -> network.Inet:
    # The least integer cannot be negated: the server adds it instead of subtracting it.
    return _plus(value, count if count == _INT64[0] else -count)


@function_table.elementwise("inetmi(inet,inet)")
def _difference(left: network.Inet, right: network.Inet) -> int:
    _same_size(left, right, "subtract")
    # The server subtracts sixteen unsigned bytes and interprets the result as a signed number.
    difference = wrapped(left.address - right.address, 128)
    if not _INT64[0] <= difference <= _INT64[1]:
        raise _result_out_of_range()
    return difference


for _name in ("macaddr", "macaddr8"):
    function_table.register_columns(f"{_name}_{{}}({_name},{_name})")
    function_table.register_order(f"{_name}_cmp({_name},{_name})", sign)


function_table.elementwise("macaddr_not(macaddr)", "macaddr8_not(macaddr8)", raises=False)(
    lambda value: bytes(one ^ 0xFF for one in value)
)
function_table.elementwise("macaddr_and(macaddr,macaddr)", "macaddr8_and(macaddr8,macaddr8)", raises=False)(
    lambda left, right: bytes(one & other for one, other in zip(left, right, strict=True))
)
function_table.elementwise("macaddr_or(macaddr,macaddr)", "macaddr8_or(macaddr8,macaddr8)", raises=False)(
    lambda left, right: bytes(one | other for one, other in zip(left, right, strict=True))
)
function_table.elementwise("trunc(macaddr)", "trunc(macaddr8)", raises=False)(
    lambda value: value[:3] + bytes(len(value) - 3)
)
function_table.elementwise("macaddr8_set7bit(macaddr8)", raises=False)(lambda value: bytes([value[0] | 2, *value[1:]]))
function_table.elementwise("macaddr8(macaddr)", raises=False)(network.eight_bytes)


@function_table.elementwise("macaddr(macaddr8)")
def _to_six(value: bytes) -> bytes:
    if tuple(value[3:5]) != network.MIDDLE:
        raise RowFilterError("macaddr8 data out of range to convert to macaddr", sqlstate="22003")
    return value[:3] + value[5:]


_GREGORIAN_EPOCH: Final = -152_384
"""1582-10-15, the epoch of the timestamps of version 1, in days since 2000-01-01."""


# uuid_cmp is not here: it returns the result of C's memcmp, of which only the sign is
# defined.
function_table.register_columns("uuid_{}(uuid,uuid)")


def _is_rfc_variant(value: bytes) -> bool:
    return value[8] & 0xC0 == 0x80


function_table.elementwise("uuid_extract_version(uuid)", raises=False)(
    lambda value: value[6] >> 4 if _is_rfc_variant(value) else None
)


@function_table.elementwise("uuid_extract_timestamp(uuid)", raises=False)
def _timestamp(value: bytes) -> int | None:
    """The timestamp of a UUID of version 1 or 7, in microseconds since 2000-01-01; else None."""
    if not _is_rfc_variant(value):
        return None
    match value[6] >> 4:
        case 1:
            ticks = int.from_bytes(value[6:8]) & 0x0FFF
            ticks = (ticks << 16 | int.from_bytes(value[4:6])) << 32 | int.from_bytes(value[:4])
            return ticks // 10 + _GREGORIAN_EPOCH * DAY
        case 7:
            return int.from_bytes(value[:6]) * 1000 + UNIX_EPOCH * DAY
        case _:
            return None
