"""Transactions of a SQLite target: there is one writer, which takes the lock before it reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.targets.file_locks import holders
from subscriber.targets.generic.transactions import GenericTransactions
from subscriber.targets.roles.errors import Errors

_IMMEDIATE: Final = "subscriber_begin_immediate"
_SIGNALS_SEEN_EVERY: Final = 100_000
"""The interval of the progress handler, in instructions of SQLite's virtual machine: about a
millisecond.
"""


class SQLiteTransactions(GenericTransactions):
    """See :class:`~subscriber.targets.roles.transactions.Transactions`."""

    def __init__(self, engine: sa.Engine, errors: Errors, file: str) -> None:
        super().__init__(engine, errors)
        self._file = file

    def write_engine(self) -> sa.Engine:
        """See :meth:`Transactions.write_engine`; its transactions begin with BEGIN IMMEDIATE."""
        return self._engine.execution_options(**{_IMMEDIATE: True})

    def interrupt(self, connection: sa.Connection) -> None:
        """See :meth:`Transactions.interrupt`."""
        with suppress(exc.SQLAlchemyError, sqlite3.Error):  # it may just be closed
            driver: Any = connection.connection.driver_connection
            driver.interrupt()

    @contextmanager
    def interruptible(self, connection: sa.Connection) -> Iterator[None]:
        """See :meth:`Transactions.interruptible`.

        Python handles a signal only when SQLite calls a Python function.

        Raises:
            KeyboardInterrupt: a query of the block was interrupted.
        """
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

    def waits_for(self, session: int | None) -> Sequence[str]:
        """See :meth:`Transactions.waits_for`; the processes that hold a lock on the file."""
        del session
        return holders(self._file)


def begin_immediately(connection: sa.Connection) -> None:
    """Begin a transaction; with IMMEDIATE on a connection of the write engine.

    This is the handler of SQLAlchemy's event "begin".
    """
    immediate = connection.get_execution_options().get(_IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
