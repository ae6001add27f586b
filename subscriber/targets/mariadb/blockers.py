"""The sessions for which a session of MariaDB waits, described for messages.

For a row lock, InnoDB reports the session that holds it. For a metadata lock, only the sessions
that may hold it are known. The texts are those of :mod:`subscriber.waiting`.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from subscriber.waiting import session as describe

_STATE: Final = sa.text("SELECT state FROM information_schema.processlist WHERE id = :session")
_ROWS: Final = sa.text(
    "SELECT DISTINCT b.trx_mysql_thread_id AS id, p.user, p.db, p.command, b.trx_started AS since"
    " FROM information_schema.innodb_lock_waits w"
    " JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id"
    " JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id"
    " LEFT JOIN information_schema.processlist p ON p.id = b.trx_mysql_thread_id"
    " WHERE r.trx_mysql_thread_id = :session ORDER BY 1"
)
_OTHERS: Final = sa.text(
    "SELECT p.id, p.user, p.db, p.command, t.trx_started AS since FROM information_schema.processlist p"
    " LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id"
    " WHERE p.id <> :session AND p.id <> CONNECTION_ID() AND (t.trx_id IS NOT NULL OR (p.db = DATABASE() AND p.command = 'Query'))"
    " UNION ALL SELECT 0, NULL, NULL, NULL, trx_started FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = 0 ORDER BY 1"
)
"""All sessions that may hold a metadata lock. The server reports the holder only with a plugin."""


def blockers(connection: sa.Connection, session: int) -> list[str]:
    """The sessions for which the session with this number waits, described for messages."""
    state: str | None = connection.execute(_STATE, {"session": session}).scalar_one_or_none()
    if state and state.startswith("Waiting for") and "lock" in state:
        others = connection.execute(_OTHERS, {"session": session}).all()
        return [f"a lock of the table's definition, perhaps held by {_described(row)}" for row in others]
    return [_described(row) for row in connection.execute(_ROWS, {"session": session})]


def _described(row: Any) -> str:
    if not row.id:
        return f"a prepared transaction (since {row.since}; XA RECOVER lists the prepared transactions)"
    state = "idle in transaction" if row.command == "Sleep" else row.command
    return describe(row.id, row.user, row.since, state, database=row.db)
