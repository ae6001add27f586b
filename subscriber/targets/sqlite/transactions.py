"""Transactions of a SQLite target: there is one writer, which takes the lock before it reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc
from typing_extensions import override

from subscriber.targets.base.errors import Errors
from subscriber.targets.base.transactions import Transactions
from subscriber.targets.database_files import holders

_IMMEDIATE: Final = "subscriber_begin_immediate"
_SIGNALS_SEEN_EVERY: Final = 100_000
"""Instructions of SQLite's virtual machine: about a millisecond."""


class SQLiteTransactions(Transactions):
    def __init__(self, engine: sa.Engine, errors: Errors, file: str) -> None:
        super().__init__(engine, errors)
        self._file = file

    @override
    def write_engine(self) -> sa.Engine:
        return self._engine.execution_options(**{_IMMEDIATE: True})

    @override
    def interrupt(self, connection: sa.Connection) -> None:
        with suppress(exc.SQLAlchemyError, sqlite3.Error):  # it may just be closed
            driver: Any = connection.connection.driver_connection
            driver.interrupt()

    @override
    @contextmanager
    def interruptible(self, connection: sa.Connection) -> Iterator[None]:
        """Python handles a signal only when SQLite calls a Python function."""
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: None, _SIGNALS_SEEN_EVERY)
        try:
            yield
        except exc.OperationalError as error:
            if getattr(error.orig, "sqlite_errorname", None) == "SQLITE_INTERRUPT":
                raise KeyboardInterrupt from None
            raise
        finally:
            driver.set_progress_handler(None, 0)

    @override
    def waits_for(self, session: int | None) -> Sequence[str]:
        return holders(self._file)


def begin_immediately(connection: sa.Connection) -> None:
    """Begin a transaction, with IMMEDIATE on a connection of the write engine."""
    immediate = connection.get_execution_options().get(_IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
