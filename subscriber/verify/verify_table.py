"""The comparison and the repair of one table, while the apply is held."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from subscriber.catalog import Subscription, SubscriptionRelation
from subscriber.errors import ApplyError, PublisherNotReady, SubscriberError
from subscriber.lsn import LSN, format_lsn
from subscriber.publication.publishing import Publishing
from subscriber.publisher.copy_plan import table_files
from subscriber.publisher.published_tables import ServerPublications
from subscriber.publisher.snapshot import Snapshot, snapshot_session
from subscriber.settings import Settings
from subscriber.sql.keywords import quote_identifier
from subscriber.targets import Connection, Target
from subscriber.verify.compare_digests import Digests, TableComparer
from subscriber.verify.read_both_sides import RunTasks
from subscriber.verify.repair_table import repair_table
from subscriber.verify.report import DifferingKey, OnProgress, TableVerification, VerifyOptions, VerifyProgress
from subscriber.verify.row_differences import RowDifferences
from subscriber.verify.table_plan import TablePlan, TableSource, plan_table

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A table of a subscription whose apply is held.

    Attributes:
        subscription: the subscription.
        relation: the table.
        publishing: the emulated publications; None if the server evaluates the publications.
        snapshot: the publisher's snapshot, whose LSN the target has reached.
        applied: the subscription's progress.
    """

    subscription: Subscription
    relation: SubscriptionRelation
    publishing: Publishing | None
    snapshot: Snapshot
    applied: LSN


def verify_table(
    target: Target,
    table: HeldTable,
    settings: Settings,
    options: VerifyOptions,
    run_tasks: RunTasks | None,
    on_progress: OnProgress,
    stop: threading.Event,
) -> TableVerification:
    """Compare a table, and repair it if that is asked.

    Args:
        target: the target.
        table: the table.
        settings: the size of a range.
        options: what to compare, and what to do with differences.
        run_tasks: runs the tasks that read a large table; None if this process reads it.
        on_progress: called while rows are read.
        stop: ends the comparison with an error.

    Raises:
        SubscriberError: the table cannot be compared; a table that cannot be repaired is returned
            with its error.
    """
    share = 1.0 if options.sample is None else options.sample
    plan = _plan(target, table, settings, share)
    comparer = TableComparer(target, plan, run_tasks, _counting(table, plan, on_progress), stop)
    with _reading(target) as connection:
        digests = comparer.digests(connection)
        buckets = digests.differing
        rows = comparer.differences(connection, digests) if len(buckets) else None
    found = _found(table, plan, digests, rows, options)
    if not options.repair or not found.differences:
        return found
    try:
        repaired = repair_table(target, table.subscription, table.relation, plan, comparer, buckets, table.applied)
    except (ApplyError, PublisherNotReady) as error:
        if error.transient or error.sqlstate == "40001":
            raise
        return replace(found, error=_not_repaired(table, error).report())
    logger.warning(
        'table "%s" was repaired at %s: rows deleted: %d, updated: %d, inserted: %d',
        plan.local.qualified_name,
        format_lsn(table.snapshot.lsn),
        repaired.deleted,
        repaired.updated,
        repaired.inserted,
    )
    with _reading(target) as connection:
        again = Digests(digests.publisher, comparer.target_sums(connection))
    if len(again.differing):
        return replace(found, error=_still_differs(plan).report())
    return replace(found, repaired=repaired.rows)


def _plan(target: Target, table: HeldTable, settings: Settings, share: float) -> TablePlan:
    subscription = table.subscription
    name = table.relation.schema, table.relation.name
    with snapshot_session(subscription.conninfo, subscription.name, table.snapshot.name) as publisher:
        source = TableSource(
            subscription,
            *name,
            table.publishing or ServerPublications(publisher, subscription.publications),
            table.snapshot.name,
            table_files(publisher, [name], of_snapshot=True).get(name, ()),
        )
        with _reading(target) as connection:
            return plan_table(
                publisher, target, connection, source, partition_bytes=settings.partition_bytes, share=share
            )


@contextmanager
def _reading(target: Target) -> Iterator[Connection]:
    with target.reporting(), target.engine.connect() as connection:
        yield connection


def _counting(table: HeldTable, plan: TablePlan, on_progress: OnProgress) -> _Counter:
    return _Counter(table.relation.qualified_name, plan.estimated_rows, on_progress)


class _Counter:
    """Counts the rows that were read, and reports them."""

    def __init__(self, table: str, estimated_rows: int, on_progress: OnProgress) -> None:
        self._table = table
        self._estimated_rows = estimated_rows
        self._on_progress = on_progress
        self._publisher = self._target = 0
        self._lock = threading.Lock()

    def __call__(self, publisher: int, target: int) -> None:
        with self._lock:
            self._publisher += publisher
            self._target += target
            progress = VerifyProgress(self._table, self._publisher, self._target, self._estimated_rows)
        self._on_progress(progress)


def _found(
    table: HeldTable, plan: TablePlan, digests: Digests, rows: RowDifferences | None, options: VerifyOptions
) -> TableVerification:
    """What was found, for the report."""
    found = TableVerification(
        table.relation.qualified_name,
        plan.local.qualified_name,
        table.snapshot.lsn,
        digests.publisher.rows,
        digests.target.rows,
        notes=plan.notes,
        all_rows=plan.hidden_from is None and not plan.shared_with,
    )
    if rows is None:
        return found
    keys: tuple[DifferingKey, ...] = ()
    if options.show_values:
        kinds = {
            "differing": rows.changed_keys,
            "only_publisher": rows.missing_keys,
            "only_target": rows.unexpected_keys,
        }
        keys = tuple(DifferingKey(kind, key) for kind, some in kinds.items() for key in some)
    return replace(
        found,
        differing=rows.changed,
        only_publisher=rows.missing,
        only_target=rows.unexpected,
        columns=rows.columns,
        keys=keys,
    )


def _not_repaired(table: HeldTable, error: SubscriberError) -> SubscriberError:
    """The error of a repair, which says what to do instead."""
    relation = table.relation
    subscription, schema, name = map(quote_identifier, (table.subscription.name, relation.schema, relation.name))
    again = f"ALTER SUBSCRIPTION {subscription} REFRESH TABLE {schema}.{name};"
    return error.replace(
        context=error.context or f'repair of table "{relation.qualified_name}"',
        hint=error.hint or f"Remove the cause and repair again, or copy the table again: {again}",
    )


def _still_differs(plan: TablePlan) -> ApplyError:
    return ApplyError(
        f'table "{plan.local.qualified_name}" differs again after its repair',
        sqlstate="55000",
        detail="A trigger of the target changes the rows, another session writes to the table, or several rows of the"
        " publisher have the same values in the target's key.",
        hint="Find out which it is, and run `subscriber verify` again.",
        relation=plan.local.qualified_name,
    )
