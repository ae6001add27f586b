"""The comparison of tables by digests, and row by row where they differ.

::

    publisher ──▶ sums ─┐
                        ├─▶ buckets that differ ──▶ both sides again, only their rows ──▶ row_differences
    target ─────▶ sums ─┘

The rows of buckets that differ are usually few, and tasks read them as they read the sums. If they
are many or large, they are streamed.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from subscriber.base.errors import Stopped
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.copy_plan import table_files
from subscriber.publisher.server_publications import ServerPublications
from subscriber.publisher.snapshot import SnapshotSession
from subscriber.targets import Target
from subscriber.verify.read_both_sides import BothSides, OnRows, RunTasks, SideReader
from subscriber.verify.report import KEYS_SHOWN
from subscriber.verify.row_differences import DifferingRows, Key, RowDifferences, in_order
from subscriber.verify.row_digests import BucketRows, BucketSums, ComparedRow
from subscriber.verify.table_plan import ACTIONS, TablePlan, TableSource, plan_table
from subscriber.verify.table_sides import TargetSide

LARGE_BYTES: Final = 256 * 1024 * 1024
"""From this size on, Spark tasks read a table, in a hold of its own."""

HELD_ROWS: Final = 100_000
"""The number of rows of buckets that differ, of both sides together, that are held in memory."""

_HELD_CHARACTERS: Final = 32 * 1024 * 1024
"""The number of characters of these rows that are held of each side."""

_NAME: Final = "subscriber compare"


class TableComparer:
    def __init__(
        self,
        target: Target,
        plan: TablePlan,
        run_tasks: RunTasks | None,
        on_rows: OnRows,
        stop: threading.Event,
        session: SnapshotSession | None = None,
    ) -> None:
        self._target = target
        self._plan = plan
        self._sides = SideReader(target, plan, run_tasks, on_rows, stop, session)
        # The rows of both sides are counted once.
        self._sides_again = SideReader(target, plan, run_tasks, lambda _publisher, _target: None, stop, session)
        self._stop = stop
        self._sums: BothSides[BucketSums] = BothSides(BucketSums(plan.side.choice))

    def compare(self, connection: sa.Connection, left: DifferingRows) -> RowDifferences:
        """Compare the sums of both sides, and one by one the rows of the buckets that differ."""
        self._sums = self._sides.read(connection, BucketSums(self._plan.side.choice))
        publisher, target = self._sums.publisher, self._sums.target
        buckets = publisher.differing(target)
        if len(buckets):
            read = None
            if publisher.rows_in(buckets) + target.rows_in(buckets) <= HELD_ROWS:
                rows = BucketRows(self._plan.side.choice, buckets, _HELD_CHARACTERS)
                read = self._sides_again.read(connection, rows)
            with self._target.reporting():
                if read is not None and read.publisher.is_complete and read.target.is_complete:
                    left.add(read.publisher.rows, read.target.rows)
                else:
                    left.add(
                        self._publisher_rows(buckets), self._target_rows(connection, self._sides.target_side, buckets)
                    )
                    if self._sides.removed_side is not None:
                        left.add(self._target_rows(connection, self._sides.removed_side, buckets), ())
        removed = self._sums.removed.rows
        return left.differences(publisher.rows - removed, target.rows - removed, most_keys=KEYS_SHOWN)

    def is_equal_now(self, connection: sa.Connection) -> bool:
        """Whether the target, which is read again, has the publisher's rows that were compared."""
        target = self._sides.read_target(connection, BucketSums(self._plan.side.choice))
        return not len(self._sums.publisher.differing(target))

    def _publisher_rows(self, buckets: NDArray[np.int64]) -> Iterator[ComparedRow]:
        side = self._plan.side
        for part in self._plan.ranges:
            for batch in side.batches(part, self._stop):
                self._check()
                yield from batch.rows_of(side.choice, buckets)

    def _target_rows(
        self, connection: sa.Connection, side: TargetSide, buckets: NDArray[np.int64]
    ) -> Iterator[ComparedRow]:
        for batch in side.batches(self._target, connection):
            self._check()
            yield from batch.rows_of(self._plan.side.choice, buckets)

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped("the comparison was stopped")


@dataclass(frozen=True, slots=True)
class TableComparison:
    table: PublishedTable
    rows: RowDifferences

    @property
    def is_equal(self) -> bool:
        return self.rows.is_equal

    @property
    def keys(self) -> tuple[Key, ...]:
        """The first keys of all rows that differ; empty for a table without a key."""
        keys = (*self.rows.missing_keys, *self.rows.unexpected_keys, *self.rows.changed_keys)
        return tuple(heapq.nsmallest(KEYS_SHOWN, keys, key=in_order))

    def __str__(self) -> str:
        rows = self.rows
        text = (
            f'table "{self.table.qualified_name}": {rows.publisher_rows} rows at the publisher, {rows.target_rows} in the target; '
            f"{rows.missing} missing, {rows.unexpected} unexpected, {rows.changed} changed"
        )
        if rows.columns:
            text += f" (in {', '.join(rows.columns)})"
        if self.keys:
            text += f"; keys {', '.join('(' + ', '.join(map(str, key)) + ')' for key in self.keys)}"
        return text


def published_tables(conninfo: str, publications: Sequence[str]) -> list[PublishedTable]:
    """The tables of publications, with the columns and row filters of each, to compare."""
    with connect_publisher(conninfo, _NAME) as publisher:
        return ServerPublications(publisher, publications).published_tables()


@dataclass(frozen=True, slots=True)
class _GivenTables(ServerPublications):
    """Publications that publish tables as they are given."""

    tables: Mapping[tuple[str, str], PublishedTable] = field(default_factory=dict)

    def published_table(self, schema: str, name: str) -> PublishedTable:
        return self.tables[schema, name]

    def published_actions(self, schema: str, name: str) -> frozenset[str]:
        del schema, name
        return frozenset(ACTIONS)


def compare_tables(conninfo: str, target: Target, tables: Iterable[PublishedTable]) -> list[TableComparison]:
    """Compare tables of the same names, without a subscription. The target must have caught up, and
    neither side may be written meanwhile.
    """
    given = {table.key: table for table in tables}
    found = []
    with connect_publisher(conninfo, _NAME) as publisher:
        files = table_files(publisher, list(given))
        publications = _GivenTables(publisher, (), given)
        with publisher.transaction():
            publisher.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            ((snapshot,),) = publisher.execute("SELECT pg_export_snapshot()").fetchall()
            with (
                SnapshotSession(conninfo, _NAME, snapshot) as session,
                target.reporting(),
                target.engine.connect() as connection,
            ):
                for table in given.values():
                    source = TableSource(*table.key, publications, snapshot, files.get(table.key, ()), conninfo, _NAME)
                    with session.transaction() as publisher_connection:
                        plan = plan_table(publisher_connection, target, connection, source)
                    comparer = TableComparer(target, plan, None, lambda *_: None, threading.Event(), session)
                    with closing(DifferingRows(plan.names, plan.side.key)) as left:
                        found.append(TableComparison(table, comparer.compare(connection, left)))
    return found
