"""The PostgreSQL cluster that a target is part of (an optional role)."""

from __future__ import annotations

from typing import Protocol

import sqlalchemy as sa


class Cluster(Protocol):
    """Identifies a target's cluster and database. Only a PostgreSQL target has this role."""

    def has_database(self, connection: sa.Connection, system_identifier: str, database: str) -> bool:
        """Whether the target is this database of the PostgreSQL cluster with this system
        identifier.
        """
        ...

    def conninfo(self) -> str:
        """The target as a libpq connection string; it may hold a password."""
        ...
