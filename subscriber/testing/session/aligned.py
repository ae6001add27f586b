r"""psql's aligned table format (``print_aligned_text`` and ``mbprint`` in psql's source code).

::

     a |    note         header centred
    ---+------------
     1 | two lines +     a newline in a value is marked with +, and the value continues in the next line
       | of text
     2 |                 NULL prints nothing
    (2 rows)

The result is equal to psql's without settings (border 1, header, footer), byte for byte. Blanks at
the end of a line are printed where psql prints them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

_NUMERIC_TYPES: Final = frozenset({20, 21, 23, 26, 28, 29, 700, 701, 790, 1700, 5069})
"""int8, int2, int4, oid, xid, cid, float4, float8, money, numeric, xid8: aligned to the right."""

_TAB: Final = 8


@dataclass(frozen=True, slots=True)
class PrintedColumn:
    """A column of a query's result. Its type decides the alignment."""

    name: str
    type_oid: int


def aligned_table(columns: Sequence[PrintedColumn], rows: Sequence[Sequence[str | None]]) -> str:
    """As psql prints it, without the blank line below. Columns may be missing; None is NULL."""
    headers = [displayed_lines(column.name) for column in columns]
    cells = [[displayed_lines(value or "") for value in row] for row in rows]
    widths = [max(map(_widest, column)) for column in zip(headers, *cells, strict=True)]
    right = [column.type_oid in _NUMERIC_TYPES for column in columns]
    lines = [*_header(headers, widths), "-" + "-+-".join("-" * width for width in widths) + "-"]
    if columns:
        lines += (line for row in cells for line in _row(row, widths, right))
    lines.append("(1 row)" if len(rows) == 1 else f"({len(rows)} rows)")
    return "".join(f"{line}\n" for line in lines)


def displayed_lines(value: str) -> list[str]:
    r"""The lines of a value, with control characters made visible as in psql.

    ``\r`` is shown as such, tabs become blanks, and other control characters are shown in
    hexadecimal.

    >>> displayed_lines("a\tb\n\x01")
    ['a       b', '\\x01']
    """
    return [_displayed(line) for line in value.split("\n")]


def display_width(text: str) -> int:
    """The terminal columns that psql counts: 0 for a combining character, 2 for a wide one."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    # psql's width tables are computed from the same two properties. rich.cells cannot be used: its
    # widths differ for a thousand characters, for instance the vowels of Devanagari.
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf"):
        return 0
    return 2 if category != "Cn" and unicodedata.east_asian_width(character) in "WF" else 1


def _displayed(line: str) -> str:
    if line.isprintable():
        return line
    shown: list[str] = []
    width = 0
    for character in line:
        text = _displayed_character(character, width)
        shown.append(text)
        width += display_width(text)
    return "".join(shown)


def _displayed_character(character: str, width: int) -> str:
    code = ord(character)
    if character == "\t":
        return " " * (_TAB - width % _TAB)
    if character == "\r":
        return "\\r"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02X}"
    if 0x80 <= code < 0xA0:
        return f"\\u{code:04X}"
    return character


def _widest(lines: Sequence[str]) -> int:
    return max(map(display_width, lines))


def _header(headers: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for number, names in enumerate(zip_longest(*headers)):
        parts = []
        for name, lines, width in zip(names, headers, widths, strict=True):
            spare = width - display_width(name or "")
            centred = " " * (spare // 2) + (name or "") + " " * ((spare + 1) // 2)
            parts.append(" " + centred + ("+" if number + 1 < len(lines) else " "))
        yield "|".join(parts)


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    last = len(cells) - 1
    for number, values in enumerate(zip_longest(*cells)):
        parts = []
        for index, (value, lines, width) in enumerate(zip(values, cells, widths, strict=True)):
            goes_on = number + 1 < len(lines)
            text = value or ""
            blanks = " " * (width - display_width(text))
            if right[index] and value is not None:
                text = blanks + text
            elif index < last or goes_on:
                text += blanks  # a left-aligned value is padded only if something follows
            parts.append(" " + text + ("+" if goes_on else " " if index < last else ""))
        yield "|".join(parts)
