"""Identification of a target's PostgreSQL cluster and database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from subscriber.targets.roles.errors import Errors


class PostgreSQLCluster:
    """See :class:`~subscriber.targets.roles.cluster.Cluster`."""

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors

    def has_database(self, connection: sa.Connection, system_identifier: str, database: str) -> bool:
        """See :meth:`Cluster.has_database`; compares system identifier and database name."""
        with self._errors.reporting():
            here = connection.exec_driver_sql(
                "SELECT system_identifier::text, current_database()::text FROM pg_control_system()"
            ).one()
        return tuple(here) == (system_identifier, database)

    def conninfo(self) -> str:
        """See :meth:`Cluster.conninfo`."""
        arguments = self._engine.dialect.create_connect_args(self._engine.url)[1]
        driver: Any = self._engine.dialect.dbapi
        text: str = driver.conninfo.make_conninfo(**{key: arguments[key] for key in arguments if key != "context"})
        return text
