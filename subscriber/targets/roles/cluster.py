"""The PostgreSQL cluster that a target is part of (an optional role)."""

from __future__ import annotations

from typing import Protocol

import sqlalchemy as sa


class Cluster(Protocol):
    """Which cluster and database the target is. Only a PostgreSQL target has the role."""

    def has_database(self, connection: sa.Connection, system_identifier: str, database: str) -> bool:
        """Whether the target is database ``database`` of the PostgreSQL cluster with this system
        identifier.
        """
        ...
