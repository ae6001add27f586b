"""Progress and statistics, kept in the target (rules C32-C34; invariant progress_with_data).

The applied LSN lives beside the data it describes and moves in the same target transaction, by
compare-and-set, so that two runners started by mistake cannot both apply. PostgreSQL keeps the
same fact in ``pg_replication_origin_status``; names and texts are its own.

LSNs are stored as text in the one form that :func:`subscriber.lsn.format_lsn` writes: every target
has text, not every target has unsigned 64-bit integers. They are compared for equality only, and
only with text of the same writer; every ordering is of parsed integers (rule A19a).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles

from subscriber.errors import ProgressConflict
from subscriber.lsn import LSN, format_lsn, parse_lsn

STATE: Final = sa.MetaData()
"""The tables that apply needs in the target; the rest of the catalog is subscription's."""

TEXT: Final = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
"""A text of any length: MySQL's TEXT is too short for the names of a wide table's columns, or for the values of a row."""


class _Name(sa.String):
    """An identifier: short enough for a key anywhere; "S" is not "s", and "s " is not "s" (MySQL's default collations say they are)."""

    cache_ok = True


@compiles(_Name, "mysql", "mariadb")
def _name_in_mysql(_type: _Name, compiler: Any, **_: Any) -> str:
    # MySQL and MariaDB have the collation that compares code points, blanks at the end included, by different names.
    dialect = compiler.dialect
    is_mysql = bool(dialect.server_version_info) and not dialect.is_mariadb
    return f"VARCHAR({_type.length}) COLLATE {'utf8mb4_0900_bin' if is_mysql else 'utf8mb4_nopad_bin'}"


NAME: Final = _Name(63)
"""An identifier of PostgreSQL."""

ORIGIN_STATUS: Final = sa.Table(
    "subscriber_replication_origin_status",
    STATE,
    sa.Column("external_id", sa.String(128), primary_key=True),
    sa.Column("remote_lsn", sa.String(32), nullable=False),
    sa.Column("updated_at", sa.String(40), nullable=False),
)
"""One row an origin: ``external_id`` ("pg_<subid>"), the applied LSN, when it moved (UTC, ISO 8601)."""

PREPARED_TRANSACTION: Final = sa.Table(
    "subscriber_prepared_transaction",
    STATE,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("xid", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("gid", sa.String(200), nullable=False),
    sa.Column("prepare_end_lsn", sa.String(32), nullable=False),
    sa.Column("prepare_timestamp", sa.BigInteger, nullable=False),
    sa.Column("committed", sa.Boolean, nullable=False),
)
"""What is prepared in the target (:mod:`subscriber.apply.prepared`)."""

CONFLICT_KINDS: Final = (
    "insert_exists",
    "update_origin_differs",
    "update_exists",
    "update_missing",
    "delete_origin_differs",
    "delete_missing",
    "multiple_unique_conflicts",
)
"""PostgreSQL 18's conflict names, in the order of pg_stat_subscription_stats (section C.4)."""


def _counter(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


SUBSCRIPTION_STATS: Final = sa.Table(
    "subscriber_stat_subscription_stats",
    STATE,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("subname", sa.String(128), nullable=False),
    _counter("apply_error_count"),
    _counter("sync_error_count"),
    *(_counter(f"confl_{kind}") for kind in CONFLICT_KINDS),
    sa.Column("stats_reset", sa.String(40)),
    sa.Column("last_error", TEXT),
    sa.Column("last_error_at", sa.String(40)),
    sa.Column("last_error_worker", sa.String(8)),
    sa.Column("last_error_lsn", sa.String(32)),
    sa.Column("last_error_resolved_at", sa.String(40)),
)
"""The columns of pg_stat_subscription_stats 18, and the last error: its report (which holds no values), when it was met and by which worker
("apply" or "sync"), the finish LSN of the transaction that failed if it was one, and when it was over (NULL while it is not)."""


CONFLICT: Final = sa.Table(
    "subscriber_conflict",
    STATE,
    sa.Column("conflictid", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("recorded_at", sa.String(40), nullable=False),
    sa.Column("subid", sa.Integer, nullable=False),
    sa.Column("subname", sa.String(128), nullable=False),
    sa.Column("relation", sa.String(260), nullable=False),
    sa.Column("conflict_type", sa.String(32), nullable=False),
    sa.Column("remote_commit_lsn", sa.String(32), nullable=False),
    sa.Column("remote_xid", sa.BigInteger, nullable=False),
    sa.Column("remote_commit_ts", sa.String(40), nullable=False),
    sa.Column("index_name", sa.String(128)),
    sa.Column("key_columns", TEXT),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("key_values", TEXT),
    sa.Column("local_row", TEXT),
    sa.Column("remote_row", TEXT),
)
"""A row for each row that was missing or somebody else's, and for each key that stops a transaction (section C.4).

``conflictid`` grows with time. ``recorded_at`` (UTC, ISO 8601) and ``attempts`` move on when a stopped transaction fails in the same
way again. ``remote_commit_lsn`` is what SKIP takes. ``key_columns`` are those of the index, or what the row was looked for by, NULL
for the whole row (a JSON list, as are the three of values, which are NULL without ``log_conflict_values``; rows are in the target's
column order).
"""


class Progress(Protocol):
    """What has been applied, kept in the target and moved with the data (invariant progress_with_data).

    Attributes:
        name: of the replication origin, for messages.
    """

    name: str

    def read(self, connection: sa.Connection) -> LSN:
        """The applied LSN: everything that finished at or below it is in the target.

        Raises:
            ProgressConflict: it is not tracked here (any more).
        """

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        """Take the row lock on it and hold it until the transaction ends.

        Raises:
            ProgressConflict: it is not ``expected``: somebody else moved it.
        """

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """Move it in the transaction that holds the data (rule C32).

        Raises:
            ProgressConflict: it is not at ``from_lsn``.
        """


class OriginProgress:
    """The progress of a subscription's apply worker (rule C34)."""

    def __init__(self, subid: int) -> None:
        self.name = origin_name(subid)

    def read(self, connection: sa.Connection) -> LSN:
        """See :func:`read_progress`."""
        return read_progress(connection, self.name)

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        """See :func:`lock_progress`."""
        lock_progress(connection, self.name, expected)

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """See :func:`advance_progress`."""
        advance_progress(connection, self.name, from_lsn, to_lsn)


def origin_name(subid: int) -> str:
    """The replication origin of a subscription's apply worker (rule C34): ``pg_16394``."""
    return f"pg_{subid}"


def create_progress(connection: sa.Connection, origin: str, lsn: LSN) -> None:
    """Begin to track ``origin`` at ``lsn``: nothing at or below it will be applied."""
    connection.execute(sa.insert(ORIGIN_STATUS).values(external_id=origin, **_moved_to(lsn)))


def drop_progress(connection: sa.Connection, origin: str) -> None:
    """Forget ``origin``; forgetting an unknown one is no error."""
    connection.execute(sa.delete(ORIGIN_STATUS).where(ORIGIN_STATUS.c.external_id == origin))


def read_progress(connection: sa.Connection, origin: str) -> LSN:
    """The applied LSN: everything that finished at or below it is in the target.

    Raises:
        ProgressConflict: ``origin`` is not tracked here (any more).
    """
    query = sa.select(ORIGIN_STATUS.c.remote_lsn).where(ORIGIN_STATUS.c.external_id == origin)
    text = connection.execute(query).scalar_one_or_none()
    if text is None:
        raise ProgressConflict(
            f'replication origin "{origin}" does not exist',
            sqlstate="42704",
            hint="The subscription was dropped, or the target is not the one it was created in.",
        )
    return parse_lsn(text)


def lock_progress(connection: sa.Connection, origin: str, expected: LSN) -> None:
    """Take the row lock on ``origin`` and hold it until the transaction ends.

    Raises:
        ProgressConflict: the progress is not ``expected``: another runner moved it.
    """
    _compare_and_set(connection, origin, expected, {"remote_lsn": format_lsn(expected)})


def advance_progress(connection: sa.Connection, origin: str, from_lsn: LSN, to_lsn: LSN) -> None:
    """Move the applied LSN in the transaction that holds the data (rule C32).

    Raises:
        ProgressConflict: the progress is not ``from_lsn``, or ``to_lsn`` lies below it.
    """
    if to_lsn < from_lsn:
        raise ProgressConflict(
            f'progress of replication origin "{origin}" cannot move back'
            f" from {format_lsn(from_lsn)} to {format_lsn(to_lsn)}"
        )
    _compare_and_set(connection, origin, from_lsn, _moved_to(to_lsn))


def _compare_and_set(connection: sa.Connection, origin: str, expected: LSN, values: Mapping[str, str]) -> None:
    move = (
        sa.update(ORIGIN_STATUS)
        .where(ORIGIN_STATUS.c.external_id == origin, ORIGIN_STATUS.c.remote_lsn == format_lsn(expected))
        .values(**values)
    )
    if connection.execute(move).rowcount != 1:
        raise ProgressConflict(
            f'progress of replication origin "{origin}" is no longer at {format_lsn(expected)}',
            hint="Another `subscriber run` applies to this target. Stop one of them.",
        )


def _moved_to(lsn: LSN) -> dict[str, str]:
    return {"remote_lsn": format_lsn(lsn), "updated_at": datetime.now(UTC).isoformat(timespec="milliseconds")}


def count_conflicts(connection: sa.Connection, subid: int, name: str, counts: Mapping[str, int]) -> None:
    """Add to the conflict counters of a subscription, making its row where there is none.

    Args:
        connection: in the transaction that the counts belong to.
        subid: the subscription's number.
        name: its name, for a new row.
        counts: conflict kind (one of :data:`CONFLICT_KINDS`) to the number to add.
    """
    columns = {f"confl_{kind}": number for kind, number in counts.items() if number}
    if not columns:
        return
    stats = SUBSCRIPTION_STATS
    added = {column: stats.c[column] + number for column, number in columns.items()}
    result = connection.execute(sa.update(stats).where(stats.c.subid == subid).values(**added))
    if result.rowcount == 0:
        connection.execute(sa.insert(stats).values(subid=subid, subname=name, **columns))
