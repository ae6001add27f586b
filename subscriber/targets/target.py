"""A target: a SQLAlchemy engine and the roles of one database (:mod:`subscriber.targets.base`).

The roles that read and write tables of rows need Arrow, PostgreSQL's types and a parser of default
expressions. Importing them takes longer than a command that only reads the catalog or runs a query
(``subscriber status``). So a dialect passes a function, ``open_table_roles``, that imports and
creates them when one is first used.

*Rejected:* one base class for a whole target. It had 53 methods, of which most dialects needed a
few. *Rejected:* a role that is a proxy and imports its module when a method is called. Each role
would need one, they know each other, and a proxy is not the role that it stands for.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from subscriber.base.errors import Stopped
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.transactions import (
    Cluster,
    Origins,
    Prepared,
    RunLock,
    StatementPipeline,
    Transactions,
)
from subscriber.targets.capabilities import Capabilities, TargetFacts, read_version
from subscriber.targets.query_result import QueryResult, read_result

if TYPE_CHECKING:
    from subscriber.targets.base.catalog import RowVersions, Sequences, Shapes, TableReader
    from subscriber.targets.base.ddl import DDL
    from subscriber.targets.base.loading import Bulk, Loading
    from subscriber.targets.base.objects import Objects
    from subscriber.targets.base.values import Values
    from subscriber.targets.base.writing import DeletedRows, Matching, Writing


@dataclass(frozen=True, kw_only=True)
class TableRoles:
    """The roles that read and write tables of rows; see the class of each role."""

    shapes: Shapes
    values: Values
    matching: Matching
    writing: Writing
    loading: Loading
    reader: TableReader
    ddl: DDL
    sequences: Sequences
    row_versions: RowVersions
    objects: Objects
    bulk: Bulk | None = None
    deleted_rows: DeletedRows | None = None


_OPENING = threading.RLock()  # threads of one target must get the same roles


@dataclass(eq=False, repr=False, kw_only=True)
class Target:
    """A database that changes are written to.

    Attributes:
        url: its string form hides the password.
        engine: write only in transactions of :meth:`begin`.
        errors: this and the following attributes are the target roles; see the class of each role
            in :mod:`subscriber.targets.base`.
        open_table_roles: imports and creates the roles from ``shapes`` on, which are not passed.
        read_result: reads all rows of a result as text.
        read_facts: reads the server's version and limits, for the check of a migration.
        file: the database's file; None for a server.
        status_file: the file in which a run stores its status while a batch prevents other
            processes from reading the target; None if the target can be read at any time.
        files: the files of which one changes with every commit; none if that is not known, or if a
            query costs no more than a look at them.
        is_throwaway: the target is temporary, so its commits need not survive a power failure.
    """

    url: sa.URL
    engine: sa.Engine
    capabilities: Capabilities
    errors: Errors
    transactions: Transactions
    open_table_roles: Callable[[], TableRoles]
    read_result: Callable[[sa.CursorResult[Any]], QueryResult] = read_result
    read_facts: Callable[[sa.Connection], TargetFacts] = read_version
    file: Path | None = None
    statement_pipeline: StatementPipeline | None = None
    prepared: Prepared | None = None
    origins: Origins | None = None
    run_lock: RunLock | None = None
    cluster: Cluster | None = None
    status_file: Path | None = None
    files: tuple[Path, ...] = ()
    is_throwaway: bool = False

    shapes: Shapes = field(init=False)
    values: Values = field(init=False)
    matching: Matching = field(init=False)
    writing: Writing = field(init=False)
    loading: Loading = field(init=False)
    reader: TableReader = field(init=False)
    ddl: DDL = field(init=False)
    sequences: Sequences = field(init=False)
    row_versions: RowVersions = field(init=False)
    objects: Objects = field(init=False)
    bulk: Bulk | None = field(init=False)
    deleted_rows: DeletedRows | None = field(init=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The first use of a table role creates all those that are not set."""
            if name not in TableRoles.__dataclass_fields__:
                raise AttributeError(f"a target has no attribute {name!r}")
            with _OPENING:
                attributes = vars(self)
                if name not in attributes:
                    attributes.update(vars(self.open_table_roles()) | attributes)
            return attributes[name]

    def begin(self) -> AbstractContextManager[sa.Connection]:
        return self.transactions.begin()

    def reporting(self) -> AbstractContextManager[None]:
        return self.errors.reporting()

    def running(self) -> AbstractContextManager[None]:
        """Hold the run lock, if there is one; AlreadyRunning if another run holds it."""
        return nullcontext() if self.run_lock is None else self.run_lock.hold()

    def query(self, sql: str) -> QueryResult:
        """The result of a query in the target's own SQL; its changes are rolled back."""
        with self.reporting(), self.engine.connect() as connection, self.transactions.interruptible(connection):
            # Without parameters, no driver interprets a percent sign as a parameter.
            result = connection.execution_options(no_parameters=True).exec_driver_sql(sql)
            return self.read_result(result)

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Interruption:
    """Stops the work that another thread does in a target, between two statements or during one.

    ::

        thread that requests the stop        thread that works
        stop.set()     ──── flag ──────────▶ check() between statements raises Stopped
        interrupt()    ──── Transactions.interrupt ─▶ the running statement ends with an error
        interrupt()    …                     the transaction is rolled back without interruption

    The flag alone has no effect while a statement waits for a lock, and an interrupt alone may
    arrive between two statements. So the caller repeats :meth:`interrupt` until the work has ended.
    COMMIT and ROLLBACK are never interrupted: a lock ensures that an interrupt does not reach a
    connection that has already been released.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._connections: list[sa.Connection] = []

    def interrupt(self) -> None:
        with self._lock:
            for connection in self._connections:
                self._target.transactions.interrupt(connection)

    def check(self) -> None:
        """Raise Stopped if a stop has been requested."""
        if self.stop.is_set():
            raise Stopped("the work was stopped")

    @contextlib.contextmanager
    def of(self, connection: sa.Connection) -> Iterator[None]:
        """Allow interrupts while the block runs. Stopped replaces the error of a statement."""
        with self._lock:
            self._connections.append(connection)
        try:
            self.check()
            yield
        except Exception:
            self.check()
            raise
        finally:
            with self._lock:
                self._connections.remove(connection)


def exit_quietly() -> None:
    """Hide what DuckDB prints at exit: a hundred lines about objects of Spark's daemon threads."""
    if "duckdb" in sys.modules:
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
