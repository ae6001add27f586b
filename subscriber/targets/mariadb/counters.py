"""AUTO_INCREMENT counters that a TRUNCATE ... RESTART IDENTITY sets back after its transaction.

ALTER TABLE commits, so it cannot be a part of the transaction. A process that dies in between
leaves the counter where it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from subscriber.errors import SubscriberError
from subscriber.targets.roles.errors import Errors
from subscriber.targets.target_table import TargetTable

logger = logging.getLogger(__name__)

_COUNTER_WAIT: Final = 5
"""Seconds that setting a counter back waits for whoever uses the table."""


class CounterRestarts:
    """The tables that each open transaction has truncated with RESTART IDENTITY.

    Args:
        engine: of the target.
        errors: of the target.
    """

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors
        self._wanted: dict[sa.Connection, list[TargetTable]] = {}

    @contextmanager
    def collected(self, connection: sa.Connection) -> Iterator[list[TargetTable]]:
        """The tables that the transaction of ``connection`` wants to restart, while the block runs.

        Once it has committed they are for :meth:`restart`.
        """
        tables = self._wanted[connection] = []
        try:
            yield tables
        finally:
            del self._wanted[connection]

    def want(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
        """Note tables to restart; in a prepared transaction that is not possible, and logged."""
        if tables and connection not in self._wanted:
            logger.warning(
                "a prepared transaction of MariaDB cannot set AUTO_INCREMENT back: TRUNCATE leaves it where it is"
            )
        self._wanted.get(connection, []).extend(tables)

    def restart(self, tables: Sequence[TargetTable]) -> None:
        """Set the counters back. The server raises each above what is in its table.

        What is committed stays so, whatever becomes of the counter: a failure is a warning.
        """
        format_table = self._engine.dialect.identifier_preparer.format_table
        try:
            with self._errors.reporting(), self._engine.connect() as connection:
                connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {_COUNTER_WAIT}")
                try:
                    for table in tables:
                        connection.exec_driver_sql(f"ALTER TABLE {format_table(table.clause())} AUTO_INCREMENT = 1")
                finally:
                    connection.exec_driver_sql("SET SESSION lock_wait_timeout = DEFAULT")
        except SubscriberError as error:
            logger.warning("TRUNCATE ... RESTART IDENTITY could not set AUTO_INCREMENT back: %s", error.message)
