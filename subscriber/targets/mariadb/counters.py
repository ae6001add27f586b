"""AUTO_INCREMENT counters that TRUNCATE ... RESTART IDENTITY resets after its transaction.

ALTER TABLE commits, so it cannot be a part of the transaction. If the process ends between the
commit and ALTER TABLE, the counter keeps its value.
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
"""Seconds that the reset of a counter waits for other sessions that use the table."""


class CounterRestarts:
    """The tables that each open transaction has truncated with RESTART IDENTITY.

    Args:
        engine: the target's engine.
        errors: the target's role for errors.
    """

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors
        self._wanted: dict[sa.Connection, list[TargetTable]] = {}

    @contextmanager
    def collected(self, connection: sa.Connection) -> Iterator[list[TargetTable]]:
        """Collect the tables whose counters the transaction of ``connection`` has to reset.

        The list is filled while the block runs. After the commit, pass it to :meth:`restart`.
        """
        tables = self._wanted[connection] = []
        try:
            yield tables
        finally:
            del self._wanted[connection]

    def want(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
        """Add tables whose counters are to be reset.

        This is not possible in a prepared transaction; a warning is logged then.
        """
        if tables and connection not in self._wanted:
            logger.warning(
                "a prepared transaction of MariaDB cannot set AUTO_INCREMENT back: TRUNCATE leaves it where it is"
            )
        self._wanted.get(connection, []).extend(tables)

    def restart(self, tables: Sequence[TargetTable]) -> None:
        """Reset the counters. The server raises each of them above the values in its table.

        A failure is only logged as a warning, because the transaction is already committed.
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
