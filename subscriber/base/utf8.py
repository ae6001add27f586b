"""Text that comes from outside: files, standard input, the command line. All of it is UTF-8.

Python gives bytes of the command line and the environment that are not UTF-8 as halves of surrogate
pairs, which no database and no file accepts. They are refused where they come in, with PostgreSQL's
message and the place of the first such byte.
"""

from __future__ import annotations

from typing import Final

from subscriber.base.errors import SubscriberError, UsageError

_LENGTHS: Final = ((0xE0, 0xC0, 2), (0xF0, 0xE0, 3), (0xF8, 0xF0, 4))
"""Bits of a first byte, what they are, and the length of the sequence (pg_utf_mblen)."""


def decode_utf8(content: bytes, source: str, kind: type[SubscriberError] = UsageError) -> str:
    """A file's text with Unix line ends; ``kind`` (22021) with file and line if it is not UTF-8."""
    try:
        return content.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        before = content[: error.start].splitlines(keepends=True) or [b""]
        started = before[-1].endswith((b"\n", b"\r"))
        line, column = (len(before) + 1, 1) if started else (len(before), len(before[-1]) + 1)
        raise kind(
            _message(content, error.start),
            sqlstate="22021",
            detail=f"It is byte {column} of line {line}, and byte {error.start + 1} of the file.",
            context=f"{source}:{line}",
            hint="Save the file in UTF-8.",
        ) from None


def invalid_utf8(text: str) -> str | None:
    r"""What is wrong with a text from outside; None if it is valid.

    >>> invalid_utf8("caf\udce9")
    'invalid byte sequence for encoding "UTF8": 0xe9 (byte 4)'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        content = text.encode(errors="surrogateescape" if _is_escaped(text) else "surrogatepass")
        try:
            content.decode()
        except UnicodeDecodeError as error:
            return f"{_message(content, error.start)} (byte {error.start + 1})"
    return None


def _is_escaped(text: str) -> bool:
    return all("\udc80" <= letter <= "\udcff" for letter in text if "\ud800" <= letter <= "\udfff")


def _message(content: bytes, start: int) -> str:
    first = content[start]
    length = next((length for bits, value, length in _LENGTHS if first & bits == value), 1)
    shown = " ".join(f"0x{byte:02x}" for byte in content[start : start + length])
    return f'invalid byte sequence for encoding "UTF8": {shown}'
