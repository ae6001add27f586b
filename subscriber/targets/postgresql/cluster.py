"""Identification of a target's PostgreSQL cluster and database."""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.targets.roles.errors import Errors


class PostgreSQLCluster:
    """See :class:`~subscriber.targets.roles.cluster.Cluster`."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors

    def has_database(self, connection: sa.Connection, system_identifier: str, database: str) -> bool:
        """See :meth:`Cluster.has_database`; compares system identifier and database name."""
        with self._errors.reporting():
            here = connection.exec_driver_sql(
                "SELECT system_identifier::text, current_database()::text FROM pg_control_system()"
            ).one()
        return tuple(here) == (system_identifier, database)
