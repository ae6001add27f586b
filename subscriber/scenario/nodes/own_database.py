r"""A target in which a session's statements run themselves, because it is PostgreSQL and nobody
else's.

::

    session ──▶ target ◀── apply
                  ├─ public, …    what the session makes: its triggers, partitions, types and locks meet what is replicated
                  └─ subscriber   the catalog's tables, where an unqualified name of the session's does not find them

Nothing is copied to and fro, so nothing has to wait: a transaction that stays open holds its locks,
and a replicated change that needs one of them waits as PostgreSQL's worker does.

*Rejected:* the catalog's tables in ``public`` as elsewhere. They would stand in ``\dt`` between the
session's own.
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
"""Of the catalog's tables."""


class OwnDatabase:
    """See the module.

    Args:
        url: of the target, without the path to the catalog.
        on_change: called after each change that is committed.
    """

    is_target: ClassVar[bool] = True

    def __init__(self, url: sa.URL, on_change: Callable[[], None]) -> None:
        self._url = url
        self._on_change = on_change
        self._connection = psycopg.connect(self.conninfo, autocommit=True)
        self._snapshot = self._read_snapshot()

    @property
    def conninfo(self) -> str:
        """Where sessions connect to: with the server's own search_path."""
        given = self._url.translate_connect_args(username="user", database="dbname")
        return make_conninfo("", **given, **{name: str(value) for name, value in self._url.query.items()})

    def identity(self) -> tuple[int, int]:
        """See :meth:`SessionDatabase.identity`."""
        return read_identity(self._connection)

    def is_stale(self) -> bool:
        """Never: a session sees what is there."""
        return False

    def refill(self) -> None:
        """Everything is there already."""

    def write_back(self, *, reshaping: bool) -> SubscriberError | None:
        """Note a change, of whoever: what could not be applied may be applied now."""
        del reshaping
        snapshot = self._read_snapshot()
        if snapshot != self._snapshot:
            self._snapshot = snapshot
            self._on_change()
        return None

    def close(self) -> None:
        """The database is dropped by whoever has made it."""
        self._connection.close()

    def _read_snapshot(self) -> str:
        """Another one after every transaction that has written."""
        ((snapshot,),) = self._connection.execute("SELECT txid_current_snapshot()::text").fetchall()
        return str(snapshot)


def open_apart(target: Target) -> Target:
    """The same target with its catalog in :data:`SCHEMA`; the given one is closed."""
    with target.begin() as connection:
        connection.execute(sa.schema.CreateSchema(SCHEMA, if_not_exists=True))
    target.close()
    # Nothing else in the path: PostgreSQL's worker has an empty one, which triggers see too (C23).
    return open_target(target.url.update_query_dict({"options": f"-csearch_path={SCHEMA}"}))
