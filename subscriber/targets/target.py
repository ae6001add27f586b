"""A target: a SQLAlchemy engine and the target roles of one database.

::

    errors ◀── transactions, shapes, writing,   translate the driver's errors
               loading, sequences
    values ◀── loading                          a loaded row is equal to an applied row
    matching ◀── bulk                           many rows are found as one row is found
    bulk, pipeline, prepared, origins,          None if the database has no such feature
    run_lock, cluster

A role is a Protocol (:mod:`subscriber.targets.roles`). A dialect's folder has one file for each
role that needs more than what SQLAlchemy knows (:mod:`subscriber.targets.generic`). A role receives
the other roles that it uses through its constructor, and only there.

*Rejected:* one base class whose methods a dialect overrides. It had 53 methods, of which most
dialects needed a few. What a database cannot do was expressed in three ways: by a flag, by a method
that does nothing, and by a method that raises.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from subscriber.targets.capabilities import Capabilities
from subscriber.targets.query_result import QueryResult, read_result
from subscriber.targets.roles.cluster import Cluster
from subscriber.targets.roles.ddl import DDL
from subscriber.targets.roles.errors import Errors
from subscriber.targets.roles.loading import Loading
from subscriber.targets.roles.matching import Matching
from subscriber.targets.roles.objects import Objects
from subscriber.targets.roles.origins import Origins
from subscriber.targets.roles.pipeline import Pipeline
from subscriber.targets.roles.prepared import Prepared
from subscriber.targets.roles.reading import Reading
from subscriber.targets.roles.row_versions import RowVersions
from subscriber.targets.roles.run_lock import RunLock
from subscriber.targets.roles.sequences import Sequences
from subscriber.targets.roles.shapes import Shapes
from subscriber.targets.roles.transactions import Transactions
from subscriber.targets.roles.values import Values
from subscriber.targets.roles.writing import Writing
from subscriber.targets.server_facts import TargetFacts, read_version
from subscriber.targets.table_roles import TableRole, TableRoles

if TYPE_CHECKING:
    from subscriber.targets.roles.bulk import Bulk  # noqa: F401  # its module imports Arrow; used in a string below


@dataclass(eq=False, repr=False, kw_only=True)
class Target:
    """A database that changes are written to.

    Attributes:
        url: the database's URL; its string form hides the password.
        engine: the SQLAlchemy engine; write only in transactions of :meth:`begin`.
        capabilities: facts about this kind of database.
        errors: this and the following attributes are the target roles; see the class of each role
            in :mod:`subscriber.targets.roles`.
        open_table_roles: imports and creates the roles from ``shapes`` to ``bulk``, which are not
            passed; see :mod:`subscriber.targets.table_roles`.
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
    pipeline: Pipeline | None = None
    prepared: Prepared | None = None
    origins: Origins | None = None
    run_lock: RunLock | None = None
    cluster: Cluster | None = None
    status_file: Path | None = None
    files: tuple[Path, ...] = ()
    is_throwaway: bool = False

    shapes = TableRole[Shapes]()
    values = TableRole[Values]()
    matching = TableRole[Matching]()
    writing = TableRole[Writing]()
    loading = TableRole[Loading]()
    reading = TableRole[Reading]()
    ddl = TableRole[DDL]()
    sequences = TableRole[Sequences]()
    row_versions = TableRole[RowVersions]()
    objects = TableRole[Objects]()
    bulk = TableRole["Bulk | None"]()

    def begin(self) -> AbstractContextManager[sa.Connection]:
        """Begin a write transaction; see :meth:`Transactions.begin`."""
        return self.transactions.begin()

    def reporting(self) -> AbstractContextManager[None]:
        """Translate the driver's errors in a block; see :meth:`Errors.reporting`."""
        return self.errors.reporting()

    def running(self) -> AbstractContextManager[None]:
        """Hold the run lock while the block runs, if the target has a run lock.

        Raises:
            AlreadyRunning: another run holds the run lock.
        """
        return nullcontext() if self.run_lock is None else self.run_lock.hold()

    def query(self, sql: str) -> QueryResult:
        """The result of a query in the target's own SQL, as text; changes of the query are rolled
        back.

        Raises:
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        with self.reporting(), self.engine.connect() as connection, self.transactions.interruptible(connection):
            # Without parameters, no driver interprets a percent sign as a parameter.
            result = connection.execution_options(no_parameters=True).exec_driver_sql(sql)
            return self.read_result(result)

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
