"""Tables for the tests of checks."""

from __future__ import annotations

from typing import Any

from subscriber.publisher.table_checks import TableFacts


def table(name: str = "t", **properties: Any) -> TableFacts:
    """A table of 1,000 rows and 100 kB."""
    known = {"rows": 1000, "heap_bytes": 100_000, "total_bytes": 150_000, "out_of_line_bytes": 0, "is_hidden": False}
    return TableFacts(schema="public", name=name, **(known | properties))
