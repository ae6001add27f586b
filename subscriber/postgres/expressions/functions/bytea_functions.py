"""bytea, bit(n) and bit varying, the encodings of ``encode`` and ``decode``, and the send
functions.

A bit string is a string of 0 and 1, ordered as strings are. PostgreSQL compares the bytes, padded
with zero bits, and then the lengths, which is the same order. The bits of a bytea are numbered from
the least significant bit of its first byte, those of a bit string from its first bit. The functions
of their parts are in ``text_functions``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import operator
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from subscriber.base.errors import RowFilterError
from subscriber.postgres.expressions.functions.function_table import elementwise, register_columns, register_extremes
from subscriber.postgres.expressions.functions.integer_functions import out_of_range
from subscriber.postgres.types import byte_strings
from subscriber.postgres.types.family import sign
from subscriber.postgres.types.registry import form_of, send_of

# --- comparisons ------------------------------------------------------------------------------

register_columns("bit{}(bit,bit)")
register_columns("varbit{}(varbit,varbit)")


# --- casts ------------------------------------------------------------------------------------

elementwise("bit(bit,int4,bool)")(byte_strings.fixed)
elementwise("varbit(varbit,int4,bool)")(byte_strings.limited)


@elementwise("bit(int4,int4)", "bit(int8,int4)", raises=False)
def _bits_of_integer(value: int, length: int) -> str:
    length = length if 0 < length <= byte_strings.MOST_BITS else 1
    return f"{value % 2**length:0{length}b}"


def _integer(size: int, name: str, value: str) -> int:
    if len(value) > size:
        raise out_of_range(name)
    number = int(value or "0", 2)
    return number - 2**size if number >= 2 ** (size - 1) else number


elementwise("int4(bit)")(partial(_integer, 32, "integer"))
elementwise("int8(bit)")(partial(_integer, 64, "bigint"))


# --- operators --------------------------------------------------------------------------------


def _register_bitwise(signature: str, verb: str, combine: Callable[[int, int], int]) -> None:
    @elementwise(signature)
    def combined(left: str, right: str) -> str:
        if len(left) != len(right):
            raise RowFilterError(f"cannot {verb} bit strings of different sizes", sqlstate="22026")
        number = combine(int(left or "0", 2), int(right or "0", 2))
        return f"{number:0{len(left)}b}" if left else ""


_register_bitwise("bitand(bit,bit)", "AND", operator.and_)
_register_bitwise("bitor(bit,bit)", "OR", operator.or_)
_register_bitwise("bitxor(bit,bit)", "XOR", operator.xor)
elementwise("bitnot(bit)", raises=False)(lambda value: value.translate({ord("0"): "1", ord("1"): "0"}))


@elementwise("bitshiftleft(bit,int4)", raises=False)
def _shifted_left(value: str, count: int) -> str:
    if count < 0:
        return _shifted_right(value, -count)
    return value[count:].ljust(len(value), "0")


@elementwise("bitshiftright(bit,int4)", raises=False)
def _shifted_right(value: str, count: int) -> str:
    if count < 0:
        return _shifted_left(value, -count)
    return value[: max(len(value) - count, 0)].rjust(len(value), "0")


# --- parts and lengths ------------------------------------------------------------------------

elementwise("position(bit,bit)", raises=False)(lambda value, searched: value.find(searched) + 1 if value else 0)
elementwise("octet_length(bit)", raises=False)(lambda value: (len(value) + 7) // 8)
elementwise("bit_count(bit)", raises=False)(lambda value: value.count("1"))


def _checked(index: int, value: str) -> int:
    if not 0 <= index < len(value):
        raise RowFilterError("bit index out of valid range", sqlstate="2202E")
    return index


elementwise("get_bit(bit,int4)")(lambda value, index: int(value[_checked(index, value)]))


@elementwise("set_bit(bit,int4,int4)")
def _with_bit(value: str, index: int, new: int) -> str:
    _checked(index, value)
    if new not in {0, 1}:
        raise RowFilterError("new bit must be 0 or 1", sqlstate="22023")
    return f"{value[:index]}{new}{value[index + 1 :]}"


_SPACES: Final = " \n\t\r"
_BASE64_LINE: Final = 57
"""The bytes in a line of 76 characters."""

_BASE64: Final = {
    character: value
    for value, character in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}
_CRC32C_POLYNOMIAL: Final = 0x82F63B78


# --- comparisons, length, concatenation -------------------------------------------------------

register_columns("bytea{}(bytea,bytea)")
register_extremes("bytea_larger(bytea,bytea)", "bytea_smaller(bytea,bytea)", sign)


# --- bytes and bits ---------------------------------------------------------------------------


def _bytea_checked(index: int, count: int) -> int:
    if not 0 <= index < count:
        raise RowFilterError("index out of valid range", sqlstate="2202E")
    return index


elementwise("get_byte(bytea,int4)")(lambda value, index: value[_bytea_checked(index, len(value))])


@elementwise("set_byte(bytea,int4,int4)")
def _with_byte(value: bytes, index: int, new: int) -> bytes:
    _bytea_checked(index, len(value))
    return value[:index] + bytes([new % 256]) + value[index + 1 :]


@elementwise("get_bit(bytea,int8)")
def _bytea_bit(value: bytes, index: int) -> int:
    _bytea_checked(index, len(value) * 8)
    return value[index // 8] >> index % 8 & 1


@elementwise("set_bit(bytea,int8,int4)")
def _bytea_with_bit(value: bytes, index: int, new: int) -> bytes:
    _bytea_checked(index, len(value) * 8)
    if new not in {0, 1}:
        raise RowFilterError("new bit must be 0 or 1", sqlstate="22023")
    mask = 1 << index % 8
    byte = value[index // 8]
    return _with_byte(value, index // 8, byte | mask if new else byte & ~mask)


elementwise("bit_count(bytea)", raises=False)(lambda value: int.from_bytes(value, "big").bit_count())


def _bytes_of_integer(size: int, value: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def _integer_of_bytes(size: int, name: str, value: bytes) -> int:
    if len(value) > size:
        raise out_of_range(name)
    # Only a value of full size has a sign. In a shorter value the missing bytes count as zero.
    return int.from_bytes(value, "big", signed=len(value) == size)


for _size, _name in ((2, "smallint"), (4, "integer"), (8, "bigint")):
    elementwise(f"bytea(int{_size})", raises=False)(partial(_bytes_of_integer, _size))
    elementwise(f"int{_size}(bytea)")(partial(_integer_of_bytes, _size, _name))


# --- digests ----------------------------------------------------------------------------------

elementwise("md5(bytea)", raises=False)(lambda value: hashlib.md5(value, usedforsecurity=False).hexdigest())


def _digest(algorithm: str, value: bytes) -> bytes:
    return hashlib.new(algorithm, value).digest()


for _name in ("sha224", "sha256", "sha384", "sha512"):
    elementwise(f"{_name}(bytea)", raises=False)(partial(_digest, _name))
elementwise("crc32(bytea)", raises=False)(zlib.crc32)


@elementwise("crc32c(bytea)", raises=False)
def _crc32c(value: bytes) -> int:
    checksum = 0xFFFFFFFF
    for byte in value:
        checksum ^= byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (_CRC32C_POLYNOMIAL if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF


# --- encode, decode ---------------------------------------------------------------------------


def _to_base64(value: bytes) -> str:
    lines = (value[start : start + _BASE64_LINE] for start in range(0, len(value), _BASE64_LINE))
    return "\n".join(base64.b64encode(line).decode() for line in lines)


def _from_base64(text: str) -> bytes:
    result = bytearray()
    group, count, ended = 0, 0, 3
    for character in text:
        if character in _SPACES:
            continue
        if character == "=":
            if ended == 3:
                if count < 2:
                    raise RowFilterError('unexpected "=" while decoding base64 sequence', sqlstate="22023")
                ended = count - 1
            value = 0
        else:
            value = _BASE64.get(character, -1)
            if value < 0:
                raise RowFilterError("invalid symbol found while decoding base64 sequence", sqlstate="22023")
        group = group << 6 | value
        count += 1
        if count == 4:
            # After the first "=", every group gives as many bytes as the group with that "=", as in
            # PostgreSQL.
            result += group.to_bytes(3, "big")[:ended]
            group, count = 0, 0
    if count:
        raise RowFilterError(
            "invalid base64 end sequence",
            sqlstate="22023",
            hint="Input data is missing padding, is truncated, or is otherwise corrupted.",
        )
    return bytes(result)


_ENCODINGS: Final[dict[str, tuple[Callable[[bytes], str], Callable[[str], bytes]]]] = {
    "hex": (lambda value: binascii.hexlify(value).decode(), byte_strings.from_hexadecimal),
    "base64": (_to_base64, _from_base64),
    "escape": (byte_strings.to_escaped, byte_strings.from_escaped),
}


def _encoding(name: str) -> tuple[Callable[[bytes], str], Callable[[str], bytes]]:
    found = _ENCODINGS.get(name.lower())
    if found is None:
        raise RowFilterError("unrecognized encoding", sqlstate="22023")
    return found


@elementwise("encode(bytea,text)")
def _encoded(value: bytes, encoding: str) -> str:
    to_text, _ = _encoding(encoding)
    return to_text(value)


@elementwise("decode(text,text)")
def _decoded(value: str, encoding: str) -> bytes:
    _, from_text = _encoding(encoding)
    return from_text(value)


# --- send functions ---------------------------------------------------------------------------

_SEND_FUNCTIONS: Final = {
    "boolsend(bool)": 16, "byteasend(bytea)": 17, "charsend(char)": 18, "int8send(int8)": 20, "int2send(int2)": 21, "int4send(int4)": 23,
    "oidsend(oid)": 26, "cidr_send(cidr)": 650, "float4send(float4)": 700, "float8send(float8)": 701, "macaddr8_send(macaddr8)": 774,
    "macaddr_send(macaddr)": 829, "inet_send(inet)": 869, "date_send(date)": 1082, "time_send(time)": 1083, "timestamp_send(timestamp)": 1114,
    "timestamptz_send(timestamptz)": 1184, "interval_send(interval)": 1186, "timetz_send(timetz)": 1266, "bit_send(bit)": 1560,
    "varbit_send(varbit)": 1562, "numeric_send(numeric)": 1700, "uuid_send(uuid)": 2950, "pg_lsn_send(pg_lsn)": 3220,
}  # fmt: skip
"""Immutable send functions whose bytes do not depend on an encoding, with their types."""


def _sent(type_oid: int, value: Any) -> bytes:
    form, send = form_of(type_oid), send_of(type_oid)
    assert form is not None
    assert send is not None
    return send(form.to_text(value))


for _signature, _oid in _SEND_FUNCTIONS.items():
    elementwise(_signature, raises=False)(partial(_sent, _oid))
