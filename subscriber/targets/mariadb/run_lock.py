"""The run lock of a MariaDB target: a lock of the server by GET_LOCK."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.errors import (
    AlreadyRunning,
)
from subscriber.targets.roles.errors import Errors

_LONG_WAIT: Final = 31_536_000
"""Seconds that the run lock's connection may be idle: the server's maximum, a year."""


class MariaDBRunLock:
    """See :class:`~subscriber.targets.roles.run_lock.RunLock`."""

    def __init__(self, engine: sa.Engine, errors: Errors, database: str) -> None:
        self._engine = engine
        self._errors = errors
        self._database = database

    @contextmanager
    def hold(self) -> Iterator[None]:
        """See :meth:`RunLock.hold`; GET_LOCK with the database's name, in a separate session."""
        name = self._name
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with self._errors.reporting(), autocommit.connect() as connection:
            connection.exec_driver_sql(f"SET SESSION wait_timeout = {_LONG_WAIT}")
            if connection.execute(sa.select(sa.func.get_lock(name, 0))).scalar_one() != 1:
                raise AlreadyRunning(
                    f'another "subscriber run" is already running for database "{self._database}"',
                    hint="Stop it first; one process runs all subscriptions of a target.",
                )
            try:
                yield
            finally:
                # The lock ends with its session, so a lost session has released it.
                with suppress(exc.SQLAlchemyError):
                    connection.execute(sa.select(sa.func.release_lock(name)))
                connection.invalidate()  # its session differs from the others

    def is_held(self, connection: sa.Connection) -> bool | None:
        """See :meth:`RunLock.is_held`."""
        return connection.execute(sa.select(sa.func.is_used_lock(self._name))).scalar_one() is not None

    @property
    def _name(self) -> str:
        digest = hashlib.sha256(self._database.encode()).hexdigest()[:32]
        return f"subscriber run {digest}"  # at most 64 characters
