"""SQLite as a target: one file with one writer, and columns without strict types.

- *Transactions.* The driver's automatic BEGIN is switched off. A write transaction begins with
  ``BEGIN IMMEDIATE``, so that it gets the lock (or fails after 5 s) before it reads anything.
- *Schemas.* ``public`` is the database itself. Table ``t`` of another schema ``s`` is the table
  named ``"s.t"``, or table ``t`` of an attached database ``s``.
- *Side effects* (rule C23). Foreign keys are off on the subscriber's connections, because
  PostgreSQL's apply worker does not enforce them. Triggers fire, because a connection cannot switch
  them off.
- *The journal mode* is the user's choice and is not changed.
"""

from __future__ import annotations

import sqlite3
import time
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.base.errors import UsageError
from subscriber.targets.base.target import base_roles
from subscriber.targets.capabilities import Capabilities, Limits
from subscriber.targets.database_files import FileRunLock
from subscriber.targets.sqlite.errors import SQLiteErrors, is_locked_file
from subscriber.targets.sqlite.transactions import SQLiteTransactions, begin_immediately, learn
from subscriber.targets.target import TableRoles, Target

_KEYWORDS: Final = frozenset(
    """
    abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade
    case cast check collate column commit conflict constraint create cross current current_date current_time
    current_timestamp database default deferrable deferred delete desc detach distinct do drop each else end escape except
    exclude exclusive exists explain fail filter first following for foreign from full generated glob group groups having
    if ignore immediate in index indexed initially inner insert instead intersect into is isnull join key last left like
    limit match materialized natural no not nothing notnull null nulls of offset on or order others outer over partition
    plan pragma preceding primary query raise range recursive references regexp reindex release rename replace restrict
    returning right rollback row rows savepoint select set table temp temporary then ties to transaction trigger
    unbounded union unique update using vacuum values view virtual when where window with without
    """.split()  # noqa: SIM905 - a list of words reads better than a list of strings
)
"""https://www.sqlite.org/lang_keywords.html: SQLAlchemy quotes only an old list of them. SQLite
accepts many as names in many places, but not NOTHING as a table.
"""


# Target ----------------------------------------------------------------------------------------

BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for another writer before the target counts as unavailable."""
_PAUSE: Final = 0.02
CAPABILITIES: Final = Capabilities(
    database="SQLite",
    multi_rowcount=True,
    driver_cursor=True,
    signed_zero=False,
    single_writer=True,
    unenforced_foreign_keys=True,
    limits=Limits(columns=2_000),
    transactional_ddl=True,
    table_case=False,
)

CACHE_KIB: Final = 65_536
"""A batch of 64 MiB then rarely spills, which would take the exclusive lock early."""


def open_sqlite(url: sa.URL) -> Target:
    if url.database in (None, "", ":memory:") or url.query.get("mode") == "memory":
        raise UsageError(
            "an in-memory SQLite database cannot be a target",
            hint="Name a file: sqlite:////absolute/path.db or sqlite:///relative/path.db.",
        )
    is_turso = url.get_driver_name() == "turso"
    if is_turso and url.query:
        raise UsageError("the target URL has options, and a database of Turso has none", hint="Write it without them.")
    with warnings.catch_warnings():
        # SQLAlchemy only warns about options that it does not know.
        warnings.simplefilter("error", exc.SAWarning)
        try:
            engine = (
                _turso_engine(url)
                if is_turso
                else sa.create_engine(
                    url, connect_args={"timeout": BUSY_TIMEOUT}, hide_parameters=True, pool_use_lifo=True
                )
            )
        except exc.SAWarning:
            raise UsageError(
                f"the target URL has options that SQLite does not know, among {', '.join(sorted(url.query))}",
                hint="The options of SQLite's own URIs take effect only with uri=true, and the path as file:/….",
            ) from None
    preparer = engine.dialect.identifier_preparer
    preparer.reserved_words = preparer.reserved_words | _KEYWORDS
    sa.event.listen(engine, "connect", _on_connect)
    sa.event.listen(engine, "begin", begin_immediately)
    facts = learn(engine.dialect)
    file = str(url.database)
    errors = SQLiteErrors(file, engine.dialect.loaded_dbapi.Error, facts.database)
    transactions = SQLiteTransactions(engine, errors, file)

    def table_roles() -> TableRoles:
        from subscriber.targets.sqlite import catalog, ddl, objects, writing
        from subscriber.targets.sqlite.values import SQLiteValues

        values, matching, write = SQLiteValues(), writing.SQLiteMatching(), writing.SQLiteWriting(errors)
        new_tables = ddl.SQLiteDDL(engine)
        return base_roles(
            engine,
            errors,
            values,
            shapes=catalog.SQLiteShapes(errors),
            matching=matching,
            writing=write,
            loading=writing.SQLiteLoading(engine, errors, values, write),
            reader=catalog.SQLiteTableReader(values),
            ddl=new_tables,
            sequences=catalog.SQLiteSequences(errors),
            objects=objects.SQLiteObjects(engine, errors, transactions, new_tables.rules),
            bulk=writing.SQLiteBulk(engine, errors, values, matching, write),
            deleted_rows=ddl.SQLiteDeletedRows(),
        )

    return Target(
        url=url,
        engine=engine,
        capabilities=replace(
            CAPABILITIES,
            database=facts.database,
            stored_columns=facts.generates,
            limits=replace(CAPABILITIES.limits, quotes_in_tables=facts.finds_quotes),
        ),
        errors=errors,
        transactions=transactions,
        open_table_roles=table_roles,
        run_lock=FileRunLock(file),
        file=Path(file),
    )


def new_database(file: Path) -> None:
    """Replace the file, which nobody may have open; write-ahead logging lets others read."""
    for leftover in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        leftover.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def _turso_engine(url: sa.URL) -> sa.Engine:
    """Turso locks its file for one process as long as a connection is open there. So each is closed
    after its transaction, and another process waits for that as for a lock of SQLite's.
    """
    engine = sa.create_engine(url, poolclass=sa.NullPool, hide_parameters=True)

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: object, arguments: Any, options: Any) -> Any:
        deadline = time.monotonic() + BUSY_TIMEOUT
        while True:
            try:
                return dialect.connect(*arguments, **options)
            except dialect.loaded_dbapi.Error as error:
                if not is_locked_file(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)

    return engine


def _on_connect(connection: Any, _record: object) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT * 1000:.0f}")
    connection.execute("PRAGMA foreign_keys = OFF")
    # The journal is trimmed after a commit, so the commit must be on disk. Some builds of SQLite
    # have NORMAL as their default.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
