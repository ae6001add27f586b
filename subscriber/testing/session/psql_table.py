"""Tables as psql prints them, neither wrapped nor truncated, so that a script can read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from subscriber.targets.query_result import QueryResult
from subscriber.testing.session.aligned import PrintedColumn, aligned_table, display_width

_TEXT: Final = 25


def format_rows(
    names: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    title: str | None = None,
    footers: Sequence[str] = (),
) -> str:
    """A table of texts, without the last newline; ``footers`` replace the number of rows."""
    table = aligned_table([PrintedColumn(name, _TEXT) for name in names], rows)
    if footers:
        counted = table.rstrip("\n").rfind("\n") + 1
        table = table[:counted] + "\n".join(footers)
    return _titled(title, table)


def format_result(result: QueryResult) -> str:
    columns = [PrintedColumn(name, oid) for name, oid in zip(result.names, result.type_oids, strict=True)]
    return _titled(None, aligned_table(columns, result.rows))


def with_values(printed: str, heading: str, values: Mapping[str, str]) -> str:
    """A table that psql has printed, with other values in one of its columns, but not the last."""
    lines = printed.split("\n")
    rule = next(number for number, line in enumerate(lines) if line and set(line) <= {"-", "+"})
    ends = [position for position, character in enumerate(lines[rule]) if character == "+"]
    rows = range(rule - 1, next(number for number, line in enumerate(lines) if _COUNTED.fullmatch(line)))
    begin, end = next(
        (begin, end) for begin, end in pairwise([-1, *ends]) if lines[rule - 1][begin + 1 : end].strip() == heading
    )
    shown = {
        number: values.get(text := lines[number][begin + 1 : end].strip(), text) for number in rows if number != rule
    }
    width = max(map(display_width, shown.values()))
    for number, text in shown.items():
        spare = width - display_width(text)
        left = spare // 2 if number == rule - 1 else 0
        cell = f" {' ' * left}{text}{' ' * (spare - left)} "
        lines[number] = lines[number][: begin + 1] + cell + lines[number][end:]
    lines[rule] = lines[rule][: begin + 1] + "-" * (width + 2) + lines[rule][end:]
    if rule > 1:
        title = lines[rule - 2].strip()
        lines[rule - 2] = f"{' ' * ((len(lines[rule]) - display_width(title)) // 2)}{title}"
    return "\n".join(lines)


_COUNTED: Final = re.compile(r"\(\d+ rows?\)")


def _titled(title: str | None, table: str) -> str:
    text = table.removesuffix("\n")
    if title is None:
        return text
    width = next(len(line) for line in text.splitlines() if set(line) <= {"-", "+"})
    return f"{' ' * ((width - display_width(title)) // 2)}{title}\n{text}"
