"""The comparison and the repair of tables, one after the other, while the apply is held."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from subscriber.base.errors import (
    ApplyError,
    NotSupportedError,
    PublisherNotReady,
    SubscriberError,
    TargetRelationError,
)
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import Subscription, list_subscriptions
from subscriber.catalog.table_states import SubscriptionRelation, relations_of
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.schema.published_table import Publications
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher.copy_plan import TableFiles, table_files
from subscriber.publisher.server_publications import PublicationsInSnapshot
from subscriber.publisher.snapshot import Snapshot, SnapshotSession
from subscriber.targets import Connection, Target, TargetTable
from subscriber.verify.compare_tables import TableComparer
from subscriber.verify.read_both_sides import RunTasks
from subscriber.verify.repair_table import repair_table
from subscriber.verify.report import DifferingKey, OnProgress, TableVerification, VerifyOptions, VerifyProgress
from subscriber.verify.row_differences import DifferingRows, RowDifferences
from subscriber.verify.table_plan import TablePlan, TableSource, plan_table

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedTables:
    """Tables whose apply is held at ``applied``, up to the LSN of ``snapshot``. ``files`` are
    theirs in the snapshot, ``local`` the target's by name, ``shared_with`` other subscriptions that
    write to them.
    """

    subscription: Subscription
    snapshot: Snapshot
    applied: LSN
    session: SnapshotSession
    publications: Publications
    files: Mapping[tuple[str, str], TableFiles]
    local: Mapping[tuple[str, str], TargetTable]
    shared_with: Mapping[tuple[str, str], tuple[str, ...]]


@contextmanager
def held_tables(
    target: Target,
    subscription: Subscription,
    relations: Sequence[SubscriptionRelation],
    publishing: Publishing | None,
    snapshot: Snapshot,
    applied: LSN,
) -> Iterator[PausedTables]:
    """Read what is known of all tables of a hold, with one query a kind."""
    keys = [(one.schema, one.name) for one in relations]
    places = [subscription.options.map.in_target(*key) for key in keys]
    # Queries of a publication find all its tables, so they are read for all tables at once.
    with SnapshotSession(subscription.conninfo, subscription.name, snapshot.name) as session:
        with session.transaction() as publisher:
            files = table_files(publisher, keys, of_snapshot=True)
            publications = publishing or PublicationsInSnapshot.read(publisher, subscription.publications)
        with _target_connection(target) as connection:
            try:
                local = target.shapes.reflect_all(connection, places)
            except TargetRelationError:
                local = {}  # the error of a table is told when it is compared
            shared_with = _shared_with(connection, subscription)
        yield PausedTables(
            subscription=subscription,
            snapshot=snapshot,
            applied=applied,
            session=session,
            publications=publications,
            files=files,
            local=local,
            shared_with=shared_with,
        )


def _shared_with(connection: Connection, subscription: Subscription) -> dict[tuple[str, str], tuple[str, ...]]:
    """The other subscriptions of the target that write to its tables."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for other in list_subscriptions(connection):
        if other.subid != subscription.subid:
            for one in relations_of(connection, other.subid):
                place = other.options.map.in_target(one.schema, one.name)
                found[place] = (*found.get(place, ()), f'subscription "{other.name}"')
    return found


def verify_table(
    target: Target,
    held: PausedTables,
    relation: SubscriptionRelation,
    settings: Settings,
    options: VerifyOptions,
    run_tasks: RunTasks | None,
    on_progress: OnProgress,
    stop: threading.Event,
) -> TableVerification:
    """Compare and repair a table; one that cannot be repaired is returned with its error."""
    share = 1.0 if options.sample is None else options.sample
    plan = _plan(target, held, relation, settings, share)
    on_rows = _Counter(relation.qualified_name, plan.estimated_rows, on_progress)
    comparer = TableComparer(target, plan, run_tasks, on_rows, stop, held.session)
    with closing(DifferingRows(plan.names, plan.side.key, values=options.repair)) as rows:
        with _target_connection(target) as connection:
            differences = comparer.compare(connection, rows)
        found = _found(held, relation, plan, differences, options)
        if not options.repair or not found.differences:
            return found
        if plan.has_history:
            return replace(found, error=_history_is_not_repaired(held, relation).report())
        try:
            repaired = repair_table(target, held.subscription, relation, plan, rows, held.applied)
        except (ApplyError, PublisherNotReady) as error:
            if error.transient or error.sqlstate == "40001":
                raise
            return replace(found, error=_not_repaired(held, relation, error).report())
    logger.warning(
        'table "%s" was repaired at %s: rows deleted: %d, updated: %d, inserted: %d',
        plan.local.qualified_name,
        format_lsn(held.snapshot.lsn),
        repaired.deleted,
        repaired.updated,
        repaired.inserted,
    )
    with _target_connection(target) as connection:
        repaired_well = comparer.is_equal_now(connection)
    if not repaired_well:
        return replace(found, error=_still_differs(plan).report())
    return replace(found, repaired=repaired.rows)


def _plan(
    target: Target, held: PausedTables, relation: SubscriptionRelation, settings: Settings, share: float
) -> TablePlan:
    name = relation.schema, relation.name
    place = held.subscription.options.map.in_target(*name)
    source = TableSource(
        *name,
        held.publications,
        held.snapshot.name,
        held.files.get(name, ()),
        held.subscription.conninfo,
        held.subscription.name,
        held.subscription.options,
        held.local.get(place),
        held.shared_with.get(place, ()),
    )
    with held.session.transaction() as publisher, _target_connection(target) as connection:
        return plan_table(publisher, target, connection, source, partition_bytes=settings.partition_bytes, share=share)


@contextmanager
def _target_connection(target: Target) -> Iterator[Connection]:
    with target.reporting(), target.engine.connect() as connection:
        yield connection


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
    held: PausedTables,
    relation: SubscriptionRelation,
    plan: TablePlan,
    rows: RowDifferences,
    options: VerifyOptions,
) -> TableVerification:
    kinds = {
        "differing": rows.changed_keys,
        "only_publisher": rows.missing_keys,
        "only_target": rows.unexpected_keys,
    }
    return TableVerification(
        relation.qualified_name,
        plan.local.qualified_name,
        held.snapshot.lsn,
        rows.publisher_rows,
        rows.target_rows,
        rows.changed,
        rows.missing,
        rows.unexpected,
        rows.columns,
        tuple(DifferingKey(kind, key) for kind, keys in kinds.items() for key in keys) if options.show_values else (),
        plan.notes,
        all_rows=plan.hidden_from is None and not plan.shared_with,
    )


def _not_repaired(held: PausedTables, relation: SubscriptionRelation, error: SubscriberError) -> SubscriberError:
    """The error of a repair, which says what to do instead."""
    subscription, schema, name = map(quote_identifier, (held.subscription.name, relation.schema, relation.name))
    again = f"ALTER SUBSCRIPTION {subscription} REFRESH TABLE {schema}.{name};"
    return error.replace(
        context=error.context or f'repair of table "{relation.qualified_name}"',
        hint=error.hint or f"Remove the cause and repair again, or copy the table again: {again}",
    )


def _history_is_not_repaired(held: PausedTables, relation: SubscriptionRelation) -> NotSupportedError:
    subscription, schema, name = map(quote_identifier, (held.subscription.name, relation.schema, relation.name))
    return NotSupportedError(
        f'table "{relation.qualified_name}" has a history, which is not repaired',
        detail="A repair is no change of the publisher, so it has no LSN that its rows could have.",
        hint=f"Copy the table again, which ends all earlier rows: ALTER SUBSCRIPTION {subscription} REFRESH TABLE {schema}.{name};",
        relation=relation.qualified_name,
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
