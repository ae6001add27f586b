"""Estimates the duration of the initial copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.filesize import decimal

from subscriber.migration.findings import Finding
from subscriber.publisher.table_facts import ReadingSpeed, TableFacts

_HOUR = 3600.0
_MINUTE = 60.0


def estimate_copy(tables: Sequence[TableFacts], sample: ReadingSpeed | None) -> Iterator[Finding]:
    """The size of the published tables, and the time in which one connection reads them.

    The target's speed is not measured, because a check writes nothing. So the copy may take longer;
    with several connections it may take less.

    Args:
        tables: the published tables.
        sample: how fast the largest table was read; None if nothing was read.
    """
    rows, size = sum(table.rows for table in tables), sum(table.heap_bytes for table in tables)
    yield _estimate(
        "size",
        f"{len(tables):,} {'table' if len(tables) == 1 else 'tables'} with about {rows:,} rows, {decimal(size)} on disk without indexes",
    )
    if sample is None or not sample.rows or not size:
        return
    largest = max(tables, key=lambda table: table.heap_bytes)
    # A table that was never analyzed has no number of rows. Its text is about as large as its rows
    # on disk.
    read = largest.heap_bytes * sample.rows / largest.rows if largest.rows else sample.text_bytes
    seconds = size * sample.seconds / read
    yield _estimate(
        "duration of the copy",
        f"about {_duration(seconds)} for one connection",
        reason=f"In {sample.seconds:.1f} s the publisher sent {sample.rows:,} {'row' if sample.rows == 1 else 'rows'} ({decimal(sample.text_bytes)}) of table"
        f' "{largest.qualified_name}". The target\'s speed is not part of it.',
    )


def _duration(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{max(1, round(seconds))} s"
    if seconds < _HOUR:
        return f"{round(seconds / _MINUTE)} min"
    return f"{seconds / _HOUR:.1f} h"


def _estimate(name: str, message: str, *, reason: str | None = None) -> Finding:
    return Finding(severity="INFO", area="estimate", object=name, message=message, reason=reason)
