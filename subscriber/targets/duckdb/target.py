"""DuckDB as a target: one file, one process, several connections in it.

- *Processes.* A process that has the file open keeps all others out. A connection is therefore
  opened for one transaction and closed after it, which costs some twenty milliseconds, and lets
  ``subscriber sql`` and ``status`` (and the users' own tools) in between. Whoever finds the file
  open elsewhere tries again (:mod:`subscriber.targets.duckdb.connection`). Closing writes no
  checkpoint: DuckDB makes one when its write-ahead log has grown. A transaction that copies a large
  table keeps them out until it ends.
- *Transactions* are optimistic, and several connections of our process write at once: of two that
  change a row, the later one is refused, and tried again by us. There are no savepoints.
- *Schemas.* ``public`` is ``main``; every other schema is the one of its name.
- *Memory.* The keys that a transaction adds are in memory until it commits, some 40 bytes each,
  also those of a large copy; the rows are not. DuckDB takes what it is allowed: four fifths of the
  machine's, or ``?memory_limit=2GB`` in the URL.
- *Names* are always quoted. DuckDB finds columns and tables whatever the case of their letters; we
  compare exactly.
- *Foreign keys* cannot be switched off (unlike rule C23), so rows of a referring table must come
  after those that they refer to.

duckdb-engine reflects neither columns nor keys with today's versions: shapes are read from
``duckdb_columns()`` and its like.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from subscriber.errors import (
    UsageError,
)
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.duckdb.column_values import DuckDBValues
from subscriber.targets.duckdb.ddl import DuckDBDDL
from subscriber.targets.duckdb.errors import DuckDBErrors
from subscriber.targets.duckdb.loading import DuckDBLoading
from subscriber.targets.duckdb.matching import DuckDBMatching
from subscriber.targets.duckdb.sequences import DuckDBSequences
from subscriber.targets.duckdb.shapes import DuckDBShapes
from subscriber.targets.duckdb.transactions import DuckDBTransactions
from subscriber.targets.duckdb.writing import DuckDBWriting
from subscriber.targets.generic.row_versions import GenericRowVersions
from subscriber.targets.run_lock import FileRunLock
from subscriber.targets.target import Target

CAPABILITIES: Final = Capabilities(
    database="DuckDB",
    multi_rowcount=True,
    stored_columns=False,
    transactional_ddl=True,
    savepoints=False,
)


def open_duckdb(url: sa.URL) -> Target:
    """Open the database file that ``url`` names; it is created when it does not exist.

    Raises:
        UsageError: an in-memory database, which would forget the progress with the data.
        ImportError: DuckDB is not installed.
    """
    from subscriber.targets.duckdb.connection import open_file

    if url.database in (None, "", ":memory:") or str(url.database).startswith(":memory:"):
        raise UsageError(
            "an in-memory DuckDB database cannot be a target",
            hint="Name a file: duckdb:////absolute/path.duckdb or duckdb:///relative/path.duckdb.",
        )
    engine = sa.create_engine(url, paramstyle="qmark", poolclass=sa.NullPool, hide_parameters=True)
    _quote_every_name(engine.dialect, Path(str(url.database)).name)

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
        return open_file(str(url.database), partial(dialect.connect, *arguments, **options))

    file = str(url.database)
    errors, values = DuckDBErrors(file), DuckDBValues()
    writing = DuckDBWriting(errors)
    return Target(
        url=url,
        engine=engine,
        capabilities=CAPABILITIES,
        errors=errors,
        transactions=DuckDBTransactions(engine, errors, file),
        shapes=DuckDBShapes(errors),
        values=values,
        matching=DuckDBMatching(),
        writing=writing,
        loading=DuckDBLoading(engine, errors, values, writing),
        ddl=DuckDBDDL(engine),
        sequences=DuckDBSequences(errors),
        row_versions=GenericRowVersions(),
        # The database's own lock is given up between transactions.
        run_lock=FileRunLock(file),
        status_file=Path(f"{file}.subscriber-status"),
    )


def _quote_every_name(dialect: Any, database: str) -> None:
    """Quote names one by one: duckdb-engine takes what has a dot for ``database.schema``, and
    quotes by a list of words.

    A schema with the database's own name is qualified, since DuckDB takes it for either.
    """

    class _Preparer(dialect.preparer):  # type: ignore[misc]  # duckdb-engine has no types
        def _requires_quotes(self, _value: str) -> bool:
            return True

        def quote_schema(self, schema: str, force: Any = None) -> str:
            del force  # as SQLAlchemy's own
            own = database.partition(".")[0]
            return ".".join(self.quote(name) for name in ([own, schema] if schema.lower() == own.lower() else [schema]))

        format_schema = quote_schema

    dialect.preparer = _Preparer
    dialect.identifier_preparer = _Preparer(dialect)
