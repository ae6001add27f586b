"""Transactions of a MariaDB target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.errors import (
    UnsupportedValue,
)
from subscriber.targets.generic.transactions import GenericTransactions
from subscriber.targets.mariadb.blockers import blockers
from subscriber.targets.mariadb.counters import CounterRestarts
from subscriber.targets.mariadb.errors import PACKET_TOO_LARGE
from subscriber.targets.roles.errors import Errors
from subscriber.targets.roles.transactions import DurabilityWarning

_SET_LOCK_WAITS: Final = "SET SESSION innodb_lock_wait_timeout = {}, SESSION lock_wait_timeout = {}"


class MariaDBTransactions(GenericTransactions):
    """See :class:`~subscriber.targets.roles.transactions.Transactions`."""

    def __init__(self, engine: sa.Engine, errors: Errors, counters: CounterRestarts) -> None:
        super().__init__(engine, errors)
        self._counters = counters

    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """See :meth:`Transactions.durability_warnings`.

        How often the binary log is synchronized does not matter, because InnoDB's log contains the
        commit.
        """
        with self._errors.reporting(), self._engine.connect() as connection:
            flushed: int = connection.exec_driver_sql("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit").scalar_one()
        if flushed == 1:
            return ()
        return (
            DurabilityWarning(
                f"the target may lose committed changes in a crash: its innodb_flush_log_at_trx_commit is {flushed}",
                "Run SET GLOBAL innodb_flush_log_at_trx_commit = 1 there, and set it in the server's configuration file. The journal"
                " does not keep committed changes.",
            ),
        )

    def interrupt(self, connection: sa.Connection) -> None:
        """See :meth:`Transactions.interrupt`; KILL QUERY, on a separate connection."""
        with suppress(exc.SQLAlchemyError, OSError):  # it may be closed, or no new connection is possible
            driver: Any = connection.connection.driver_connection
            number = driver.thread_id()
            with self._engine.connect() as other:
                other.exec_driver_sql(f"KILL QUERY {number}")

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """See :meth:`Transactions.begin`."""
        with self.renewing_sessions(), super().begin() as connection, self._counters.collected(connection) as truncated:
            yield connection
        if truncated:
            self._counters.restart(truncated)

    @contextmanager
    def renewing_sessions(self) -> Iterator[None]:
        """Close all sessions of the pool after an error for a value that was too large.

        If an administrator raises the limit, only new sessions use the new limit.
        """
        try:
            yield
        except UnsupportedValue as error:
            if error.sqlstate == PACKET_TOO_LARGE:
                self._engine.dispose()
            raise

    @contextmanager
    def limited_lock_waits(self, connection: sa.Connection, seconds: int) -> Iterator[None]:
        """See :meth:`Transactions.limited_lock_waits`; the limits of rows and of tables."""
        connection.exec_driver_sql(_SET_LOCK_WAITS.format(seconds, seconds))
        try:
            yield
        finally:
            with suppress(exc.SQLAlchemyError):  # a session that is lost has no limit any more
                connection.exec_driver_sql(_SET_LOCK_WAITS.format("DEFAULT", "DEFAULT"))

    def session_id(self, connection: sa.Connection) -> int | None:
        """See :meth:`Transactions.session_id`; the connection's number."""
        driver: Any = connection.connection.driver_connection
        return int(driver.thread_id())

    def waits_for(self, session: int | None) -> Sequence[str]:
        """See :meth:`Transactions.waits_for`; complete only with the PROCESS privilege."""
        if session is None:
            return ()
        with self._engine.connect() as connection:
            return blockers(connection, session)
