"""Functions of character strings: parts, searching, padding, digests and others.

Positions count characters from 1, as in SQL. Only ``initcap`` depends on a collation: under
collation "C" its letters are those of ASCII.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pyarrow.compute as pc

from subscriber.errors import RowFilterError
from subscriber.filters.functions.function_table import FunctionTable, Implementation
from subscriber.filters.functions.text import LONGEST_VALUE
from subscriber.types.array_text import EMPTY, Array

FUNCTIONS: Final = FunctionTable()

_LARGEST_INT4: Final = 2**31 - 1
_UTF8_BYTES: Final = 4
"""The number of bytes per character for which PostgreSQL allocates memory."""

_WORD: Final = re.compile(r"[0-9A-Za-z]+")
_UNICODE_ESCAPE: Final = re.compile(
    r"\\(?:(\\)|u?([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6})|U([0-9A-Fa-f]{8})|)",
)


def part_bounds(start: int, length: int | None) -> tuple[int, int | None]:
    """SQL's ``substring(… FROM start FOR length)`` as a Python slice; None means to the end.

    Raises:
        RowFilterError: 22011, the length is negative.
    """
    first = max(start, 1) - 1
    if length is None:
        return first, None
    if length < 0:
        raise RowFilterError("negative substring length not allowed", sqlstate="22011")
    end = start + length
    if end > _LARGEST_INT4:
        return first, None
    return first, max(end - 1, first)


def overlay_end(start: int, length: int) -> int:
    """The position after the part that ``overlay`` replaces.

    Raises:
        RowFilterError: 22011, the part begins before the string; 22003, it ends beyond int4.
    """
    if start <= 0:
        raise RowFilterError("negative substring length not allowed", sqlstate="22011")
    end = start + length
    if not -_LARGEST_INT4 - 1 <= end <= _LARGEST_INT4:
        raise RowFilterError("integer out of range", sqlstate="22003")
    return end


def _too_long() -> RowFilterError:
    return RowFilterError("requested length too large", sqlstate="54000")


# --- parts ------------------------------------------------------------------------------------


@FUNCTIONS.elementwise("substr(text,int4)", "substring(text,int4)", raises=False)
def _from(value: str, start: int) -> str:
    first, _ = part_bounds(start, None)
    return value[first:]


@FUNCTIONS.elementwise("substr(text,int4,int4)", "substring(text,int4,int4)")
def _part(value: str, start: int, length: int) -> str:
    first, end = part_bounds(start, length)
    return value[first:end]


@FUNCTIONS.elementwise("left(text,int4)", raises=False)
def _left(value: str, count: int) -> str:
    return value[:count]


@FUNCTIONS.elementwise("right(text,int4)", raises=False)
def _right(value: str, count: int) -> str:
    if count <= -_LARGEST_INT4 - 1:
        return value  # PostgreSQL negates the number, which is not possible for the least number
    return value[-count:] if count else ""


@FUNCTIONS.elementwise("overlay(text,text,int4,int4)")
def _overlaid(value: str, new: str, start: int, length: int) -> str:
    end = overlay_end(start, length)
    return value[: start - 1] + new + value[max(end, 1) - 1 :]


@FUNCTIONS.elementwise("overlay(text,text,int4)")
def _overlaid_by_its_length(value: str, new: str, start: int) -> str:
    return _overlaid(value, new, start, len(new))


def _split(value: str, separator: str) -> list[str]:
    return value.split(separator) if separator else [value]


@FUNCTIONS.elementwise("split_part(text,text,int4)")
def _split_part(value: str, separator: str, field: int) -> str:
    if field == 0:
        raise RowFilterError("field position must not be zero", sqlstate="22023")
    if not value:
        return ""
    parts = _split(value, separator)
    index = field - 1 if field > 0 else len(parts) + field
    return parts[index] if 0 <= index < len(parts) else ""


@FUNCTIONS.elementwise("string_to_array(text,text,text)", strict=False, raises=False)
def _as_array(value: str | None, separator: str | None, null: str | None) -> Array | None:
    if value is None:
        return None
    if not value:
        return EMPTY
    parts = _split(value, separator) if separator is not None else list(value)
    return Array((len(parts),), (1,), tuple(None if part == null else part for part in parts))


@FUNCTIONS.elementwise("string_to_array(text,text)", strict=False, raises=False)
def _as_array_without_nulls(value: str | None, separator: str | None) -> Array | None:
    return _as_array(value, separator, None)


# --- searching --------------------------------------------------------------------------------


def _starts_with_constant(prefix: str, value: Any, _: Any) -> Any:
    return pc.starts_with(value, pattern=prefix)


def _with_constant_prefix(implementation: Implementation, constants: Mapping[int, Any]) -> Implementation:
    prefix = constants.get(1)
    if prefix is None:
        return implementation
    return dataclasses.replace(
        implementation, function=partial(_starts_with_constant, prefix), vectorised=True, specialise=None
    )


@FUNCTIONS.elementwise("starts_with(text,text)", raises=False, specialise=_with_constant_prefix)
def _starts_with(value: str, prefix: str) -> bool:
    return value.startswith(prefix)


@FUNCTIONS.elementwise("strpos(text,text)", "position(text,text)", raises=False)
def _position(value: str, searched: str) -> int:
    return value.find(searched) + 1


@FUNCTIONS.elementwise("replace(text,text,text)", raises=False)
def _replaced(value: str, old: str, new: str) -> str:
    return value.replace(old, new) if old else value


@FUNCTIONS.elementwise("translate(text,text,text)", raises=False)
def _translated(value: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for index, character in enumerate(old):
        table.setdefault(ord(character), new[index] if index < len(new) else None)
    return value.translate(table)


# --- trimming and padding ---------------------------------------------------------------------


@FUNCTIONS.elementwise("btrim(text)", raises=False)
def _trimmed(value: str) -> str:
    return value.strip(" ")


@FUNCTIONS.elementwise("ltrim(text)", raises=False)
def _left_trimmed(value: str) -> str:
    return value.lstrip(" ")


@FUNCTIONS.elementwise("rtrim(text)", raises=False)
def _right_trimmed(value: str) -> str:
    return value.rstrip(" ")


@FUNCTIONS.elementwise("btrim(text,text)", raises=False)
def _trimmed_of(value: str, characters: str) -> str:
    return value.strip(characters) if characters else value


@FUNCTIONS.elementwise("ltrim(text,text)", raises=False)
def _left_trimmed_of(value: str, characters: str) -> str:
    return value.lstrip(characters) if characters else value


@FUNCTIONS.elementwise("rtrim(text,text)", raises=False)
def _right_trimmed_of(value: str, characters: str) -> str:
    return value.rstrip(characters) if characters else value


def _padding(value: str, length: int, fill: str) -> str:
    missing = length - len(value) if fill else 0
    if (length if fill else min(length, len(value))) * _UTF8_BYTES > LONGEST_VALUE:
        raise _too_long()
    if missing <= 0:
        return ""
    return (fill * (missing // len(fill) + 1))[:missing]


@FUNCTIONS.elementwise("lpad(text,int4,text)")
def _left_padded(value: str, length: int, fill: str) -> str:
    return _padding(value, length, fill) + value[: max(length, 0)]


@FUNCTIONS.elementwise("lpad(text,int4)")
def _left_padded_with_blanks(value: str, length: int) -> str:
    return _left_padded(value, length, " ")


@FUNCTIONS.elementwise("rpad(text,int4,text)")
def _right_padded(value: str, length: int, fill: str) -> str:
    return value[: max(length, 0)] + _padding(value, length, fill)


@FUNCTIONS.elementwise("rpad(text,int4)")
def _right_padded_with_blanks(value: str, length: int) -> str:
    return _right_padded(value, length, " ")


@FUNCTIONS.elementwise("repeat(text,int4)")
def _repeated(value: str, count: int) -> str:
    if count > 0 and count * len(value.encode()) > LONGEST_VALUE:
        raise _too_long()
    return value * count


# --- characters -------------------------------------------------------------------------------


@FUNCTIONS.elementwise("reverse(text)", raises=False)
def _reversed(value: str) -> str:
    return value[::-1]


@FUNCTIONS.elementwise("initcap(text)", raises=False, bytewise=True)
def _initcap(value: str) -> str:
    return _WORD.sub(lambda word: word[0][0].upper() + word[0][1:].lower(), value)


@FUNCTIONS.elementwise("ascii(text)", raises=False)
def _code_of(value: str) -> int:
    return ord(value[0]) if value else 0


@FUNCTIONS.elementwise("chr(int4)")
def _character_of(code: int) -> str:
    if code < 0:
        raise RowFilterError("character number must be positive", sqlstate="22023")
    if code == 0:
        raise RowFilterError("null character not permitted", sqlstate="54000")
    if code > 0x10FFFF:
        raise RowFilterError("requested character too large for encoding", sqlstate="54000")
    if 0xD800 <= code <= 0xDFFF:
        raise RowFilterError("requested character not valid for encoding", sqlstate="54000")
    return chr(code)


@FUNCTIONS.elementwise("unistr(text)")
def _unescaped(value: str) -> str:
    result: list[str] = []
    high = None
    end = 0
    for match in _UNICODE_ESCAPE.finditer(value):
        plain = value[end : match.start()]
        end = match.end()
        if high is not None and plain:
            raise _bad_surrogates()
        result.append(plain)
        if match[1]:
            if high is not None:
                raise _bad_surrogates()
            result.append("\\")
            continue
        digits = match[2] or match[3] or match[4]
        if not digits:
            raise RowFilterError(
                "invalid Unicode escape",
                sqlstate="42601",
                hint=r"Unicode escapes must be \XXXX, \+XXXXXX, \uXXXX, or \UXXXXXXXX.",
            )
        code = int(digits, 16)
        if code == 0 or code > 0x10FFFF:
            raise RowFilterError("invalid Unicode code point", sqlstate="22023")
        if high is not None:
            if not 0xDC00 <= code <= 0xDFFF:
                raise _bad_surrogates()
            code = 0x10000 + (high - 0xD800) * 0x400 + code - 0xDC00
            high = None
        elif 0xDC00 <= code <= 0xDFFF:
            raise _bad_surrogates()
        elif 0xD800 <= code <= 0xDBFF:
            high = code
            continue
        result.append(chr(code))
    if high is not None:
        raise _bad_surrogates()
    return "".join(result) + value[end:]


def _bad_surrogates() -> RowFilterError:
    return RowFilterError("invalid Unicode surrogate pair", sqlstate="42601")


# --- numbers, literals, digests ---------------------------------------------------------------


@FUNCTIONS.elementwise("to_hex(int4)", raises=False)
def _hexadecimal(value: int) -> str:
    return f"{value % 2**32:x}"


@FUNCTIONS.elementwise("to_hex(int8)", raises=False)
def _hexadecimal_of_bigint(value: int) -> str:
    return f"{value % 2**64:x}"


@FUNCTIONS.elementwise("to_oct(int4)", raises=False)
def _octal(value: int) -> str:
    return f"{value % 2**32:o}"


@FUNCTIONS.elementwise("to_oct(int8)", raises=False)
def _octal_of_bigint(value: int) -> str:
    return f"{value % 2**64:o}"


@FUNCTIONS.elementwise("to_bin(int4)", raises=False)
def _binary(value: int) -> str:
    return f"{value % 2**32:b}"


@FUNCTIONS.elementwise("to_bin(int8)", raises=False)
def _binary_of_bigint(value: int) -> str:
    return f"{value % 2**64:b}"


@FUNCTIONS.elementwise("quote_literal(text)", raises=False)
def _quoted(value: str) -> str:
    doubled = value.replace("\\", "\\\\").replace("'", "''")
    return f"E'{doubled}'" if "\\" in value else f"'{doubled}'"


@FUNCTIONS.elementwise("quote_nullable(text)", strict=False, raises=False)
def _quoted_or_null(value: str | None) -> str:
    return "NULL" if value is None else _quoted(value)


@FUNCTIONS.elementwise("md5(text)", raises=False)
def _md5(value: str) -> str:
    return hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()
