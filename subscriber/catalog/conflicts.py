"""The conflicts of a subscription: ``subscriber_conflict``.

The size of the table is limited: the newest :data:`KEPT_ROWS` rows of each subscription are kept.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.catalog.own_tables import CONFLICT
from subscriber.catalog.row_numbers import ROW_NUMBERS, RowNumbers
from subscriber.lsn import LSN, format_lsn

KEPT_ROWS: Final = 10_000
"""The number of rows of ``subscriber_conflict`` that are kept for each subscription; the newest
rows are kept.
"""

_PIECE: Final = 1_000
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ConflictRecord:
    """A row of ``subscriber_conflict``: a conflict of one row or of one key.

    Attributes:
        kind: the kind of the conflict.
        relation: the target's table.
        final_lsn: the final LSN of the publisher's transaction; SKIP takes it.
        xid: the number of that transaction.
        timestamp: the commit time of that transaction (microseconds since 2000-01-01 UTC).
        index: the index that already contains the key; None where no key is violated.
        columns: the key's columns, or the columns by which the row was searched; None for the whole
            row.
        values: the values of ``columns``; None where values are not to be shown, as in
            ``local_row`` and ``remote_row``.
        local_row: the row in the target.
        remote_row: the publisher's row.
    """

    kind: ConflictKind
    relation: str
    final_lsn: LSN
    xid: int
    timestamp: int
    index: str | None = None
    columns: Sequence[str] | None = None
    values: Sequence[str | None] | None = None
    local_row: Sequence[str | None] | None = None
    remote_row: Sequence[str | None] | None = None


class ConflictLog:
    """Writes ``subscriber_conflict`` for one subscription.

    Args:
        connection: a connection in the transaction that the rows belong to.
        subid: the subscription's number.
        name: the subscription's name.
        numbers: gives new rows their numbers.
    """

    def __init__(self, connection: sa.Connection, subid: int, name: str, numbers: RowNumbers = ROW_NUMBERS) -> None:
        self._connection = connection
        self._subid = subid
        self._name = name
        self._numbers = numbers

    def write(self, records: Iterable[ConflictRecord]) -> None:
        """Write conflicts; if there are more than the table keeps, only the last ones."""
        rows = deque(map(self._row, records), maxlen=KEPT_ROWS)
        while rows:
            piece = [rows.popleft() for _ in range(min(len(rows), _PIECE))]
            self._connection.execute(sa.insert(CONFLICT), piece)
            if not rows:
                self._trim()

    def write_stop(self, records: Iterable[ConflictRecord]) -> None:
        """Write a conflict that has stopped the transaction, with a record for each key. If the
        same conflict is already stored, count one more attempt.
        """
        table = CONFLICT.c
        for record in records:
            row = self._row(record)
            same = [
                table[name].is_not_distinct_from(row[name])
                for name in ("subid", "relation", "conflict_type", "remote_commit_lsn", "index_name")
            ]
            again = sa.update(CONFLICT).where(*same)
            moved_on = {"attempts": table.attempts + 1, "recorded_at": row["recorded_at"]}
            if self._connection.execute(again.values(moved_on)).rowcount == 0:
                self._connection.execute(sa.insert(CONFLICT).values(row))
                self._trim()

    def _trim(self) -> None:
        """Delete the oldest rows, so that only the newest are kept."""
        mine = CONFLICT.c.subid == self._subid
        newest = sa.select(CONFLICT.c.conflictid).where(mine).order_by(CONFLICT.c.conflictid.desc())
        oldest = self._connection.execute(newest.offset(KEPT_ROWS).limit(1)).scalar_one_or_none()
        if oldest is not None:
            self._connection.execute(sa.delete(CONFLICT).where(mine, CONFLICT.c.conflictid <= oldest))

    def _row(self, record: ConflictRecord) -> dict[str, Any]:
        committed = _EPOCH + timedelta(microseconds=record.timestamp)
        return {
            "conflictid": self._numbers.next(),
            "recorded_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "subid": self._subid,
            "subname": self._name,
            "relation": record.relation,
            "conflict_type": record.kind.value,
            "remote_commit_lsn": format_lsn(record.final_lsn),
            "remote_xid": record.xid,
            "remote_commit_ts": committed.isoformat(timespec="microseconds"),
            "index_name": record.index,
            "key_columns": _json(record.columns),
            "attempts": 1,
            "key_values": _json(record.values),
            "local_row": _json(record.local_row),
            "remote_row": _json(record.remote_row),
        }


def forget_conflicts(connection: sa.Connection, subid: int) -> None:
    """Delete the rows of a subscription, because its number may be used again."""
    connection.execute(sa.delete(CONFLICT).where(CONFLICT.c.subid == subid))


def _json(values: Sequence[str | None] | None) -> str | None:
    return None if values is None else json.dumps(list(values), ensure_ascii=False)
