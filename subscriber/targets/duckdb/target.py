"""DuckDB as a target: one file and one process, which may have several connections to the file.

- *Processes.* A process that has the file open prevents all others from opening it. Therefore a
  connection is opened for one transaction and closed after it, which costs about twenty
  milliseconds; while transactions follow each other closely, ``subscriber run`` keeps the file open
  (:mod:`subscriber.targets.duckdb.transactions`). If another process has the file open, opening is
  tried again (:mod:`subscriber.targets.duckdb.connection`).
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

With current versions, duckdb-engine does not reflect columns and keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from typing_extensions import override

from subscriber.base.errors import UsageError
from subscriber.targets.base.target import base_roles
from subscriber.targets.capabilities import Capabilities, TargetFacts
from subscriber.targets.database_files import FileRunLock
from subscriber.targets.duckdb.errors import DuckDBErrors, is_interruption
from subscriber.targets.duckdb.transactions import DuckDBTransactions
from subscriber.targets.query_result import read_result
from subscriber.targets.target import TableRoles, Target

CAPABILITIES: Final = Capabilities(
    database="DuckDB",
    multi_rowcount=True,
    stored_columns=False,
    transactional_ddl=True,
    savepoints=False,
    table_case=False,
)


def open_duckdb(url: sa.URL) -> Target:
    from subscriber.targets.duckdb.connection import (
        COMMAND_PATIENCE,
        RUN_PATIENCE,
        Checkpoints,
        open_file,
        somebody_waits,
    )
    from subscriber.targets.duckdb.transactions import FileConnections

    if url.database in (None, "", ":memory:") or str(url.database).startswith(":memory:"):
        raise UsageError(
            "an in-memory DuckDB database cannot be a target",
            hint="Name a file: duckdb:////absolute/path.duckdb or duckdb:///relative/path.duckdb.",
        )
    engine = sa.create_engine(url, paramstyle="qmark", poolclass=sa.NullPool, hide_parameters=True)
    _quote_every_name(engine.dialect, Path(str(url.database)).name)

    file = str(url.database)
    checkpoints = Checkpoints(file)
    kept = FileConnections(checkpoints.before_close, partial(somebody_waits, file))

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
        attempt, patience = (
            partial(dialect.connect, *arguments, **options),
            RUN_PATIENCE if kept.keeps else COMMAND_PATIENCE,
        )
        open_again = partial(open_file, file, attempt, patience, says_so=not kept.keeps)
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
        from subscriber.targets.duckdb import catalog, ddl, objects, writing
        from subscriber.targets.duckdb.values import DuckDBValues

        values, matching, write = DuckDBValues(), writing.DuckDBMatching(), writing.DuckDBWriting(errors)
        new_tables = ddl.DuckDBDDL(engine)
        return base_roles(
            engine,
            errors,
            values,
            shapes=catalog.DuckDBShapes(errors),
            matching=matching,
            writing=write,
            loading=writing.DuckDBLoading(engine, errors, values, write),
            reader=catalog.DuckDBTableReader(engine, errors, values),
            ddl=new_tables,
            sequences=catalog.DuckDBSequences(errors),
            objects=objects.DuckDBObjects(engine, errors, new_tables.rules),
            bulk=writing.DuckDBBulk(engine, errors, values, matching),
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

    @override
    @contextmanager
    def hold(self) -> Iterator[None]:
        with super().hold(), self._keeping():
            yield


def _quote_every_name(dialect: Any, database: str) -> None:
    """duckdb-engine treats a name with a dot as ``database.schema``, and quotes only words of a
    list. DuckDB could take the schema with the database's name for the database.
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
