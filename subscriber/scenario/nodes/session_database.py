"""The PostgreSQL database in which the statements of a session on our subscriber run.

There are two kinds::

    Mirror        beside any target    refill ──▶ the statement runs ──▶ write back     (subscriber.scenario.nodes.mirror)
    OwnDatabase   the target itself    the statement runs                               (subscriber.scenario.nodes.own_database)
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import psycopg

from subscriber.errors import SubscriberError


class SessionDatabase(Protocol):
    """See the module.

    Attributes:
        is_target: what a statement does, it does in the target: triggers, locks and prepared
            transactions are the target's own, and sessions and replication run side by side as they
            do in PostgreSQL.
    """

    is_target: ClassVar[bool]

    @property
    def conninfo(self) -> str:
        """Where sessions connect to."""

    def identity(self) -> tuple[int, int]:
        """The oids of the database, and of the role that owns what is made in it."""

    def is_stale(self) -> bool:
        """Whether replication has changed rows that a session's open transaction cannot see."""

    def refill(self) -> None:
        """Let a statement, or a transaction, that is about to begin see what has been
        replicated.
        """

    def write_back(self, *, reshaping: bool) -> SubscriberError | None:
        """Let the target be as the database is after a statement, or a transaction, that is
        committed.

        Args:
            reshaping: it was TRUNCATE or DDL and nothing else.

        Returns:
            Why the statement was undone, where the target cannot follow.
        """

    def close(self) -> None:
        """Remove what sessions have made; they must have ended."""


def read_identity(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """See :meth:`SessionDatabase.identity`."""
    query = "SELECT d.oid::int8, r.oid::int8 FROM pg_database d, pg_roles r WHERE datname = current_database() AND rolname = current_user"
    ((database, role),) = connection.execute(query).fetchall()
    return int(database), int(role)
