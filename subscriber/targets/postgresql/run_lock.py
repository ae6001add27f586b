"""The run lock of a PostgreSQL target: an advisory lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.errors import (
    AlreadyRunning,
)
from subscriber.targets.roles.errors import Errors

RUN_LOCK_KEY: Final = int.from_bytes(b"subscrib")
"""The key of the advisory lock that a run holds: eight letters that no other program should use.
"""
_RUN_LOCKED: Final = sa.text(
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid::int8 = :high AND objid::int8 = :low"
    " AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)
"""The row of an advisory lock with one 64-bit key in pg_locks."""


class PostgreSQLRunLock:
    """See :class:`~subscriber.targets.roles.run_lock.RunLock`."""

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors

    @contextmanager
    def hold(self) -> Iterator[None]:
        """See :meth:`RunLock.hold`; an advisory lock on a separate connection."""
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with self._errors.reporting(), autocommit.connect() as connection:
            if not connection.execute(sa.select(sa.func.pg_try_advisory_lock(RUN_LOCK_KEY))).scalar_one():
                raise AlreadyRunning(
                    f'another "subscriber run" is already running for database "{self._engine.url.database}"',
                    hint="Stop it first; one process runs all subscriptions of a target.",
                )
            try:
                yield
            finally:
                try:
                    connection.execute(sa.select(sa.func.pg_advisory_unlock(RUN_LOCK_KEY)))
                except exc.SQLAlchemyError:
                    connection.invalidate()  # a session that is lost has released the lock

    def is_held(self, connection: sa.Connection) -> bool | None:
        """See :meth:`RunLock.is_held`."""
        halves = {"high": RUN_LOCK_KEY >> 32, "low": RUN_LOCK_KEY & 0xFFFFFFFF}
        return bool(connection.execute(_RUN_LOCKED, halves).scalar_one())
