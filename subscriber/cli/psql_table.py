"""Tables as psql prints them. Lines are neither wrapped nor truncated, so a script can read them
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from subscriber.scenario.session.aligned import Column, aligned_table, display_width
from subscriber.targets.query_result import QueryResult

_TEXT: Final = 25


def format_rows(
    names: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    title: str | None = None,
    footers: Sequence[str] = (),
) -> str:
    """A table of texts, without the last newline.

    Args:
        names: the names of the columns.
        rows: the values.
        title: a title that is centred above the table.
        footers: lines that replace the number of rows below the table.
    """
    table = aligned_table([Column(name, _TEXT) for name in names], rows)
    if footers:
        counted = table.rstrip("\n").rfind("\n") + 1
        table = table[:counted] + "\n".join(footers)
    return _titled(title, table)


def format_result(result: QueryResult) -> str:
    """The result of a query as a table, without the last newline."""
    columns = [Column(name, oid) for name, oid in zip(result.names, result.type_oids, strict=True)]
    return _titled(None, aligned_table(columns, result.rows))


def _titled(title: str | None, table: str) -> str:
    text = table.removesuffix("\n")
    if title is None:
        return text
    width = next(len(line) for line in text.splitlines() if set(line) <= {"-", "+"})
    return f"{' ' * ((width - display_width(title)) // 2)}{title}\n{text}"
