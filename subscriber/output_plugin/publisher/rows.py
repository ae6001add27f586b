"""The rows of the publisher in memory, with the visibility of READ COMMITTED.

A row version has the transaction that made it (xmin) and the one that ended it (xmax), as in a
heap. A session sees what has committed, and what it has done itself. Where PostgreSQL would wait
for another session, there is an error, because a test that waits for itself never ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from subscriber.errors import UsageError
from subscriber.output_plugin.heap_tuples import ColumnDatum

Status = Literal["in progress", "committed", "aborted"]


@dataclass(slots=True, eq=False)
class RowVersion:
    """A version of a row.

    Attributes:
        values: the values, by the number of the column.
        given: the same, as the user gave them.
        xmin: the transaction that made it.
        xmax: the transaction that updated or deleted it; 0 for none.
    """

    values: dict[int, ColumnDatum] = field(repr=False)
    given: dict[int, Any] = field(repr=False)
    xmin: int
    xmax: int = 0


class Rows:
    """The rows of all tables, and what became of transactions (``pg_xact``)."""

    def __init__(self) -> None:
        self._tables: dict[int, list[RowVersion]] = {}
        self._status: dict[int, Status] = {}

    def set_status(self, xid: int, status: Status) -> None:
        """A transaction or subtransaction has begun, or has ended."""
        self._status[xid] = status

    def did_abort(self, xid: int) -> bool:
        """Whether a transaction or subtransaction was rolled back (``TransactionIdDidAbort``)."""
        return self._status.get(xid) == "aborted"

    def add(self, oid: int, row: RowVersion) -> None:
        """Add a row version to a table."""
        self._tables.setdefault(oid, []).append(row)

    def visible(self, oid: int, own: frozenset[int]) -> Iterator[RowVersion]:
        """The row versions of a table that a session sees.

        Args:
            oid: the table.
            own: the session's transaction and its subtransactions that were not rolled back.
        """
        for row in list(self._tables.get(oid, ())):
            if self._sees(row.xmin, own) and not (row.xmax and self._sees(row.xmax, own)):
                yield row

    def end(self, row: RowVersion, xid: int) -> None:
        """Update or delete a row version.

        Raises:
            UsageError: 55P03, another session in progress has changed the row.
        """
        if row.xmax and self._status.get(row.xmax) == "in progress":
            raise UsageError(
                f"the row is locked by transaction {row.xmax}",
                sqlstate="55P03",
                hint="PostgreSQL would wait here. End that transaction first.",
            )
        row.xmax = xid

    def _sees(self, xid: int, own: frozenset[int]) -> bool:
        return xid in own or self._status.get(xid) == "committed"


def matches(row: RowVersion, wanted: Mapping[int, ColumnDatum]) -> bool:
    """Whether a row has these values; NULL is equal to NULL here."""
    return all(_text(row.values.get(number)) == _text(value) for number, value in wanted.items())


def _text(value: ColumnDatum | None) -> bytes | None:
    return getattr(value, "text", None)
