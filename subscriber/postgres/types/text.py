r"""Types whose value is their text: character types, XML, and every type without a specific family.

In binary mode their form is the text, too. But a ``"char"`` may be any byte: its output function
writes bytes above 127 as ``\ooo``, and zero as an empty string.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from subscriber.base.errors import DataException
from subscriber.postgres.types import family
from subscriber.postgres.types.equality import EXACT, NONE, Equality
from subscriber.postgres.types.oids import type_name

_HEADER: Final = 4
"""``atttypmod`` of varchar(n) and character(n) is n plus this."""
_NAME_BYTES: Final = 63
_ONLY_IN_INDEXES: Final = frozenset({3642, 3644, 4600, 4601})
"""gtsvector, its array type, and the summary types of BRIN."""
_CHAR_TEXTS: Final = ("", *map(chr, range(1, 128)), *(f"\\{byte:o}" for byte in range(128, 256)))


def _char_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: one byte of any value."""
    rows = family.fixed_width(array, 1)
    if rows is None:
        raise family.invalid_binary('"char"')
    return pa.array(_CHAR_TEXTS).take(pa.array(rows.reshape(-1).astype(np.int32)))


def text_send(text: str) -> bytes:
    """The send function of the character types and of enums (``textsend``)."""
    return text.encode()


def _char_send(text: str) -> bytes:
    return bytes([byte_of_char(charin(text))])


def text_only(type_oid: int) -> family.TypeFamily:
    """The family of a type without a specific family: any text, and no binary form."""
    equality = NONE if type_oid in _ONLY_IN_INDEXES else EXACT
    return family.of_decoders(type_name(type_oid), type_oid, pa.string(), family.as_text, equality=equality)


def length_coerced(value: str, modifier: int, type_name: str, *, explicit: bool) -> str:
    """``type_name(n)``. An explicit cast truncates; otherwise only blanks may go, else 22001."""
    if modifier < _HEADER:
        return value
    longest = modifier - _HEADER
    if not explicit and value[longest:].strip(" "):
        raise DataException(f"value too long for type {type_name}({longest})", sqlstate="22001")
    return value[:longest]


def _varcharin(text: str, modifier: int) -> str:
    return length_coerced(text, modifier, "character varying", explicit=False)


def _bpcharin(text: str, modifier: int) -> str:
    return length_coerced(text, modifier, "character", explicit=False).ljust(modifier - _HEADER)


def char_of_byte(byte: int) -> str:
    return _CHAR_TEXTS[byte]


def byte_of_char(value: str) -> int:
    """The inverse of :func:`char_of_byte`."""
    if len(value) == 4:
        return int(value[1:], 8)
    return ord(value) if value else 0


def charin(text: str) -> str:
    if len(text) == 4 and text[0] == "\\" and all(digit in "01234567" for digit in text[1:]):
        return char_of_byte(int(text[1:], 8) % 256)
    return char_of_byte(text.encode()[0] if text else 0)


def namein(text: str) -> str:
    """The input function of name, which truncates a long text."""
    return text.encode()[:_NAME_BYTES].decode(errors="ignore")


def _as_is(text: str) -> str:
    return text


def _compare_bpchar(left: str, right: str) -> int:
    return family.sign(left.rstrip(" "), right.rstrip(" "))


def _canonical_bpchar(text: str) -> str:
    return text.rstrip(" ")


def _bpchar_spellings(text: str) -> tuple[str, str]:
    return text, text + "!"


def _character(
    name: str, oid: int, read: family.FromText, compare: family.Compare = family.sign, equality: Equality = EXACT
) -> family.TypeFamily:
    form = family.Form(read, _as_is, pa.string(), compare=compare)
    return family.of_decoders(
        name, oid, pa.string(), family.as_text, family.as_text, form, equality=equality, send=text_send
    )


_BPCHAR: Final = Equality(canonical=_canonical_bpchar, spellings=_bpchar_spellings)

FAMILIES: Final = (
    _character("text", 25, family.without_modifier(_as_is)),
    _character("character varying", 1043, _varcharin),
    _character("character", 1042, _bpcharin, _compare_bpchar, _BPCHAR),
    _character("name", 19, family.without_modifier(namein)),
    family.of_decoders("refcursor", 1790, pa.string(), family.as_text, family.as_text, equality=NONE, send=text_send),
    family.of_decoders(
        '"char"',
        18,
        pa.string(),
        family.as_text,
        _char_from_binary,
        family.Form(family.without_modifier(charin), _as_is, pa.string()),
        send=_char_send,
    ),
    family.of_decoders("xml", 142, pa.string(), family.as_text, family.as_text, equality=NONE, send=text_send),
)
