"""macaddr and macaddr8: bytes, which compare as they are."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from subscriber.errors import NotSupportedError, RowFilterError
from subscriber.filters.functions.comparison import register_columns, register_order, sign
from subscriber.filters.functions.forms import Form, register
from subscriber.filters.functions.function_registry import elementwise

_TEXT: Final = re.compile(
    r"[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4}(?:(?:\1[0-9A-Fa-f]{2}){2})?)", re.ASCII
)
_MIDDLE: Final = (0xFF, 0xFE)
"""The bytes that an address of six has more as one of eight."""


def _read(name: str, text: str, sizes: tuple[int, ...]) -> bytes:
    if _TEXT.fullmatch(text) is None:
        raise NotSupportedError(
            f"a value of type {name} that is written this way is not supported",
            hint="Write two digits for each byte, with colons between them.",
        )
    value = bytes.fromhex(text.replace(":", "").replace("-", ""))
    if len(value) not in sizes:
        raise RowFilterError(f"invalid input syntax for type {name}", sqlstate="22P02")
    return value


def _from_text(text: str, _: int) -> bytes:
    """``macaddr_in``."""
    return _read("macaddr", text, (6,))


def _from_text8(text: str, _: int) -> bytes:
    """``macaddr8_in``."""
    value = _read("macaddr8", text, (6, 8))
    return value if len(value) == 8 else _to_eight(value)


def _to_text(value: bytes) -> str:
    return value.hex(":")


MACADDR: Final = register(Form((829,), _from_text, _to_text, pa.binary()))
MACADDR8: Final = register(Form((774,), _from_text8, _to_text, pa.binary()))

for _name in ("macaddr", "macaddr8"):
    register_columns(f"{_name}_{{}}({_name},{_name})")
    register_order(f"{_name}_cmp({_name},{_name})", sign)


@elementwise("macaddr_not(macaddr)", "macaddr8_not(macaddr8)", raises=False)
def _not(value: bytes) -> bytes:
    return bytes(one ^ 0xFF for one in value)


@elementwise("macaddr_and(macaddr,macaddr)", "macaddr8_and(macaddr8,macaddr8)", raises=False)
def _and(left: bytes, right: bytes) -> bytes:
    return bytes(one & other for one, other in zip(left, right, strict=True))


@elementwise("macaddr_or(macaddr,macaddr)", "macaddr8_or(macaddr8,macaddr8)", raises=False)
def _or(left: bytes, right: bytes) -> bytes:
    return bytes(one | other for one, other in zip(left, right, strict=True))


@elementwise("trunc(macaddr)", "trunc(macaddr8)", raises=False)
def _manufacturer(value: bytes) -> bytes:
    return value[:3] + bytes(len(value) - 3)


@elementwise("macaddr8_set7bit(macaddr8)", raises=False)
def _set_seventh_bit(value: bytes) -> bytes:
    return bytes([value[0] | 2, *value[1:]])


@elementwise("macaddr8(macaddr)", raises=False)
def _to_eight(value: bytes) -> bytes:
    return bytes([*value[:3], *_MIDDLE, *value[3:]])


@elementwise("macaddr(macaddr8)")
def _to_six(value: bytes) -> bytes:
    if tuple(value[3:5]) != _MIDDLE:
        raise RowFilterError("macaddr8 data out of range to convert to macaddr", sqlstate="22003")
    return value[:3] + value[5:]
