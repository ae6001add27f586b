"""The PostgreSQL database in which the statements of a session on a target run.

There are two kinds::

    Mirror        beside any target    refill ──▶ the statement runs ──▶ write back     (subscriber.scenario.nodes.mirror)
    OwnDatabase   the target itself    the statement runs                               (subscriber.scenario.nodes.own_database)
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import psycopg

from subscriber.errors import SubscriberError


class SessionDatabase(Protocol):
    """The interface of :class:`Mirror` and :class:`OwnDatabase` (see the module).

    Attributes:
        is_target: whether the database is the target itself. Then triggers, locks and prepared
            transactions are the target's, and sessions and replication run at the same time, as
            they do in PostgreSQL.
    """

    is_target: ClassVar[bool]

    @property
    def conninfo(self) -> str:
        """The connection string for sessions."""

    def identity(self) -> tuple[int, int]:
        """The oid of the database, and the oid of the role that owns the objects created in it."""

    def is_stale(self) -> bool:
        """Whether replication has changed rows that a session's open transaction cannot see."""

    def refill(self) -> None:
        """Make replicated changes visible to the statement or transaction that begins next."""

    def write_back(self, *, reshaping: bool) -> SubscriberError | None:
        """Make the target equal to the database after a committed statement or transaction.

        Args:
            reshaping: the statement was TRUNCATE or DDL, and nothing else.

        Returns:
            The reason why the statement was undone: the target cannot have its result. None if it
            was not undone.
        """

    def close(self) -> None:
        """Remove what sessions have created. The sessions must have ended."""


def read_identity(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """Read the oids that :meth:`SessionDatabase.identity` returns."""
    query = "SELECT d.oid::int8, r.oid::int8 FROM pg_database d, pg_roles r WHERE datname = current_database() AND rolname = current_user"
    ((database, role),) = connection.execute(query).fetchall()
    return int(database), int(role)
