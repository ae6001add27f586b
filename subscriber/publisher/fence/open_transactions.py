"""Who may still bring a change of the publisher's database: transactions in progress.

The criterion that the writes have stopped has two halves, and only both together are dependable::

    1. no transaction of the database has a transaction ID, or is prepared     (here)
    2. barrier ── no data transaction of the publications ──▶ barrier          (the positions of journal and target)

The first half misses a transaction that begins a moment later, the second one that is open over
both barriers, because a transaction is sent when it commits.

*Rejected:* the counters of pg_stat_database, which are late and count unpublished tables; the next
transaction ID, which transactions of other databases take, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, LiteralString

from subscriber.base.waiting import prepared, session
from subscriber.publisher.connection import Connection, connect_publisher, features_of

_WRITING: Final[LiteralString] = (
    "SELECT DISTINCT l.pid, a.usename::text, a.application_name, date_trunc('second', a.xact_start)::text, a.state"
    " FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.pid <> pg_backend_pid()"
    " AND a.datname = current_database() AND a.backend_type IS DISTINCT FROM 'autovacuum worker' ORDER BY 1"
)
"""Every role may see the locks, but not all columns of pg_stat_activity."""
_PREPARED: Final[LiteralString] = (
    "SELECT gid, owner::text, date_trunc('second', prepared)::text FROM pg_prepared_xacts"
    " WHERE database = current_database() ORDER BY prepared"
)


def open_writes(connection: Connection) -> list[str]:
    """The transactions that have written, or are about to, prepared ones included, for messages."""
    writing = [
        session(pid, user, since, state, name=application)
        for pid, user, application, since, state in connection.execute(_WRITING).fetchall()
    ]
    return writing + [prepared(*row) for row in connection.execute(_PREPARED).fetchall()]


_YOUNG: Final = "1 second"
"""Transactions that began more recently are left out: they usually end before anybody reads about
them.
"""

_OLDER_TRANSACTIONS: Final[LiteralString] = (
    "SELECT DISTINCT l.pid, a.usename::text, a.datname::text, a.application_name,"
    " date_trunc('second', a.xact_start)::text, a.state"
    " FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.pid <> %(process)s"
    " AND COALESCE(a.xact_start < clock_timestamp() - %(young)s::interval, true) ORDER BY 5 NULLS LAST, 1"
)
"""The sessions that have a transaction ID. Every role may see the locks, but not the rows of
pg_stat_activity for other roles' sessions.
"""
_ALL_PREPARED: Final[LiteralString] = (
    "SELECT gid, owner::text, date_trunc('second', prepared)::text, database::text FROM pg_prepared_xacts ORDER BY prepared"
)
_BLOCKING: Final[LiteralString] = (
    "SELECT DISTINCT b.pid, a.usename::text, a.datname::text, a.application_name,"
    " date_trunc('second', a.xact_start)::text, a.state"
    " FROM pg_stat_activity w, unnest(pg_blocking_pids(w.pid)) b(pid) LEFT JOIN pg_stat_activity a ON a.pid = b.pid"
    " WHERE w.datname = current_database() AND w.application_name = current_setting('application_name')"
    " ORDER BY 1"
)
"""The sessions that block a session with the same application_name as this one; process 0 is a
prepared transaction.
"""
_RECEIVER: Final[LiteralString] = (
    "SELECT a.pid, a.usename::text, a.datname::text, a.application_name, date_trunc('second', a.backend_start)::text, a.state"
    " FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %(slot)s"
)


_STANDBYS: Final[LiteralString] = (
    "SELECT btrim(named.slot, ' \"'), s.active, pg_wal_lsn_diff(pg_current_wal_flush_lsn(), s.restart_lsn)::int8"
    " FROM pg_stat_activity a, unnest(string_to_array(current_setting('synchronized_standby_slots'), ',')) named(slot)"
    " LEFT JOIN pg_replication_slots s ON s.slot_name = btrim(named.slot, ' \"')"
    " WHERE a.pid = %(process)s AND a.wait_event = 'WaitForStandbyConfirmation'"
    " AND (s.restart_lsn IS NULL OR s.restart_lsn < pg_current_wal_flush_lsn()) ORDER BY 1"
)
"""The slots that synchronized_standby_slots names and that are behind, while a walsender waits for
them.
"""


def transactions_in_progress(conninfo: str, name: str, process: int) -> list[str]:
    """The server's transactions for which the creation of a slot by ``process`` waits."""
    sessions, transactions = _ask(conninfo, name, _OLDER_TRANSACTIONS, _ALL_PREPARED, process=process, young=_YOUNG)
    return _sessions(sessions) + _prepared(transactions)


def blockers_of(conninfo: str, name: str) -> list[str]:
    """The sessions and prepared transactions that block the sessions of application ``name``."""
    sessions, transactions = _ask(conninfo, name, _BLOCKING, _ALL_PREPARED)
    blocking = [row for row in sessions if row[0]]
    return _sessions(blocking) + (_prepared(transactions) if len(blocking) < len(sessions) else [])


def receiver_of(server: Connection, slot: str) -> list[str]:
    """The walsender that streams from a slot; ``server`` is a connection that does not wait."""
    return _sessions(server.execute(_RECEIVER, {"slot": slot}).fetchall())


def standbys_of(server: Connection, process: int) -> list[str]:
    """The standbys that walsender ``process`` waits for (``synchronized_standby_slots``)."""
    if not features_of(server).failover_slots:
        return []
    rows = server.execute(_STANDBYS, {"process": process}).fetchall()
    return [_standby(name, active, behind) for name, active, behind in rows]


def _ask(conninfo: str, name: str, *queries: LiteralString, **parameters: object) -> list[list[tuple[Any, ...]]]:
    with connect_publisher(conninfo, name) as server:
        return [server.execute(query, parameters if "%(" in query else None).fetchall() for query in queries]


def _sessions(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    return [
        session(pid, user, since, state, database=database, name=application)
        for pid, user, database, application, since, state in rows
    ]


def _standby(name: str, active: bool | None, behind: int | None) -> str:
    state = "which does not exist" if active is None else "which is not active" if not active else "which lags behind"
    size = "" if behind is None else f", {behind:,} bytes behind"
    return f'the standby of replication slot "{name}", {state}{size} (synchronized_standby_slots)'


def _prepared(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    return [prepared(*row) for row in rows]
