"""bit(n) and bit varying, strings of 0 and 1: comparisons, casts, bitwise operators, parts.

They are ordered as strings. PostgreSQL compares the bytes, which are padded with zero bits, and
then the lengths. Both methods give the same order.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import RowFilterError
from subscriber.filters.functions.comparison import register_columns
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.filters.functions.strings import overlay_end, part_bounds
from subscriber.types.bits import MOST_BITS, fixed, limited

FUNCTIONS: Final = FunctionTable()

# --- comparisons ------------------------------------------------------------------------------


register_columns(FUNCTIONS, "bit{}(bit,bit)")
register_columns(FUNCTIONS, "varbit{}(varbit,varbit)")


# --- casts ------------------------------------------------------------------------------------


@FUNCTIONS.elementwise("bit(bit,int4,bool)")
def _coerced_bit(value: str, length: int, explicit: bool) -> str:
    return fixed(value, length, explicit=explicit)


@FUNCTIONS.elementwise("varbit(varbit,int4,bool)")
def _coerced_varbit(value: str, longest: int, explicit: bool) -> str:
    return limited(value, longest, explicit=explicit)


@FUNCTIONS.elementwise("bit(int4,int4)", "bit(int8,int4)", raises=False)
def _bits_of_integer(value: int, length: int) -> str:
    length = length if 0 < length <= MOST_BITS else 1
    return f"{value % 2**length:0{length}b}"


def _integer(value: str, size: int, name: str) -> int:
    if len(value) > size:
        raise RowFilterError(f"{name} out of range", sqlstate="22003")
    number = int(value or "0", 2)
    return number - 2**size if number >= 2 ** (size - 1) else number


@FUNCTIONS.elementwise("int4(bit)")
def _integer_of_bits(value: str) -> int:
    return _integer(value, 32, "integer")


@FUNCTIONS.elementwise("int8(bit)")
def _bigint_of_bits(value: str) -> int:
    return _integer(value, 64, "bigint")


# --- operators --------------------------------------------------------------------------------


def _numbers(left: str, right: str, verb: str) -> tuple[int, int]:
    if len(left) != len(right):
        raise RowFilterError(f"cannot {verb} bit strings of different sizes", sqlstate="22026")
    return int(left or "0", 2), int(right or "0", 2)


def _bits(number: int, length: int) -> str:
    return f"{number:0{length}b}" if length else ""


@FUNCTIONS.elementwise("bitand(bit,bit)")
def _and(left: str, right: str) -> str:
    first, second = _numbers(left, right, "AND")
    return _bits(first & second, len(left))


@FUNCTIONS.elementwise("bitor(bit,bit)")
def _or(left: str, right: str) -> str:
    first, second = _numbers(left, right, "OR")
    return _bits(first | second, len(left))


@FUNCTIONS.elementwise("bitxor(bit,bit)")
def _xor(left: str, right: str) -> str:
    first, second = _numbers(left, right, "XOR")
    return _bits(first ^ second, len(left))


@FUNCTIONS.elementwise("bitnot(bit)", raises=False)
def _not(value: str) -> str:
    return value.translate({ord("0"): "1", ord("1"): "0"})


@FUNCTIONS.elementwise("bitshiftleft(bit,int4)", raises=False)
def _shifted_left(value: str, count: int) -> str:
    if count < 0:
        return _shifted_right(value, -count)
    return value[count:].ljust(len(value), "0")


@FUNCTIONS.elementwise("bitshiftright(bit,int4)", raises=False)
def _shifted_right(value: str, count: int) -> str:
    if count < 0:
        return _shifted_left(value, -count)
    return value[: max(len(value) - count, 0)].rjust(len(value), "0")


@FUNCTIONS.vectorised("bitcat(varbit,varbit)")
def _concatenated(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(left, right, "")


# --- parts and lengths ------------------------------------------------------------------------


@FUNCTIONS.elementwise("substring(bit,int4)", raises=False)
def _from(value: str, start: int) -> str:
    first, _ = part_bounds(start, None)
    return value[first:]


@FUNCTIONS.elementwise("substring(bit,int4,int4)")
def _part(value: str, start: int, length: int) -> str:
    first, end = part_bounds(start, length)
    return value[first:end]


@FUNCTIONS.elementwise("overlay(bit,bit,int4,int4)")
def _overlaid(value: str, new: str, start: int, length: int) -> str:
    end = overlay_end(start, length)
    return value[: start - 1] + new + value[max(end, 1) - 1 :]


@FUNCTIONS.elementwise("overlay(bit,bit,int4)")
def _overlaid_by_its_length(value: str, new: str, start: int) -> str:
    return _overlaid(value, new, start, len(new))


@FUNCTIONS.elementwise("position(bit,bit)", raises=False)
def _position(value: str, searched: str) -> int:
    return value.find(searched) + 1 if value else 0


@FUNCTIONS.vectorised("length(bit)", "bit_length(bit)")
def _length(value: pa.Array) -> pa.Array:
    return pc.binary_length(value)


@FUNCTIONS.elementwise("octet_length(bit)", raises=False)
def _octet_length(value: str) -> int:
    return (len(value) + 7) // 8


@FUNCTIONS.elementwise("bit_count(bit)", raises=False)
def _bit_count(value: str) -> int:
    return value.count("1")


def _checked(index: int, value: str) -> int:
    if not 0 <= index < len(value):
        raise RowFilterError("bit index out of valid range", sqlstate="2202E")
    return index


@FUNCTIONS.elementwise("get_bit(bit,int4)")
def _bit(value: str, index: int) -> int:
    return int(value[_checked(index, value)])


@FUNCTIONS.elementwise("set_bit(bit,int4,int4)")
def _with_bit(value: str, index: int, new: int) -> str:
    _checked(index, value)
    if new not in {0, 1}:
        raise RowFilterError("new bit must be 0 or 1", sqlstate="22023")
    return f"{value[:index]}{new}{value[index + 1 :]}"
