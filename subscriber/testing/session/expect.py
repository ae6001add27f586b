r"""Compares what a statement printed with what the scenario file expects.

The printed text is compared, so column widths, command tags and errors are part of the comparison.
The following is ignored in both texts::

    blank lines, blanks at the end of a line, comments
    NOTICE, WARNING, INFO, LOG, DEBUG             a server may print such messages or not
    DETAIL, HINT, CONTEXT, QUERY, LOCATION        the fields of an error after the message
    LINE 1: SELEC 1;  and the caret below

An ignored message may continue in further lines, which have no mark. It ends at the next message,
command tag or table, since psql prints nothing else, except for the data of COPY TO STDOUT. In a
text with such data, only marked lines are ignored.

Rows of a table, and lines of COPY TO STDOUT, are compared in order if the statement has ORDER BY,
and else as a bag. The output of a backslash command is compared in order.

::

    lines ── tables found by their separator and footer ──▶ messages left out ──▶ bags of rows sorted ──▶ equal?
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from subscriber.testing.session.aligned import display_width
from subscriber.testing.session.psql_input import PsqlQuery, cut, is_backslash_command
from subscriber.testing.session.session_file import without_comments

_SEPARATOR: Final = re.compile(r"-+(\+-+)*")
_FOOTER: Final = re.compile(r"\(\d+ rows?\)")
_TAG: Final = re.compile(r"[A-Z]+( [A-Z]+)*( \d+)*")
_LABEL: Final = re.compile(r"([A-Z]+):  ")
_LINE: Final = re.compile(r"LINE \d+: ")
_CARET: Final = re.compile(r"\s*\^")
_NOT_COMPARED: Final = frozenset(
    {"NOTICE", "WARNING", "INFO", "LOG", "DEBUG", "DETAIL", "HINT", "CONTEXT", "QUERY", "LOCATION"}
)
_ERRORS: Final = frozenset({"ERROR", "FATAL", "PANIC"})
_COMMANDS_WITH_ROWS: Final = ("INSERT ", "UPDATE ", "DELETE ", "MERGE ")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The lines of two outputs that differ, as they are compared."""

    expected: tuple[str, ...]
    printed: tuple[str, ...]

    def __str__(self) -> str:
        """``-`` marks a line that is only expected, ``+`` a line that is only printed."""
        lines: list[str] = []
        matcher = SequenceMatcher(None, self.expected, self.printed, autojunk=False)
        for what, start, stop, other_start, other_stop in matcher.get_opcodes():
            if what == "equal":
                lines += (f"  {line}" for line in self.expected[start:stop])
            else:
                lines += (f"- {line}" for line in self.expected[start:stop])
                lines += (f"+ {line}" for line in self.printed[other_start:other_stop])
        return "\n".join(lines)


def compare_output(statement_text: str, expected: Sequence[str], printed: str) -> Mismatch | None:
    here = compared_lines(statement_text, expected)
    there = compared_lines(statement_text, printed.split("\n"))
    return None if here == there else Mismatch(tuple(here), tuple(there))


def compared_lines(statement_text: str, lines: Sequence[str]) -> list[str]:
    """The lines that are compared, without blanks at their ends, in the order of comparison."""
    lines = [line.rstrip(" ") for line in lines]
    if is_backslash_command(statement_text):
        return without_comments(lines)
    queries = cut(statement_text)
    blocks = _blocks(lines)
    if any(query.copies_out for query in queries):
        kept = list(_without_messages(blocks, marked_only=True))
        unordered = len(queries) == 1 and not queries[0].ordered[0]
        return sorted(_flat(kept)) if unordered else _flat(kept)
    return _flat(_sorted_bags(list(_without_messages(blocks, marked_only=False)), queries))


# Tables ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Table:
    """The lines of a table: its header with the separator, its rows, and its footer."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    footer: str

    def sorted(self) -> _Table:
        return _Table(self.header, tuple(sorted(self.rows)), self.footer)

    def lines(self) -> list[str]:
        return [line for row in (self.header, *self.rows, (self.footer,)) for line in row if line]


_Block = _Table | str


def _blocks(lines: Sequence[str]) -> list[_Block]:
    blocks: list[_Block] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        footer = _footer_after(lines, position) if _SEPARATOR.fullmatch(line) else None
        if footer is None:
            blocks.append(line)
            position += 1
            continue
        marks = _mark_positions(line)
        header = _take_header(blocks, marks) if line != "--" else []
        rows = _rows(lines[position + 1 : footer], marks)
        blocks.append(_Table((*header, line), tuple(rows), lines[footer]))
        position = footer + 1
    return blocks


def _footer_after(lines: Sequence[str], separator: int) -> int | None:
    """The line number of the footer below this separator. None if it is not a table."""
    for position in range(separator + 1, len(lines)):
        if _FOOTER.fullmatch(lines[position]):
            return position
        if lines[position] and not lines[position].startswith(" "):
            return None
    return None


def _mark_positions(separator: str) -> frozenset[int]:
    """The columns of the terminal in which psql prints + if a value continues in the next line."""
    positions = []
    start = 0
    for dashes in separator.split("+"):
        positions.append(start + len(dashes) - 1)
        start += len(dashes) + 1
    return frozenset(positions)


def _goes_on(line: str, marks: frozenset[int]) -> bool:
    if line.isascii():
        return any(line[position : position + 1] == "+" for position in marks)
    column = 0
    for character in line:
        if character == "+" and column in marks:
            return True
        column += display_width(character)
    return False


def _take_header(blocks: list[_Block], marks: frozenset[int]) -> list[str]:
    """Remove the lines of a table's header, of which a name may have several, and return them."""
    header: list[str] = []
    while blocks and isinstance(line := blocks[-1], str) and (not header or _goes_on(line, marks)):
        header.insert(0, line)
        blocks.pop()
    return header


def _rows(lines: Sequence[str], marks: frozenset[int]) -> Iterator[tuple[str, ...]]:
    row: list[str] = []
    for line in lines:
        row.append(line)
        if not _goes_on(line, marks):
            yield tuple(row)
            row = []
    if row:
        yield tuple(row)


def _flat(blocks: Sequence[_Block]) -> list[str]:
    return [line for block in blocks for line in ([block] if isinstance(block, str) else block.lines())]


# Messages -----------------------------------------------------------------------------------------


def _without_messages(blocks: Sequence[_Block], *, marked_only: bool) -> Iterator[_Block]:
    leaving_out = False
    caret = False
    for block in blocks:
        if isinstance(block, _Table):
            leaving_out = caret = False
            yield block
            continue
        was_line, caret = caret, bool(_LINE.match(block))
        label = _LABEL.match(block)
        if caret or (was_line and _CARET.fullmatch(block)) or not block:
            continue
        if label or _TAG.fullmatch(block):
            leaving_out = label is not None and label[1] in _NOT_COMPARED
            if leaving_out:
                continue
        elif leaving_out and not marked_only:
            continue
        if without_comments([block]):
            yield block


# Order --------------------------------------------------------------------------------------------


def _sorted_bags(blocks: list[_Block], queries: Sequence[PsqlQuery]) -> list[_Block]:
    """The blocks, with the rows of a table sorted if its statement does not define their order."""
    promises = [ordered for query in queries for ordered in query.ordered]
    if all(promises):
        return blocks
    owners = _owners(blocks)
    if any(promises) and len(set(owners)) != len(promises):
        return blocks  # it is not clear which statement printed which table
    return [
        block.sorted() if isinstance(block, _Table) and not (any(promises) and promises[owner]) else block
        for block, owner in zip(blocks, owners, strict=True)
    ]


def _owners(blocks: Sequence[_Block]) -> list[int]:
    """The number of the statement that printed each block: table, command tag, both, or error."""
    owners = []
    owner = -1
    above: _Block | None = None
    for block in blocks:
        label = _LABEL.match(block) if isinstance(block, str) else None
        if isinstance(block, _Table) or (label and label[1] in _ERRORS) or _is_tag(block, above):
            owner += 1
        owners.append(max(owner, 0))
        above = block
    return owners


def _is_tag(line: str, above: _Block | None) -> bool:
    """Whether the line is a command tag, and the statement printed nothing else."""
    below_rows = isinstance(above, _Table) and line.startswith(_COMMANDS_WITH_ROWS)
    return _TAG.fullmatch(line) is not None and not below_rows
