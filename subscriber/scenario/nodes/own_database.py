r"""A disposable PostgreSQL target, in which a session's statements run directly.

::

    session ──▶ target ◀── apply
                  ├─ public, …    what the session creates: its triggers, partitions, types and locks affect replicated changes
                  └─ subscriber   the catalog's tables, which an unqualified name in the session does not find

Nothing is copied between two databases, so a session does not have to wait for replication. A
transaction that stays open holds its locks. A replicated change that needs such a lock waits for
it, as it does in PostgreSQL's worker.

*Rejected:* the catalog's tables in ``public``, as in other targets. ``\dt`` would list them between
the tables of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import make_conninfo

from subscriber.errors import SubscriberError
from subscriber.scenario.nodes.session_database import read_identity
from subscriber.targets import Target, open_target

SCHEMA: Final = "subscriber"
"""The schema of the catalog's tables."""


class OwnDatabase:
    """A :class:`SessionDatabase` that is the target itself.

    Args:
        url: URL of the target, without the search path of the catalog.
        on_change: called after each committed change.
    """

    is_target: ClassVar[bool] = True

    def __init__(self, url: sa.URL, on_change: Callable[[], None]) -> None:
        self._url = url
        self._on_change = on_change
        self._connection = psycopg.connect(self.conninfo, autocommit=True)
        self._snapshot = self._read_snapshot()

    @property
    def conninfo(self) -> str:
        """The connection string for sessions. It leaves ``search_path`` as the server has it."""
        given = self._url.translate_connect_args(username="user", database="dbname")
        return make_conninfo("", **given, **{name: str(value) for name, value in self._url.query.items()})

    def identity(self) -> tuple[int, int]:
        """See :meth:`SessionDatabase.identity`."""
        return read_identity(self._connection)

    def is_stale(self) -> bool:
        """Always false: a session sees the target's rows."""
        return False

    def refill(self) -> None:
        """Do nothing: a session sees the target's rows."""

    def write_back(self, *, reshaping: bool) -> SubscriberError | None:
        """Call ``on_change`` if the session or replication has changed the database.

        A change that could not be applied before may be applicable now.
        """
        del reshaping
        snapshot = self._read_snapshot()
        if snapshot != self._snapshot:
            self._snapshot = snapshot
            self._on_change()
        return None

    def close(self) -> None:
        """Close the connection. The database is dropped by the code that created it."""
        self._connection.close()

    def _read_snapshot(self) -> str:
        """The current snapshot of transactions. It differs after every transaction that has
        written.
        """
        ((snapshot,),) = self._connection.execute("SELECT txid_current_snapshot()::text").fetchall()
        return str(snapshot)


def open_apart(target: Target) -> Target:
    """Open the same target with its catalog in schema :data:`SCHEMA`, and close the given one."""
    with target.begin() as connection:
        connection.execute(sa.schema.CreateSchema(SCHEMA, if_not_exists=True))
    target.close()
    # The path has no other schema: PostgreSQL's worker has an empty search path, and triggers see
    # it too (C23).
    return open_target(target.url.update_query_dict({"options": f"-csearch_path={SCHEMA}"}))
