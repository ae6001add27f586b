"""macaddr and macaddr8, which are compared byte by byte."""

from __future__ import annotations

from typing import Final

from subscriber.errors import RowFilterError
from subscriber.filters.functions.comparison import register_columns, register_order, sign
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.types.macaddr import MIDDLE, eight_bytes

FUNCTIONS: Final = FunctionTable()

for _name in ("macaddr", "macaddr8"):
    register_columns(FUNCTIONS, f"{_name}_{{}}({_name},{_name})")
    register_order(FUNCTIONS, f"{_name}_cmp({_name},{_name})", sign)


@FUNCTIONS.elementwise("macaddr_not(macaddr)", "macaddr8_not(macaddr8)", raises=False)
def _not(value: bytes) -> bytes:
    return bytes(one ^ 0xFF for one in value)


@FUNCTIONS.elementwise("macaddr_and(macaddr,macaddr)", "macaddr8_and(macaddr8,macaddr8)", raises=False)
def _and(left: bytes, right: bytes) -> bytes:
    return bytes(one & other for one, other in zip(left, right, strict=True))


@FUNCTIONS.elementwise("macaddr_or(macaddr,macaddr)", "macaddr8_or(macaddr8,macaddr8)", raises=False)
def _or(left: bytes, right: bytes) -> bytes:
    return bytes(one | other for one, other in zip(left, right, strict=True))


@FUNCTIONS.elementwise("trunc(macaddr)", "trunc(macaddr8)", raises=False)
def _manufacturer(value: bytes) -> bytes:
    return value[:3] + bytes(len(value) - 3)


@FUNCTIONS.elementwise("macaddr8_set7bit(macaddr8)", raises=False)
def _set_seventh_bit(value: bytes) -> bytes:
    return bytes([value[0] | 2, *value[1:]])


FUNCTIONS.elementwise("macaddr8(macaddr)", raises=False)(eight_bytes)


@FUNCTIONS.elementwise("macaddr(macaddr8)")
def _to_six(value: bytes) -> bytes:
    if tuple(value[3:5]) != MIDDLE:
        raise RowFilterError("macaddr8 data out of range to convert to macaddr", sqlstate="22003")
    return value[:3] + value[5:]
