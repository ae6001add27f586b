"""DuckDB as a target: one file and one process, which may have several connections to the file.

- *Processes.* A process that has the file open prevents all other processes from opening it.
  Therefore a connection is opened for one transaction and closed after it. This costs about twenty
  milliseconds, and lets ``subscriber sql``, ``subscriber status`` and the users' tools open the
  file in between. While transactions follow each other closely, ``subscriber run`` keeps the file
  open, and closes it for a process that says that it waits
  (:mod:`subscriber.targets.duckdb.keep_open`). If another process has the file open, opening is
  tried again (:mod:`subscriber.targets.duckdb.connection`). Closing the file
  does not write a checkpoint, unless the file would be slow to open again
  (:mod:`subscriber.targets.duckdb.checkpoints`). A transaction that copies a large table prevents
  other processes from opening the file until it ends.
- *Transactions* are optimistic, and several connections of this process can write at the same time.
  If two transactions change the same row, DuckDB refuses the later change, and the subscriber tries
  it again. DuckDB does not have savepoints.
- *Schemas.* ``public`` is ``main``; any other schema has the same name in DuckDB.
- *Memory.* The keys that a transaction adds are in memory until it commits, about 40 bytes for each
  key. This includes the keys of a large copy, but not its rows. DuckDB uses as much memory as it is
  allowed to: four fifths of the machine's memory, or ``?memory_limit=2GB`` in the URL.
- *Names* are always quoted. DuckDB ignores case when it looks up columns and tables; the subscriber
  compares names exactly.
- *Foreign keys* cannot be switched off (unlike rule C23), so a row must be inserted after the rows
  that it references.

With current versions, duckdb-engine does not reflect columns and keys. Shapes are read from
``duckdb_columns()`` and similar functions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from subscriber.errors import (
    UsageError,
)
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.duckdb.errors import DuckDBErrors, is_interruption
from subscriber.targets.duckdb.transactions import DuckDBTransactions
from subscriber.targets.query_result import read_result
from subscriber.targets.run_lock import FileRunLock
from subscriber.targets.server_facts import TargetFacts
from subscriber.targets.table_roles import TableRoles
from subscriber.targets.target import Target

CAPABILITIES: Final = Capabilities(
    database="DuckDB",
    multi_rowcount=True,
    stored_columns=False,
    transactional_ddl=True,
    savepoints=False,
    table_case=False,
)


def open_duckdb(url: sa.URL) -> Target:
    """Open the database file that ``url`` names; it is created if it does not exist.

    Raises:
        UsageError: the URL names an in-memory database, which would lose the progress with the
            data.
        ImportError: DuckDB is not installed.
    """
    from subscriber.targets.duckdb.checkpoints import Checkpoints
    from subscriber.targets.duckdb.connection import open_file
    from subscriber.targets.duckdb.keep_open import KeptOpen
    from subscriber.targets.duckdb.waiting_file import somebody_waits

    if url.database in (None, "", ":memory:") or str(url.database).startswith(":memory:"):
        raise UsageError(
            "an in-memory DuckDB database cannot be a target",
            hint="Name a file: duckdb:////absolute/path.duckdb or duckdb:///relative/path.duckdb.",
        )
    engine = sa.create_engine(url, paramstyle="qmark", poolclass=sa.NullPool, hide_parameters=True)
    _quote_every_name(engine.dialect, Path(str(url.database)).name)

    file = str(url.database)
    checkpoints = Checkpoints(file)
    kept = KeptOpen(checkpoints.before_close, partial(somebody_waits, file))

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
        open_again = partial(open_file, file, partial(dialect.connect, *arguments, **options), says_so=not kept.keeps)
        kept.opening()
        began = time.monotonic()
        try:
            connection = open_again()
        except BaseException:
            kept.not_opened()
            raise
        checkpoints.opened(time.monotonic() - began)
        kept.opened(connection, open_again)
        return connection

    @sa.event.listens_for(engine, "close")
    def closed(connection: object, _record: object) -> None:
        kept.closed(connection)

    @sa.event.listens_for(engine, "handle_error")
    def interrupted(context: sa.engine.ExceptionContext) -> BaseException | None:
        return KeyboardInterrupt() if is_interruption(context.original_exception) else None

    errors = DuckDBErrors(file)

    def table_roles() -> TableRoles:
        from subscriber.targets.duckdb.bulk import DuckDBBulk
        from subscriber.targets.duckdb.column_values import DuckDBValues
        from subscriber.targets.duckdb.ddl import DuckDBDDL
        from subscriber.targets.duckdb.loading import DuckDBLoading
        from subscriber.targets.duckdb.matching import DuckDBMatching
        from subscriber.targets.duckdb.objects import DuckDBObjects
        from subscriber.targets.duckdb.reading import DuckDBReading
        from subscriber.targets.duckdb.sequences import DuckDBSequences
        from subscriber.targets.duckdb.shapes import DuckDBShapes
        from subscriber.targets.duckdb.writing import DuckDBWriting
        from subscriber.targets.generic.row_versions import GenericRowVersions

        values, matching, writing = DuckDBValues(), DuckDBMatching(), DuckDBWriting(errors)
        ddl = DuckDBDDL(engine)
        return TableRoles(
            shapes=DuckDBShapes(errors),
            values=values,
            matching=matching,
            writing=writing,
            loading=DuckDBLoading(engine, errors, values, writing),
            reading=DuckDBReading(engine, errors, values),
            ddl=ddl,
            sequences=DuckDBSequences(errors),
            row_versions=GenericRowVersions(),
            objects=DuckDBObjects(engine, errors, ddl.rules),
            bulk=DuckDBBulk(engine, errors, matching),
        )

    return Target(
        url=url,
        engine=engine,
        capabilities=CAPABILITIES,
        errors=errors,
        transactions=DuckDBTransactions(engine, errors, file),
        open_table_roles=table_roles,
        read_result=partial(read_result, real="FLOAT"),
        read_facts=_read_facts,
        # DuckDB's lock on the file is released between transactions.
        run_lock=_DuckDBRunLock(file, kept.keeping),
        status_file=Path(f"{file}.subscriber-status"),
        files=(Path(file), Path(f"{file}.wal")),
        file=Path(file),
    )


def _read_facts(connection: sa.Connection) -> TargetFacts:
    # The dialect reports PostgreSQL 8.0.
    return TargetFacts(version=connection.execute(sa.text("SELECT version()")).scalar_one().removeprefix("v"))


class _DuckDBRunLock(FileRunLock):
    """The run lock of a file; the process that holds it may keep the file open."""

    def __init__(self, file: str, keeping: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(file)
        self._keeping = keeping

    @contextmanager
    def hold(self) -> Iterator[None]:
        """See :meth:`RunLock.hold`."""
        with super().hold(), self._keeping():
            yield


def _quote_every_name(dialect: Any, database: str) -> None:
    """Quote each part of a name separately.

    duckdb-engine treats a name with a dot as ``database.schema``, and quotes only words of a list.
    A schema with the same name as the database is qualified, because DuckDB could take the name for
    either of them.
    """

    class _Preparer(dialect.preparer):  # type: ignore[misc]  # duckdb-engine has no types
        def _requires_quotes(self, _value: str) -> bool:
            return True

        def quote_schema(self, schema: str, force: Any = None) -> str:
            del force  # as in SQLAlchemy
            own = database.partition(".")[0]
            return ".".join(self.quote(name) for name in ([own, schema] if schema.lower() == own.lower() else [schema]))

        format_schema = quote_schema

    dialect.preparer = _Preparer
    dialect.identifier_preparer = _Preparer(dialect)
