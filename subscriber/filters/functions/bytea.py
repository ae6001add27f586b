r"""bytea: comparisons, parts, bits, digests, and the encodings of ``encode`` and ``decode``.

The bits of a bytea are numbered from the least significant bit of its first byte. The bits of a bit
string are numbered from its first bit: see :mod:`.bits`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import RowFilterError
from subscriber.filters.functions.comparison import register_columns, register_extremes, sign
from subscriber.filters.functions.function_table import FunctionTable
from subscriber.filters.functions.strings import overlay_end, part_bounds
from subscriber.types.bytea import from_escaped, from_hexadecimal, to_escaped

FUNCTIONS: Final = FunctionTable()

_SPACES: Final = " \n\t\r"
_BASE64_LINE: Final = 57
"""The number of bytes that are encoded in a line of 76 characters."""

_BASE64: Final = {
    character: value
    for value, character in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}
_CRC32C_POLYNOMIAL: Final = 0x82F63B78


# --- comparisons, length, concatenation -------------------------------------------------------


register_columns(FUNCTIONS, "bytea{}(bytea,bytea)")
register_extremes(FUNCTIONS, "bytea_larger(bytea,bytea)", "bytea_smaller(bytea,bytea)", sign)


@FUNCTIONS.vectorised("length(bytea)", "octet_length(bytea)")
def _length(value: pa.Array) -> pa.Array:
    return pc.binary_length(value)


@FUNCTIONS.vectorised("bit_length(bytea)")
def _bit_length(value: pa.Array) -> pa.Array:
    return pc.multiply(pc.binary_length(value), pa.scalar(8, pa.int32()))


@FUNCTIONS.vectorised("byteacat(bytea,bytea)")
def _concatenated(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(left, right, pa.scalar(b"", pa.binary()))


# --- parts ------------------------------------------------------------------------------------


@FUNCTIONS.elementwise("substr(bytea,int4)", "substring(bytea,int4)", raises=False)
def _from(value: bytes, start: int) -> bytes:
    first, _ = part_bounds(start, None)
    return value[first:]


@FUNCTIONS.elementwise("substr(bytea,int4,int4)", "substring(bytea,int4,int4)")
def _part(value: bytes, start: int, length: int) -> bytes:
    first, end = part_bounds(start, length)
    return value[first:end]


@FUNCTIONS.elementwise("overlay(bytea,bytea,int4,int4)")
def _overlaid(value: bytes, new: bytes, start: int, length: int) -> bytes:
    end = overlay_end(start, length)
    return value[: start - 1] + new + value[max(end, 1) - 1 :]


@FUNCTIONS.elementwise("overlay(bytea,bytea,int4)")
def _overlaid_by_its_length(value: bytes, new: bytes, start: int) -> bytes:
    return _overlaid(value, new, start, len(new))


@FUNCTIONS.elementwise("position(bytea,bytea)", raises=False)
def _position(value: bytes, searched: bytes) -> int:
    return value.find(searched) + 1


@FUNCTIONS.elementwise("btrim(bytea,bytea)", raises=False)
def _trimmed(value: bytes, removed: bytes) -> bytes:
    return value.strip(removed) if removed else value


@FUNCTIONS.elementwise("ltrim(bytea,bytea)", raises=False)
def _left_trimmed(value: bytes, removed: bytes) -> bytes:
    return value.lstrip(removed) if removed else value


@FUNCTIONS.elementwise("rtrim(bytea,bytea)", raises=False)
def _right_trimmed(value: bytes, removed: bytes) -> bytes:
    return value.rstrip(removed) if removed else value


@FUNCTIONS.elementwise("reverse(bytea)", raises=False)
def _reversed(value: bytes) -> bytes:
    return value[::-1]


# --- bytes and bits ---------------------------------------------------------------------------


def _checked(index: int, count: int) -> int:
    if not 0 <= index < count:
        raise RowFilterError("index out of valid range", sqlstate="2202E")
    return index


@FUNCTIONS.elementwise("get_byte(bytea,int4)")
def _byte(value: bytes, index: int) -> int:
    return value[_checked(index, len(value))]


@FUNCTIONS.elementwise("set_byte(bytea,int4,int4)")
def _with_byte(value: bytes, index: int, new: int) -> bytes:
    _checked(index, len(value))
    return value[:index] + bytes([new % 256]) + value[index + 1 :]


@FUNCTIONS.elementwise("get_bit(bytea,int8)")
def _bit(value: bytes, index: int) -> int:
    _checked(index, len(value) * 8)
    return value[index // 8] >> index % 8 & 1


@FUNCTIONS.elementwise("set_bit(bytea,int8,int4)")
def _with_bit(value: bytes, index: int, new: int) -> bytes:
    _checked(index, len(value) * 8)
    if new not in {0, 1}:
        raise RowFilterError("new bit must be 0 or 1", sqlstate="22023")
    mask = 1 << index % 8
    byte = value[index // 8]
    return _with_byte(value, index // 8, byte | mask if new else byte & ~mask)


@FUNCTIONS.elementwise("bit_count(bytea)", raises=False)
def _bit_count(value: bytes) -> int:
    return int.from_bytes(value, "big").bit_count()


@FUNCTIONS.elementwise("bytea(int2)", raises=False)
def _bytes_of_smallint(value: int) -> bytes:
    return value.to_bytes(2, "big", signed=True)


@FUNCTIONS.elementwise("bytea(int4)", raises=False)
def _bytes_of_integer(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


@FUNCTIONS.elementwise("bytea(int8)", raises=False)
def _bytes_of_bigint(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def _integer(value: bytes, size: int, name: str) -> int:
    if len(value) > size:
        raise RowFilterError(f"{name} out of range", sqlstate="22003")
    # Only a value of full size has a sign. In a shorter value the missing bytes count as zero.
    return int.from_bytes(value, "big", signed=len(value) == size)


@FUNCTIONS.elementwise("int2(bytea)")
def _smallint_of_bytes(value: bytes) -> int:
    return _integer(value, 2, "smallint")


@FUNCTIONS.elementwise("int4(bytea)")
def _integer_of_bytes(value: bytes) -> int:
    return _integer(value, 4, "integer")


@FUNCTIONS.elementwise("int8(bytea)")
def _bigint_of_bytes(value: bytes) -> int:
    return _integer(value, 8, "bigint")


# --- digests ----------------------------------------------------------------------------------


@FUNCTIONS.elementwise("md5(bytea)", raises=False)
def _md5(value: bytes) -> str:
    return hashlib.md5(value, usedforsecurity=False).hexdigest()


@FUNCTIONS.elementwise("sha224(bytea)", raises=False)
def _sha224(value: bytes) -> bytes:
    return hashlib.sha224(value).digest()


@FUNCTIONS.elementwise("sha256(bytea)", raises=False)
def _sha256(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


@FUNCTIONS.elementwise("sha384(bytea)", raises=False)
def _sha384(value: bytes) -> bytes:
    return hashlib.sha384(value).digest()


@FUNCTIONS.elementwise("sha512(bytea)", raises=False)
def _sha512(value: bytes) -> bytes:
    return hashlib.sha512(value).digest()


@FUNCTIONS.elementwise("crc32(bytea)", raises=False)
def _crc32(value: bytes) -> int:
    return zlib.crc32(value)


@FUNCTIONS.elementwise("crc32c(bytea)", raises=False)
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
    "hex": (lambda value: binascii.hexlify(value).decode(), from_hexadecimal),
    "base64": (_to_base64, _from_base64),
    "escape": (to_escaped, from_escaped),
}


def _encoding(name: str) -> tuple[Callable[[bytes], str], Callable[[str], bytes]]:
    found = _ENCODINGS.get(name.lower())
    if found is None:
        raise RowFilterError("unrecognized encoding", sqlstate="22023")
    return found


@FUNCTIONS.elementwise("encode(bytea,text)")
def _encoded(value: bytes, encoding: str) -> str:
    to_text, _ = _encoding(encoding)
    return to_text(value)


@FUNCTIONS.elementwise("decode(text,text)")
def _decoded(value: str, encoding: str) -> bytes:
    _, from_text = _encoding(encoding)
    return from_text(value)
