"""Transactions of a SQLite target: there is one writer, which takes the lock before it reads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc
from typing_extensions import override

from subscriber.targets.base.errors import Errors
from subscriber.targets.base.transactions import Transactions
from subscriber.targets.database_files import holders

# Facts -----------------------------------------------------------------------------------------

_ATTRIBUTE: Final = "subscriber_sqlite_facts"


@dataclass(frozen=True, slots=True)
class SQLiteFacts:
    """What differs between SQLite and Turso, found in a database in memory.

    Attributes:
        database: the library's name, for messages.
        attaches: a pragma's function has a parameter for the attached database.
        lower_case_tables: a table's name is stored with its ASCII letters in lower case.
        shows_sizes: a pragma shows the size of a declared type.
        finds_quotes: a pragma finds a table whose name has a double quote.
        signed_zero: a REAL column keeps the sign of zero.
        generates: a table can have generated columns.
    """

    database: str = "SQLite"
    attaches: bool = True
    lower_case_tables: bool = False
    shows_sizes: bool = True
    finds_quotes: bool = True
    signed_zero: bool = False
    generates: bool = True


def learn(dialect: sa.Dialect) -> SQLiteFacts:
    """Find the facts about the driver's library."""
    dbapi: Any = dialect.loaded_dbapi

    def answers(sql: str) -> list[Any]:
        try:
            return [row[0] for row in memory.execute(sql).fetchall()]
        except dbapi.Error:
            return []

    with closing(dbapi.connect(":memory:")) as memory:
        memory.isolation_level = None  # Turso ends a transaction at some errors
        memory.execute('CREATE TABLE "A" (a NUMERIC_TEXT(1))')
        memory.execute('CREATE TABLE "q""q" (a REAL)')
        memory.execute('INSERT INTO "q""q" VALUES (-0.0)')
        answers("CREATE TABLE g (a INTEGER, b INTEGER GENERATED ALWAYS AS (a) STORED)")
        facts = SQLiteFacts(
            database="Turso" if answers("SELECT turso_version()") else "SQLite",
            attaches=bool(answers("SELECT name FROM pragma_table_xinfo('A', 'main')")),
            lower_case_tables="a" in answers("SELECT name FROM sqlite_master"),
            shows_sizes=answers("SELECT type FROM pragma_table_xinfo('A')") == ["NUMERIC_TEXT(1)"],
            finds_quotes=bool(answers("SELECT name FROM pragma_table_xinfo('q\"q')")),
            signed_zero=math.copysign(1, answers('SELECT a FROM "q""q"')[0]) < 0,
            generates=bool(answers("SELECT name FROM pragma_table_xinfo('g')")),
        )
    setattr(dialect, _ATTRIBUTE, facts)
    return facts


def facts_of(dialect: sa.Dialect) -> SQLiteFacts:
    found: SQLiteFacts = getattr(dialect, _ATTRIBUTE, SQLiteFacts())
    return found


def stored_name(dialect: sa.Dialect, table: str) -> str:
    if not facts_of(dialect).lower_case_tables:
        return table
    return "".join(letter.lower() if letter.isascii() else letter for letter in table)


def asked(connection: sa.Connection, query: sa.TextClause) -> sa.TextClause:
    """A query of pragmas, without the database where they take none."""
    if facts_of(connection.dialect).attaches:
        return query
    return sa.text(query.text.replace(", :database)", ")"))


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
