"""macaddr and macaddr8: six or eight bytes, compared byte by byte; the text is pairs of hex
digits.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

import pyarrow as pa

from subscriber.errors import NotSupportedError
from subscriber.types.family import as_text, family
from subscriber.types.form import Form, invalid_syntax, sign, without_modifier
from subscriber.types.wire import Wire, value_by_value

_TEXT: Final = re.compile(
    r"[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4}(?:(?:\1[0-9A-Fa-f]{2}){2})?)", re.ASCII
)
MIDDLE: Final = (0xFF, 0xFE)
"""The bytes that are inserted when an address of six bytes is extended to eight bytes."""


def _read(name: str, text: str, sizes: tuple[int, ...]) -> bytes:
    if _TEXT.fullmatch(text) is None:
        raise NotSupportedError(
            f"a value of type {name} that is written this way is not supported",
            hint="Write two digits for each byte, with colons between them.",
        )
    value = bytes.fromhex(text.replace(":", "").replace("-", ""))
    if len(value) not in sizes:
        raise invalid_syntax(name)
    return value


def macaddr_in(text: str) -> bytes:
    """The input function of macaddr.

    Raises:
        DataException: 22P02, the text is not an address of six bytes.
        NotSupportedError: the address is not written byte by byte.
    """
    return _read("macaddr", text, (6,))


def macaddr8_in(text: str) -> bytes:
    """The input function of macaddr8, which also reads six bytes. It raises the errors of
    :func:`macaddr_in`.
    """
    value = _read("macaddr8", text, (6, 8))
    return value if len(value) == 8 else eight_bytes(value)


def macaddr_out(value: bytes) -> str:
    """The output function of macaddr and macaddr8."""
    return value.hex(":")


def eight_bytes(value: bytes) -> bytes:
    """Extend an address of six bytes to eight bytes."""
    return bytes([*value[:3], *MIDDLE, *value[3:]])


def _from_wire(size: int, wire: Wire) -> str:
    return macaddr_out(wire.bytes(size))


FAMILIES: Final = tuple(
    family(
        name,
        (oid,),
        pa.string(),
        as_text,
        value_by_value(name, partial(_from_wire, size)),
        Form(without_modifier(read), macaddr_out, pa.binary(), compare=sign),
        send=read,
    )
    for name, oid, size, read in (("macaddr", 829, 6, macaddr_in), ("macaddr8", 774, 8, macaddr8_in))
)
