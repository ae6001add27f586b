"""A target: the roles of one database, put together.

::

    errors ◀── transactions, shapes, writing, loading, sequences     what the driver raises becomes ours
    values ◀── loading                                               a loaded row looks as an applied one does
    prepared, origins, run_lock, cluster                             None where the database has no such thing

A role is a Protocol (:mod:`subscriber.targets.roles`), and a dialect's folder has one file for each
role that it knows better than SQLAlchemy does (:mod:`subscriber.targets.generic`). Roles know each
other only through their constructors.

Rejected: one base class whose methods a dialect overrides. It had 53 methods, of which most
dialects needed a few; what a database cannot do was said three times, by a flag, by a method that
does nothing, and by one that raises.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import sqlalchemy as sa

from subscriber.targets.capabilities import Capabilities
from subscriber.targets.query_result import QueryResult
from subscriber.targets.roles.cluster import Cluster
from subscriber.targets.roles.ddl import DDL
from subscriber.targets.roles.errors import Errors
from subscriber.targets.roles.loading import Loading
from subscriber.targets.roles.matching import Matching
from subscriber.targets.roles.origins import Origins
from subscriber.targets.roles.prepared import Prepared
from subscriber.targets.roles.row_versions import RowVersions
from subscriber.targets.roles.run_lock import RunLock
from subscriber.targets.roles.sequences import Sequences
from subscriber.targets.roles.shapes import Shapes
from subscriber.targets.roles.transactions import Transactions
from subscriber.targets.roles.values import Values
from subscriber.targets.roles.writing import Writing


@dataclass(eq=False, repr=False, kw_only=True)
class Target:
    """A database that rows are replicated into.

    Attributes:
        url: where it is; its string form hides the password.
        engine: the SQLAlchemy engine; write through :meth:`begin` only.
        capabilities: facts about this kind of database.
        errors: and all that follow: see the class of each in :mod:`subscriber.targets.roles`.
        status_file: where a run leaves its status while a batch keeps everybody else out; None
            where the target can be read meanwhile.
        is_throwaway: it was made for a while, and nobody asks whether what it has survives a power
            failure.
    """

    url: sa.URL
    engine: sa.Engine
    capabilities: Capabilities
    errors: Errors
    transactions: Transactions
    shapes: Shapes
    values: Values
    matching: Matching
    writing: Writing
    loading: Loading
    ddl: DDL
    sequences: Sequences
    row_versions: RowVersions
    prepared: Prepared | None = None
    origins: Origins | None = None
    run_lock: RunLock | None = None
    cluster: Cluster | None = None
    status_file: Path | None = None
    is_throwaway: bool = False

    def begin(self) -> AbstractContextManager[sa.Connection]:
        """See :meth:`Transactions.begin`, which this is."""
        return self.transactions.begin()

    def reporting(self) -> AbstractContextManager[None]:
        """See :meth:`Errors.reporting`, which this is."""
        return self.errors.reporting()

    def running(self) -> AbstractContextManager[None]:
        """Hold the run lock while the block runs, where the target has one.

        Raises:
            AlreadyRunning: another runner holds it.
        """
        return nullcontext() if self.run_lock is None else self.run_lock.hold()

    def query(self, sql: str) -> QueryResult:
        """The answer to a query in the target's own SQL, as text; what the query changes is rolled
        back.

        Raises:
            SubscriberError: as :meth:`Errors.translate` words it.
        """
        with self.reporting(), self.engine.connect() as connection, self.transactions.interruptible(connection):
            # Without parameters no driver takes a percent sign for one.
            result = connection.execution_options(no_parameters=True).exec_driver_sql(sql)
            return self.values.read_result(result)

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
