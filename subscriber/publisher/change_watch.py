"""Who may still bring a change of the publisher's database: transactions in progress.

The criterion that the writes have stopped has two halves, and only both together are dependable::

    1. no transaction of the database has a transaction ID, or is prepared     (here)
    2. barrier ── no data transaction of the publications ──▶ barrier          (the positions of journal and target)

The first half alone misses a transaction that begins a moment later. The second alone misses one
that is open over both barriers, because a transaction is sent when it commits.

*Rejected:* the counters of pg_stat_database and pg_stat_user_tables. A session reports them up to
ten seconds late, and they count tables that are not published. *Rejected:* the next transaction ID:
transactions of other databases take IDs, too.
"""

from __future__ import annotations

from typing import Final, LiteralString

from subscriber.publisher.sql_connection import Connection
from subscriber.waiting import prepared, session

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
    """The transactions in progress that have written, or are about to, described for messages;
    prepared ones included.

    Raises:
        psycopg.Error: a query failed.
    """
    writing = [
        session(pid, user, since, state, name=application)
        for pid, user, application, since, state in connection.execute(_WRITING).fetchall()
    ]
    return writing + [prepared(*row) for row in connection.execute(_PREPARED).fetchall()]
