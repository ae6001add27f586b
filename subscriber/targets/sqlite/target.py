"""SQLite as a target: one file with one writer, and columns without strict types.

- *Transactions.* The driver's automatic BEGIN is switched off. A write transaction begins with
  ``BEGIN IMMEDIATE``, so that it gets the lock (or fails after 5 s) before it reads anything.
- *Schemas.* ``public`` is the database itself. Table ``t`` of another schema ``s`` is the table
  named ``"s.t"``, or table ``t`` of an attached database ``s``.
- *Side effects* (rule C23). Foreign keys are off on the subscriber's connections, because
  PostgreSQL's apply worker does not enforce them. Triggers fire, because a connection cannot switch
  them off.
- *TRUNCATE* is DELETE without WHERE. RESTRICT is checked against the foreign keys of every table
  (rule C30).

The journal mode is the user's choice and is not changed.
"""

from __future__ import annotations

import sqlite3
import warnings
from contextlib import closing
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.errors import (
    UsageError,
)
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.run_lock import FileRunLock
from subscriber.targets.sqlite.errors import SQLiteErrors
from subscriber.targets.sqlite.keywords import KEYWORDS
from subscriber.targets.sqlite.transactions import SQLiteTransactions, begin_immediately
from subscriber.targets.table_roles import TableRoles
from subscriber.targets.target import Target

BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for another writer before the target counts as unavailable."""
CAPABILITIES: Final = Capabilities(
    database="SQLite",
    multi_rowcount=True,
    driver_cursor=True,
    signed_zero=False,
    single_writer=True,
    unenforced_foreign_keys=True,
    transactional_ddl=True,
    table_case=False,
)

CACHE_KIB: Final = 65_536
"""The page cache of a connection, in KiB. It is large enough that a batch of 64 MiB rarely spills,
which would take the exclusive lock early.
"""


def open_sqlite(url: sa.URL) -> Target:
    """Open the database file that ``url`` names; it is created if it does not exist.

    Raises:
        UsageError: the URL names an in-memory database, which would lose the progress with the
            data.
    """
    if url.database in (None, "", ":memory:") or url.query.get("mode") == "memory":
        raise UsageError(
            "an in-memory SQLite database cannot be a target",
            hint="Name a file: sqlite:////absolute/path.db or sqlite:///relative/path.db.",
        )
    with warnings.catch_warnings():
        # SQLAlchemy only warns about options that it does not know.
        warnings.simplefilter("error", exc.SAWarning)
        try:
            engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT}, hide_parameters=True)
        except exc.SAWarning:
            raise UsageError(
                f"the target URL has options that SQLite does not know, among {', '.join(sorted(url.query))}",
                hint="The options of SQLite's own URIs take effect only with uri=true, and the path as file:/….",
            ) from None
    preparer = engine.dialect.identifier_preparer
    preparer.reserved_words = preparer.reserved_words | KEYWORDS
    sa.event.listen(engine, "connect", _on_connect)
    sa.event.listen(engine, "begin", begin_immediately)
    file = str(url.database)
    errors = SQLiteErrors(file)
    transactions = SQLiteTransactions(engine, errors, file)

    def table_roles() -> TableRoles:
        from subscriber.targets.generic.row_versions import GenericRowVersions
        from subscriber.targets.sqlite.bulk import SQLiteBulk
        from subscriber.targets.sqlite.column_values import SQLiteValues
        from subscriber.targets.sqlite.ddl import SQLiteDDL
        from subscriber.targets.sqlite.loading import SQLiteLoading
        from subscriber.targets.sqlite.matching import SQLiteMatching
        from subscriber.targets.sqlite.objects import SQLiteObjects
        from subscriber.targets.sqlite.reading import SQLiteReading
        from subscriber.targets.sqlite.sequences import SQLiteSequences
        from subscriber.targets.sqlite.shapes import SQLiteShapes
        from subscriber.targets.sqlite.writing import SQLiteWriting

        values, matching, writing = SQLiteValues(), SQLiteMatching(), SQLiteWriting(errors)
        ddl = SQLiteDDL(engine)
        return TableRoles(
            shapes=SQLiteShapes(errors),
            values=values,
            matching=matching,
            writing=writing,
            loading=SQLiteLoading(engine, errors, values, writing),
            reading=SQLiteReading(values),
            ddl=ddl,
            sequences=SQLiteSequences(errors),
            row_versions=GenericRowVersions(),
            objects=SQLiteObjects(engine, errors, transactions, ddl.rules),
            bulk=SQLiteBulk(engine, errors, values, matching, writing),
        )

    return Target(
        url=url,
        engine=engine,
        capabilities=CAPABILITIES,
        errors=errors,
        transactions=transactions,
        open_table_roles=table_roles,
        run_lock=FileRunLock(file),
        file=Path(file),
    )


def new_database(file: Path) -> None:
    """Replace the file with an empty database. No process may have the file open.

    With write-ahead logging, other processes can read while a batch is written. It is a property of
    the file, so it is set once.
    """
    for leftover in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        leftover.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = OFF")
    # The journal is trimmed after a commit, so the commit must be on disk. Some builds of SQLite
    # have NORMAL as their default.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
