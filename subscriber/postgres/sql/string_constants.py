r"""The meaning of escapes in string constants: ``E'\n\x41\u00e9'``, ``U&'\0041\+01F600'``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Fault:
    """Why PostgreSQL's scanner refuses a lexeme, without text that may be secret."""

    message: str
    position: int
    sqlstate: str = "42601"


class _WrongEscapeError(Exception):
    def __init__(self, message: str, position: int, sqlstate: str = "42601") -> None:
        super().__init__(message)
        self.fault = Fault(message, position, sqlstate)


_LETTERS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE: Final = re.compile(
    r"''|\\(?:u(?P<four>[0-9A-Fa-f]{4})|U(?P<eight>[0-9A-Fa-f]{8})|(?P<wrong>[uU])"
    r"|x(?P<hex>[0-9A-Fa-f]{1,2})|(?P<octal>[0-7]{1,3})|(?P<letter>.))",
    re.DOTALL,
)
_PAIR: Final = "invalid Unicode surrogate pair"


def with_escapes(sql: str, pieces: Iterable[tuple[int, int]]) -> str | Fault:
    """The meaning of ``E'…'``. Each continued piece has its begin and end, within quotes, in
    ``sql``.
    """
    out = bytearray()
    start = -1
    try:
        for first, last in pieces:
            start = first if start < 0 else start
            _append_piece(out, sql, first, last)
    except _WrongEscapeError as error:
        return error.fault
    try:
        text = out.decode()
    except UnicodeDecodeError as error:
        bad = " ".join(f"0x{byte:02x}" for byte in out[error.start : error.end])
        return Fault(f'invalid byte sequence for encoding "UTF8": {bad}', start, "22021")
    if "\0" in text:
        return Fault('invalid byte sequence for encoding "UTF8": 0x00', start, "22021")
    return text


def _append_piece(out: bytearray, sql: str, first: int, last: int) -> None:
    done = first
    high: re.Match[str] | None = None
    for found in _ESCAPE.finditer(sql, first, last):
        if high is not None and found.start() != high.end():
            raise _WrongEscapeError(f'{_PAIR} at or near "{sql[high.end()]}"', high.end())
        out += sql[done : found.start()].encode()
        done = found.end()
        high = _append_escape(out, found, high)
    if high is not None:
        near = sql[high.end()]
        raise _WrongEscapeError(f'{_PAIR} at or near "{near}"', high.end())
    out += sql[done:last].encode()


def _append_escape(out: bytearray, found: re.Match[str], high: re.Match[str] | None) -> re.Match[str] | None:
    """Append the meaning; returns the escape if it is the first half of a surrogate pair."""
    digits = found["four"] or found["eight"]
    if found["wrong"]:
        raise _WrongEscapeError("invalid Unicode escape", found.start(), "22025")
    if digits is None:
        if high is not None:
            raise _WrongEscapeError(f'{_PAIR} at or near "{found[0][0]}"', found.start())
        out += _simple_escape(found)
        return None
    code = int(digits, 16)
    is_second = 0xDC00 <= code <= 0xDFFF
    if is_second != (high is not None):
        raise _WrongEscapeError(f'{_PAIR} at or near "{found[0]}"', found.start())
    if 0xD800 <= code <= 0xDBFF:
        return found
    if high is not None:
        code = 0x10000 + ((int(high["four"] or high["eight"], 16) & 0x3FF) << 10) + (code & 0x3FF)
    if not 0 < code <= 0x10FFFF:
        raise _WrongEscapeError(f'invalid Unicode escape value at or near "{found[0]}"', found.start())
    out += chr(code).encode()
    return None


def _simple_escape(found: re.Match[str]) -> bytes:
    if found[0] == "''":
        return b"'"
    if found["letter"]:
        return _LETTERS.get(found["letter"], found["letter"]).encode()
    code = int(found["hex"], 16) if found["hex"] else int(found["octal"], 8)
    return bytes([code & 0xFF])


# U& -----------------------------------------------------------------------------------------------


def is_escape_character(text: str) -> bool:
    """``check_uescapechar``: one byte, but no hexadecimal digit, sign, quote or white space."""
    return len(text.encode()) == 1 and text not in "+'\" \t\n\r\f\v0123456789abcdefABCDEF"


def with_unicode_escapes(written: str, start: int, escape: str = "\\") -> str | Fault:
    r"""``str_udeescape``: the meaning of ``U&'…'``: ``\XXXX``, ``\+XXXXXX``, ``\\``.

    ``written`` is the text between the quotes, with doubled quotes replaced; ``start`` is where the
    constant begins in the whole text, including its ``U``.
    """
    mark = re.escape(escape)
    pattern = re.compile(rf"{mark}(?:(?P<same>{mark})|([0-9A-Fa-f]{{4}})|\+([0-9A-Fa-f]{{6}}))?")
    units: list[str] = []
    done = 0
    high: int | None = None
    for found in pattern.finditer(written):
        place = start + found.start() + 3
        if high is not None and found.start() != done:
            return Fault(_PAIR, start + done + 3)
        units.append(written[done : found.start()])
        done = found.end()
        digits = found[2] or found[3]
        if digits is None:
            if found["same"] is None:
                return Fault("invalid Unicode escape", place)
            if high is not None:
                return Fault(_PAIR, place)
            units.append(escape)
            continue
        code = int(digits, 16)
        if not 0 < code <= 0x10FFFF:
            return Fault("invalid Unicode escape value", place)
        if (0xDC00 <= code <= 0xDFFF) != (high is not None):
            return Fault(_PAIR, place)
        if 0xD800 <= code <= 0xDBFF:
            high = code
            continue
        units.append(chr(code if high is None else 0x10000 + ((high & 0x3FF) << 10) + (code & 0x3FF)))
        high = None
    if high is not None:
        return Fault(_PAIR, start + done + 3)
    return "".join([*units, written[done:]])
