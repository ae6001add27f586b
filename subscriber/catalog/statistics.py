"""Errors and conflicts of subscriptions: counters, and the newest :data:`KEPT_ROWS` conflicts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import sqlalchemy as sa

from subscriber.base import clock
from subscriber.base.lsn import LSN, format_lsn, parse_lsn
from subscriber.catalog.own_tables import CONFLICT, SUBSCRIPTION_REL, SUBSCRIPTION_STATS, ConflictKind
from subscriber.catalog.progress import OriginProgress
from subscriber.catalog.rows import ROW_NUMBERS, RowNumbers, matching
from subscriber.catalog.subscriptions import find_subscription
from subscriber.postgres.schema.relation_names import QualifiedName
from subscriber.targets.statements import upsert

KEPT_ROWS: Final = 10_000
"""The number of rows of ``subscriber_conflict`` that are kept for each subscription."""

_PIECE: Final = 1_000
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


def record_error(
    connection: sa.Connection,
    name: str,
    report: str,
    *,
    worker: Literal["apply", "sync", "sync_seq"] = "apply",
    lsn: int | None = None,
) -> None:
    """Count an error, and store its report and the time for ``subscriber status``, in a transaction
    of its own: the one that failed is rolled back.

    Errors of a table's copy and catch-up are counted as ``sync``, those of sequences as
    ``sync_seq``, as in pg_stat_subscription_stats.
    ``lsn`` is the finish LSN of the transaction that failed. A subscription that was dropped
    meanwhile gets nothing.
    """
    stats = SUBSCRIPTION_STATS
    subscription = find_subscription(connection, name)
    if subscription is None:
        return
    connection.execute(
        sa.update(stats)
        .where(stats.c.subid == subscription.subid)
        .values(
            {
                f"{worker}_error_count": stats.c[f"{worker}_error_count"] + 1,
                "last_error": report,
                "last_error_at": clock.now(),
                "last_error_worker": worker,
                "last_error_lsn": None if lsn is None else format_lsn(LSN(lsn)),
                "last_error_resolved_at": None,
            }
        )
    )


def resolve_error(connection: sa.Connection, subid: int, *, applied: LSN, waiting: bool) -> bool:
    """Mark the last error as resolved, if it is; returns True if there is no unresolved error.

    An error of a transaction is resolved when the progress has passed it. Any other error of the
    apply worker is resolved when nothing is left to apply, that of a copy or a sequence when no
    table or sequence has an error.
    """
    stats, tables = SUBSCRIPTION_STATS, SUBSCRIPTION_REL
    row = connection.execute(sa.select(stats).where(stats.c.subid == subid)).one_or_none()
    if row is None or row.last_error is None or row.last_error_resolved_at is not None:
        return True
    if row.last_error_worker in ("sync", "sync_seq"):
        failing = sa.select(tables.c.srrelname).where(tables.c.srsubid == subid, tables.c.srerror.is_not(None))
        is_over = connection.execute(failing.limit(1)).first() is None
    elif row.last_error_lsn is not None:
        is_over = applied >= parse_lsn(row.last_error_lsn)
    else:
        is_over = not waiting
    if is_over:
        same = (stats.c.subid == subid) & (stats.c.last_error_at == row.last_error_at)
        connection.execute(sa.update(stats).where(same).values(last_error_resolved_at=clock.now()))
    return is_over


def count_conflicts(connection: sa.Connection, subid: int, name: str, counts: Mapping[ConflictKind, int]) -> None:
    """Add to the conflict counters of a subscription, in the transaction that they belong to."""
    columns = {f"confl_{kind}": number for kind, number in counts.items() if number}
    if not columns:
        return
    upsert(connection, SUBSCRIPTION_STATS, {"subid": subid}, {}, new={"subname": name}, add=columns)


def statistics_of(connection: sa.Connection, subid: int) -> dict[str, Any]:
    """The row of ``subscriber_stat_subscription_stats`` by column name; empty if there is none."""
    stats = SUBSCRIPTION_STATS
    row = connection.execute(sa.select(stats).where(stats.c.subid == subid)).mappings().one_or_none()
    return dict(row or {})


# Conflicts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConflictRecord:
    """A row of ``subscriber_conflict``: a conflict of one row or of one key.

    Attributes:
        relation: the target's table. A plain text is divided at its first dot.
        final_lsn: of the publisher's transaction; SKIP takes it.
        timestamp: the commit time, microseconds since 2000-01-01 UTC.
        index: the index that already contains the key; None where no key is violated.
        columns: those of the key, or by which the row was searched; None for the whole row.
        replica_identity_full: whether the row was searched by the whole row; None for INSERT.
        replica_identity: by what the row was searched, as column → value.
        remote_tuple: the publisher's row.
        local_conflicts: each existing row, with ``xid``, ``commit_ts``, ``origin``, ``key`` and
            ``tuple``. Objects with values are None where values are not to be shown.
        resolution: the resolver that has decided; None for PostgreSQL's default.
        remote_applied: whether the change was applied then, or a row in its place.
    """

    kind: ConflictKind
    relation: str
    final_lsn: LSN
    xid: int
    timestamp: int
    index: str | None = None
    columns: Sequence[str] | None = None
    replica_identity_full: bool | None = None
    replica_identity: Mapping[str, str | None] | None = None
    remote_tuple: Mapping[str, str | None] | None = None
    local_conflicts: Sequence[Mapping[str, Any]] = ()
    resolution: str | None = None
    remote_applied: bool | None = None


@dataclass(frozen=True, slots=True)
class StoredConflict:
    """A conflict as ``subscriber_conflict`` has it, without values; ``index`` is that of
    :class:`ConflictRecord`. A conflict that stops the apply counts its ``attempts``.
    """

    recorded_at: str
    kind: str
    relation: str
    final_lsn: LSN
    xid: int
    index: str | None
    attempts: int
    values: Mapping[str, Any]
    """The row and the keys, by the names of their columns; empty if they were not asked for."""


def newest_conflicts(connection: sa.Connection, subid: int, most: int, *, with_values: bool) -> list[StoredConflict]:
    table = CONFLICT.c
    plain = (table.recorded_at, table.conflict_type, table.relation, table.remote_commit_lsn, table.remote_xid)
    values = (table.replica_identity, table.remote_tuple, table.local_conflicts) if with_values else ()
    query = sa.select(*plain, table.index_name, table.attempts, *values).where(matching(CONFLICT, subid=subid))
    return [
        StoredConflict(
            row.recorded_at,
            row.conflict_type,
            row.relation,
            row.remote_commit_lsn,
            row.remote_xid,
            row.index_name,
            row.attempts,
            {column.name: row._mapping[column] for column in values if row._mapping[column]},
        )
        for row in connection.execute(query.order_by(table.conflictid.desc()).limit(most))
    ]


class ConflictLog:
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
        """Write a conflict that has stopped the transaction, or count one more attempt."""
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
        mine = matching(CONFLICT, subid=self._subid)
        newest = sa.select(CONFLICT.c.conflictid).where(mine).order_by(CONFLICT.c.conflictid.desc())
        oldest = self._connection.execute(newest.offset(KEPT_ROWS).limit(1)).scalar_one_or_none()
        if oldest is not None:
            self._connection.execute(sa.delete(CONFLICT).where(mine, CONFLICT.c.conflictid <= oldest))

    def _row(self, record: ConflictRecord) -> dict[str, Any]:
        relation = record.relation
        if isinstance(relation, QualifiedName):
            schema, name = relation.schema, relation.name
        else:
            schema, _, name = relation.partition(".")
        return {
            "conflictid": self._numbers.next(),
            "recorded_at": clock.now(),
            "subid": self._subid,
            "subname": self._name,
            "relation": str(relation),
            "schemaname": schema,
            "relname": name,
            "conflict_type": record.kind.value,
            "remote_commit_lsn": record.final_lsn,
            "remote_xid": record.xid,
            "remote_commit_ts": (_EPOCH + timedelta(microseconds=record.timestamp)).isoformat(timespec="microseconds"),
            "remote_origin": OriginProgress(self._subid).name,
            "index_name": record.index,
            "key_columns": record.columns,
            "attempts": 1,
            "replica_identity_full": record.replica_identity_full,
            "replica_identity": record.replica_identity,
            "remote_tuple": record.remote_tuple,
            "local_conflicts": list(record.local_conflicts),
            "resolution": record.resolution,
            "remote_applied": record.remote_applied,
        }
