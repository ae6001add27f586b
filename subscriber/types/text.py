r"""Types whose value is their text: character types, XML, and every type without a specific family.

The character types and xml have the same form in binary mode, because their send functions write
the text. A ``"char"`` may be any byte: its output function writes bytes above 127 as ``\ooo``, and
zero as an empty string.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from subscriber.errors import DataException
from subscriber.types.equality import EXACT, NONE, Equality
from subscriber.types.family import TypeFamily, as_text, family, fixed_width, invalid_binary
from subscriber.types.form import Compare, Form, FromText, sign, without_modifier
from subscriber.types.oids import type_name

_HEADER: Final = 4
"""``atttypmod`` of varchar(n) and character(n) is n plus this."""
_NAME_BYTES: Final = 63
_ONLY_IN_INDEXES: Final = frozenset({3642, 3644, 4600, 4601})
"""gtsvector, its array type, and the summary types of BRIN."""
_CHAR_TEXTS: Final = ("", *map(chr, range(1, 128)), *(f"\\{byte:o}" for byte in range(128, 256)))


def _char_from_binary(array: pa.BinaryArray) -> pa.StringArray:
    """Layout: one byte of any value."""
    rows = fixed_width(array, 1)
    if rows is None:
        raise invalid_binary('"char"')
    return pa.array(_CHAR_TEXTS).take(pa.array(rows.reshape(-1).astype(np.int32)))


def text_send(text: str) -> bytes:
    """The send function of the character types and of enums (``textsend``)."""
    return text.encode()


def _char_send(text: str) -> bytes:
    return bytes([byte_of_char(charin(text))])


def text_only(type_oid: int) -> TypeFamily:
    """The family of a type without a specific family. It reads any text and refuses the binary
    form.
    """
    equality = NONE if type_oid in _ONLY_IN_INDEXES else EXACT
    return family(type_name(type_oid), (type_oid,), pa.string(), as_text, equality=equality)


def length_coerced(value: str, modifier: int, type_name: str, *, explicit: bool) -> str:
    """Convert ``value`` to ``type_name(n)``.

    The value is truncated if the cast is explicit, or if truncation removes only blanks.

    Raises:
        DataException: 22001, the value is too long.
    """
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
    """The text of a "char", as its output function writes it."""
    return _CHAR_TEXTS[byte]


def byte_of_char(value: str) -> int:
    """The byte of a "char" whose text :func:`char_of_byte` wrote."""
    if len(value) == 4:
        return int(value[1:], 8)
    return ord(value) if value else 0


def charin(text: str) -> str:
    """The input function of "char"; the result is the text of one byte."""
    if len(text) == 4 and text[0] == "\\" and all(digit in "01234567" for digit in text[1:]):
        return char_of_byte(int(text[1:], 8) % 256)
    return char_of_byte(text.encode()[0] if text else 0)


def namein(text: str) -> str:
    """The input function of name, which truncates a long text."""
    return text.encode()[:_NAME_BYTES].decode(errors="ignore")


def _as_is(text: str) -> str:
    return text


def _compare_bpchar(left: str, right: str) -> int:
    """Compare two values without the blanks at their ends."""
    return sign(left.rstrip(" "), right.rstrip(" "))


def _canonical_bpchar(text: str) -> str:
    """The canonical form of a character(n): without blanks at the end."""
    return text.rstrip(" ")


def _bpchar_spellings(text: str) -> tuple[str, str]:
    return text, text + "!"


def _character(name: str, oid: int, read: FromText, compare: Compare = sign, equality: Equality = EXACT) -> TypeFamily:
    form = Form(read, _as_is, pa.string(), compare=compare)
    return family(name, (oid,), pa.string(), as_text, as_text, form, equality=equality, send=text_send)


_BPCHAR: Final = Equality(canonical=_canonical_bpchar, spellings=_bpchar_spellings)

FAMILIES: Final = (
    _character("text", 25, without_modifier(_as_is)),
    _character("character varying", 1043, _varcharin),
    _character("character", 1042, _bpcharin, _compare_bpchar, _BPCHAR),
    _character("name", 19, without_modifier(namein)),
    family("refcursor", (1790,), pa.string(), as_text, as_text, equality=NONE, send=text_send),
    family(
        '"char"',
        (18,),
        pa.string(),
        as_text,
        _char_from_binary,
        Form(without_modifier(charin), _as_is, pa.string()),
        send=_char_send,
    ),
    family("xml", (142,), pa.string(), as_text, as_text, equality=NONE, send=text_send),
)
