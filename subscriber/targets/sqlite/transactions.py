"""Transactions of a SQLite target: there is one writer, which takes the lock before it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc
from typing_extensions import override

from subscriber.targets.base.errors import Errors
from subscriber.targets.base.transactions import Transactions
from subscriber.targets.database_files import holders

# Facts -----------------------------------------------------------------------------------------

_ATTACHES: Final = "subscriber_attaches"


def learn(dialect: sa.Dialect, connection: Any) -> None:
    """Find out by the driver's first connection what :func:`attaches` returns."""
    if hasattr(dialect, _ATTACHES):
        return
    errors: Any = dialect.loaded_dbapi.Error
    try:
        connection.execute("SELECT name FROM pragma_table_xinfo('sqlite_master', 'main')").fetchall()
    except errors:
        setattr(dialect, _ATTACHES, False)
    else:
        setattr(dialect, _ATTACHES, True)


def attaches(dialect: sa.Dialect) -> bool:
    """Whether a pragma's function has a parameter for the attached database; Turso has only one."""
    return bool(getattr(dialect, _ATTACHES, True))


def asked(connection: sa.Connection, query: sa.TextClause) -> sa.TextClause:
    """A query of pragmas, without the database where they take none."""
    return query if attaches(connection.dialect) else sa.text(query.text.replace(", :database)", ")"))


# Transactions ----------------------------------------------------------------------------------

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
        errors: Any = connection.dialect.loaded_dbapi.Error
        with suppress(exc.SQLAlchemyError, errors):  # it may just be closed
            driver: Any = connection.connection.driver_connection
            driver.interrupt()

    @override
    @contextmanager
    def interruptible(self, connection: sa.Connection) -> Iterator[None]:
        """Python handles a signal only when SQLite calls a Python function."""
        driver: Any = connection.connection.driver_connection
        if not hasattr(driver, "set_progress_handler"):
            yield
            return
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
