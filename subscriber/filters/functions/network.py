"""inet and cidr: comparisons, parts, and arithmetic of addresses."""

from __future__ import annotations

from typing import Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.comparison import register_extremes, register_values
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.types.datetimes.calendar import wrapped
from subscriber.types.network import Inet, cidr_out, compare, host_text, inet_out

FUNCTIONS: Final = FunctionTable()

_INT64: Final = (-(2**63), 2**63 - 1)

FUNCTIONS.elementwise("text(inet)", raises=False)(cidr_out)
FUNCTIONS.elementwise("host(inet)", raises=False)(host_text)
FUNCTIONS.elementwise("abbrev(inet)", raises=False)(inet_out)


# --- comparison ---------------------------------------------------------------------------------


# network_cmp is not here: it returns the result of C's memcmp, of which only the sign is
# defined.
register_values(FUNCTIONS, "network_{}(inet,inet)", compare, cmp=False)
register_extremes(FUNCTIONS, "network_larger(inet,inet)", "network_smaller(inet,inet)", compare)


def _same_network(left: Inet, right: Inet, bits: int) -> bool:
    outside = left.width - bits
    return left.version == right.version and left.address >> outside == right.address >> outside


@FUNCTIONS.elementwise("network_sub(inet,inet)", raises=False)
def _is_inside(left: Inet, right: Inet) -> bool:
    return left.bits > right.bits and _same_network(left, right, min(right.bits, left.width))


@FUNCTIONS.elementwise("network_subeq(inet,inet)", raises=False)
def _is_inside_or_equal(left: Inet, right: Inet) -> bool:
    return left.bits >= right.bits and _same_network(left, right, min(right.bits, left.width))


@FUNCTIONS.elementwise("network_sup(inet,inet)", raises=False)
def _is_around(left: Inet, right: Inet) -> bool:
    return _is_inside(right, left)


@FUNCTIONS.elementwise("network_supeq(inet,inet)", raises=False)
def _is_around_or_equal(left: Inet, right: Inet) -> bool:
    return _is_inside_or_equal(right, left)


@FUNCTIONS.elementwise("network_overlap(inet,inet)", raises=False)
def _overlap(left: Inet, right: Inet) -> bool:
    return left.version == right.version and _same_network(left, right, min(left.bits, right.bits))


@FUNCTIONS.elementwise("inet_same_family(inet,inet)", raises=False)
def _same_family(left: Inet, right: Inet) -> bool:
    return left.version == right.version


# --- parts and other addresses ------------------------------------------------------------------


@FUNCTIONS.elementwise("family(inet)", raises=False)
def _family(value: Inet) -> int:
    return value.version


@FUNCTIONS.elementwise("masklen(inet)", raises=False)
def _mask_length(value: Inet) -> int:
    return value.bits


@FUNCTIONS.elementwise("broadcast(inet)", raises=False)
def _broadcast(value: Inet) -> Inet:
    return Inet(value.version, value.bits, value.address | value.host_mask)


@FUNCTIONS.elementwise("network(inet)", "cidr(inet)", raises=False)
def _network(value: Inet) -> Inet:
    return Inet(value.version, value.bits, value.address & ~value.host_mask)


@FUNCTIONS.elementwise("netmask(inet)", raises=False)
def _net_mask(value: Inet) -> Inet:
    return Inet(value.version, value.width, _all_ones(value) & ~value.host_mask)


@FUNCTIONS.elementwise("hostmask(inet)", raises=False)
def _host_mask(value: Inet) -> Inet:
    return Inet(value.version, value.width, value.host_mask)


def _all_ones(value: Inet) -> int:
    return (1 << value.width) - 1


@FUNCTIONS.elementwise("set_masklen(inet,int4)")
def _with_mask(value: Inet, bits: int) -> Inet:
    if bits == -1:
        bits = value.width
    if not 0 <= bits <= value.width:
        raise RowFilterError("invalid mask length", sqlstate="22023")
    return Inet(value.version, bits, value.address)


@FUNCTIONS.elementwise("set_masklen(cidr,int4)")
def _network_with_mask(value: Inet, bits: int) -> Inet:
    return _network(_with_mask(value, bits))


@FUNCTIONS.elementwise("inet_merge(inet,inet)")
def _merge(left: Inet, right: Inet) -> Inet:
    if left.version != right.version:
        raise RowFilterError("cannot merge addresses from different families", sqlstate="22023")
    differing = (left.address ^ right.address).bit_length()
    bits = min(left.bits, right.bits, left.width - differing)
    return _network(Inet(left.version, bits, left.address))


@FUNCTIONS.elementwise("inetnot(inet)", raises=False)
def _inverted(value: Inet) -> Inet:
    return Inet(value.version, value.bits, value.address ^ _all_ones(value))


def _same_size(left: Inet, right: Inet, what: str) -> int:
    """The longer netmask of the two addresses.

    Raises:
        RowFilterError: 22023, the addresses are of different versions.
    """
    if left.version != right.version:
        raise RowFilterError(f"cannot {what} inet values of different sizes", sqlstate="22023")
    return max(left.bits, right.bits)


@FUNCTIONS.elementwise("inetand(inet,inet)")
def _and(left: Inet, right: Inet) -> Inet:
    return Inet(left.version, _same_size(left, right, "AND"), left.address & right.address)


@FUNCTIONS.elementwise("inetor(inet,inet)")
def _or(left: Inet, right: Inet) -> Inet:
    return Inet(left.version, _same_size(left, right, "OR"), left.address | right.address)


@FUNCTIONS.elementwise("inetpl(inet,int8)")
def _plus(value: Inet, count: int) -> Inet:
    address = value.address + count
    if not 0 <= address <= _all_ones(value):
        raise _result_out_of_range()
    return Inet(value.version, value.bits, address)


def _result_out_of_range() -> RowFilterError:
    return RowFilterError("result is out of range", sqlstate="22003")


@FUNCTIONS.elementwise("int8pl_inet(int8,inet)")
def _plus_mirrored(count: int, value: Inet) -> Inet:
    return _plus(value, count)


@FUNCTIONS.elementwise("inetmi_int8(inet,int8)")
def _minus(value: Inet, count: int) -> Inet:
    # The least integer cannot be negated: the server adds it instead of subtracting it.
    return _plus(value, count if count == _INT64[0] else -count)


@FUNCTIONS.elementwise("inetmi(inet,inet)")
def _difference(left: Inet, right: Inet) -> int:
    _same_size(left, right, "subtract")
    # The server subtracts sixteen unsigned bytes and interprets the result as a signed number.
    difference = wrapped(left.address - right.address, 128)
    if not _INT64[0] <= difference <= _INT64[1]:
        raise _result_out_of_range()
    return difference
