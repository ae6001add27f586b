"""Prepared transactions of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.targets.postgresql.errors import (
    explain_prepared,
)
from subscriber.targets.postgresql.origins import PostgreSQLOrigins
from subscriber.targets.postgresql.transactions import PostgreSQLTransactions
from subscriber.targets.roles.errors import Errors

_PREPARED: Final = sa.text("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
_TAKEN_ELSEWHERE: Final = sa.text(
    "SELECT max(current_database()::text) FROM pg_prepared_xacts WHERE gid = :gid AND database <> current_database()"
)


class PostgreSQLPrepared:
    """See :class:`~subscriber.targets.roles.prepared.Prepared`."""

    def __init__(
        self, engine: sa.Engine, errors: Errors, transactions: PostgreSQLTransactions, origins: PostgreSQLOrigins
    ) -> None:
        self._engine = engine
        self._errors = errors
        self._transactions = transactions
        self._origins = origins

    @contextmanager
    def begin(self, gid: str) -> Iterator[sa.Connection]:
        """See :meth:`Prepared.begin`; executes PREPARE TRANSACTION."""
        with self._transactions.begin() as connection:
            yield connection
            try:
                connection.exec_driver_sql(f"PREPARE TRANSACTION {_literal(gid)}")
            except exc.DBAPIError as error:
                raise explain_prepared(self._errors.translate(error), gid) from None

    def finish(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        """See :meth:`Prepared.finish`."""
        command = "COMMIT" if commit else "ROLLBACK"
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        try:
            with autocommit.connect() as connection:
                if origin is not None:
                    self._origins.set(connection, origin)
                connection.exec_driver_sql(f"{command} PREPARED {_literal(gid)}")
        except exc.SQLAlchemyError as error:
            raise explain_prepared(self._errors.translate(error), gid) from None

    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        """See :meth:`Prepared.free_gid`.

        If another database of the cluster has prepared a transaction under this GID, the database's
        name is appended.
        """
        with self._errors.reporting():
            database = connection.execute(_TAKEN_ELSEWHERE, {"gid": gid}).scalar_one()
        return gid if database is None else f"{gid}_{database}"

    def names(self, connection: sa.Connection) -> frozenset[str]:
        """See :meth:`Prepared.names`; only those of this database, although GIDs belong to the
        cluster.
        """
        with self._errors.reporting():
            return frozenset(connection.execute(_PREPARED).scalars())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
