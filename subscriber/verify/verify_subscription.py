"""Whether publisher and target have the same rows at one LSN, while both are being written.

::

    tables of the subscription ──▶ batches: the small ones together, each large one alone
      each batch:  hold_apply ──▶ publisher's snapshot and target are at one LSN
                     each table:  plan ──▶ digests of both sides ──▶ rows of the buckets that differ ──▶ repair, digests again
                   check() ──▶ the hold has lasted: what was read is proven

While the apply is held, changes wait in the journal. So a hold lasts no longer than one large
table, or some small ones, are read, and different batches are read at different LSNs. A table that
a command takes out of state r meanwhile is neither compared nor repaired: its copy has other rows
than the snapshot.

If the hold is lost, a table is rewritten or the publisher does not answer, the rest of the batch is
compared again, differences included: up to :data:`ATTEMPTS` times after a lost hold, and up to
:data:`TABLE_ATTEMPTS` times in all. *Rejected:* a lock that keeps a table from being
rewritten. TRUNCATE would wait for it, and each new session that reads the table would wait for
TRUNCATE, among them those of this comparison.
"""

from __future__ import annotations

import logging
import os
import shlex
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from subscriber.base.errors import ProgressConflict, SubscriberError, UsageError
from subscriber.base.lsn import LSN
from subscriber.base.progress_lines import progress
from subscriber.base.settings import Settings, default_journal
from subscriber.catalog.existing_catalog import existing_subscription
from subscriber.catalog.schema_changes import resolve_differences, schema_changes_of
from subscriber.catalog.stored_publishing import read_publishing
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import RelationState, SubscriptionRelation, relations_of
from subscriber.commands.check_publications import read_unknown, refresh_command
from subscriber.commands.hold_apply import hold_apply
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.copy_plan import table_files
from subscriber.publisher.snapshot import Snapshot, snapshot_session
from subscriber.publisher.table_checks import read_parents
from subscriber.targets import Target
from subscriber.verify.compare_tables import LARGE_BYTES
from subscriber.verify.read_both_sides import RunTasks
from subscriber.verify.report import OnProgress, TableVerification, VerifyOptions, VerifyReport
from subscriber.verify.verify_table import held_tables, verify_table

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""How often a batch is compared, if the hold is lost before it is proven."""

TABLE_ATTEMPTS: Final = 10
"""How often a table is compared, if it cannot be read. The next attempt has a new snapshot and only
the tables that are left, so one that is often truncated is read soon after its snapshot.
"""

_BATCH_BYTES: Final = 512 * 1024 * 1024
"""The size of the small tables that are compared in one hold."""


class PausedApply(Protocol):
    """A subscription whose apply is held, such as
    :class:`~subscriber.commands.hold_apply.RequestedPause`.
    """

    @property
    def lsn(self) -> LSN:
        """The LSN at which the target is."""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the publisher at this LSN."""

    def check(self) -> None:
        """Raise an error if the hold was lost."""


class PauseApply(Protocol):
    """Holds the apply of a subscription; see :func:`subscriber.commands.hold_apply.hold_apply`."""

    def __call__(
        self, target: Target, subscription: Subscription, settings: Settings, *, seconds: float | None = None
    ) -> AbstractContextManager[PausedApply]: ...


@dataclass(frozen=True, slots=True)
class _Table:
    """A table to compare, with its size in bytes on the publisher's disk."""

    relation: SubscriptionRelation
    bytes: int

    @property
    def key(self) -> tuple[str, str]:
        return self.relation.schema, self.relation.name


def verify_subscription(
    target: Target,
    name: str,
    settings: Settings,
    options: VerifyOptions | None = None,
    on_progress: OnProgress | None = None,
    *,
    hold: PauseApply = hold_apply,
    stop: threading.Event | None = None,
) -> VerifyReport:
    """Compare, and repair if asked. ``on_progress`` is called from several threads. UsageError: no
    such subscription (42704) or table (42P01), a bad sample (22023), or the apply cannot be held.
    """
    options = options or VerifyOptions()
    if options.sample is not None and not 0 < options.sample <= 1:
        raise UsageError("the sample must be more than 0% and at most 100%", sqlstate="22023")
    subscription, relations = _relations(target, name, options.tables)
    found: dict[tuple[str, str], TableVerification] = {
        (one.schema, one.name): _not_ready(subscription, one, one.state)
        for one in relations
        if one.state is not RelationState.READY
    }
    ready = [one for one in relations if one.state is RelationState.READY]
    verifier = _Verifier(
        target,
        subscription,
        settings,
        options,
        on_progress or (lambda _progress: None),
        hold,
        stop or threading.Event(),
    )
    with verifier:
        for batch in _batches(verifier.sizes(ready)):
            found.update(verifier.compare(batch))
    _list_parents(target, subscription, found, options)
    compared = tuple(found[one.schema, one.name] for one in relations)
    notes = () if options.tables else _unknown_tables(target, subscription, relations)
    return VerifyReport(name, compared, options.sample, notes)


def _list_parents(
    target: Target,
    subscription: Subscription,
    found: dict[tuple[str, str], TableVerification],
    options: VerifyOptions,
) -> None:
    """Tables with children that only the publisher has: queries there return more rows."""
    with target.reporting(), target.engine.connect() as connection:
        relations = relations_of(connection, subscription.subid)
    with connect_publisher(subscription.conninfo, subscription.name) as publisher:
        tables = [PublishedTable(one.schema, one.name) for one in relations]
        parents = read_parents(publisher, tables, count=bool(options.tables))
    names = subscription.options.map
    parents = [one for one in parents if (one.schema, one.name) in found and not one.partitioned]
    if not parents:
        return
    with target.reporting(), target.engine.connect() as connection:
        places = {names.in_target(*child) for one in parents for child in one.children}
        local = target.shapes.reflect_all(connection, sorted(places))
        known = zip(local, target.objects.find(connection, list(local.values())), strict=True)
        inheriting = {place for place, objects in known if objects.parents}
    for one in parents:
        compared = found[one.schema, one.name]
        children = [found[key] for key in one.children if key in found and found[key].lsn is not None]
        parent = one
        if options.sample is None and len(children) == len(one.children):
            parent = replace(one, rows=sum(child.publisher_rows for child in children), counted=True)
        if parent.rows and not all(names.in_target(*child) in inheriting for child in one.children):
            note = (
                f"only the table's own rows were compared, {compared.publisher_rows:,} at the publisher: a query of it there"
                f" also returns {parent.rows_shown} of tables that inherit from it ({parent.children_shown}), and in the"
                " target it does not, because they do not inherit from it there"
            )
            found[one.schema, one.name] = replace(compared, notes=(*compared.notes, note))


def _unknown_tables(
    target: Target, subscription: Subscription, relations: Sequence[SubscriptionRelation]
) -> tuple[str, ...]:
    unknown = read_unknown(target, subscription, [(one.schema, one.name) for one in relations])
    return tuple(
        f"table {name} is published, but the subscription does not have it: {refresh_command(subscription.name)}"
        for name in unknown.tables
    )


def _relations(target: Target, name: str, wanted: Sequence[str]) -> tuple[Subscription, Sequence[SubscriptionRelation]]:
    """The subscription, and those of its tables that are wanted."""
    subscription = existing_subscription(target, name)
    with target.reporting(), target.engine.connect() as connection:
        relations = relations_of(connection, subscription.subid)
    if not wanted:
        return subscription, relations
    chosen = []
    for text in wanted:
        matching = [one for one in relations if text in (one.qualified_name, one.name)]
        exact = [one for one in matching if one.qualified_name == text]
        if len(exact or matching) != 1:
            there = ", ".join(one.qualified_name for one in matching or relations) or "none"
            reason = "belongs to several schemas of" if matching else "is not part of"
            raise UsageError(
                f'table "{text}" {reason} subscription "{name}"',
                sqlstate="42P01",
                detail=f"Its tables are: {there}.",
                hint="Give a table as schema.table, by its name at the publisher.",
            )
        chosen += exact or matching
    return subscription, list(dict.fromkeys(chosen))


def _named(subscription: Subscription, relation: SubscriptionRelation) -> TableVerification:
    return TableVerification(
        relation.qualified_name, subscription.options.map.qualified(relation.schema, relation.name)
    )


def _not_ready(
    subscription: Subscription, relation: SubscriptionRelation, state: RelationState | None
) -> TableVerification:
    """The line of a table that cannot be compared now; its state is None if it was removed."""
    error = (
        "ERROR:  the table is no longer part of the subscription"
        if state is None
        else f"ERROR:  not ready: state {state.value}\nHINT:  `subscriber run` copies the table. Start it if it is not"
        " running, and run this command again when `subscriber status` shows the table as ready."
    )
    return replace(_named(subscription, relation), error=error)


def _batches(tables: Sequence[_Table]) -> Iterator[list[_Table]]:
    batch: list[_Table] = []
    size = 0
    for table in sorted(tables, key=lambda one: one.bytes):
        if batch and (table.bytes >= LARGE_BYTES or size + table.bytes > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(table)
        size += table.bytes
    if batch:
        yield batch


class _Unproven(Exception):
    """What was read is not proven to be of one LSN: the batch is compared again."""

    def __init__(self, error: SubscriberError, found: Mapping[tuple[str, str], TableVerification]) -> None:
        super().__init__()
        self.error = error
        self.repaired = {key: one.repaired for key, one in found.items() if one.repaired}


class _Verifier:
    def __init__(
        self,
        target: Target,
        subscription: Subscription,
        settings: Settings,
        options: VerifyOptions,
        on_progress: OnProgress,
        hold: PauseApply,
        stop: threading.Event,
    ) -> None:
        self._target = target
        self._subscription = subscription
        self._settings = settings
        self._options = options
        self._on_progress = on_progress
        self._hold = hold
        self._stop = stop
        self._compared = self._tables = 0
        self._run_tasks: RunTasks | None = None
        self._opened = ExitStack()

    def __enter__(self) -> _Verifier:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._opened.close()

    def sizes(self, relations: Sequence[SubscriptionRelation]) -> list[_Table]:
        self._tables = len(relations)
        if not relations:
            return []
        with connect_publisher(self._subscription.conninfo, self._subscription.name) as publisher:
            files = table_files(publisher, [(one.schema, one.name) for one in relations])
            oids = sorted({oid for leaves in files.values() for oid, _ in leaves})
            rows = publisher.execute(
                "SELECT oid::int8, COALESCE(pg_table_size(oid), 0) FROM unnest(%s::oid[]) AS leaf (oid)", (oids,)
            )
            size = dict(rows.fetchall())
        return [
            _Table(one, sum(size.get(oid, 0) for oid, _ in files.get((one.schema, one.name), ()))) for one in relations
        ]

    def compare(self, batch: Sequence[_Table]) -> Mapping[tuple[str, str], TableVerification]:
        """Compare the tables of one batch, again if what was read is not proven."""
        run_tasks = self._tasks() if any(table.bytes >= LARGE_BYTES for table in batch) else None
        found: dict[tuple[str, str], TableVerification] = {}
        repaired: Counter[tuple[str, str]] = Counter()
        left = list(batch)
        lost = 0
        for attempt in range(1, TABLE_ATTEMPTS + 1):
            try:
                found.update(self._compare_held(left, run_tasks, last=attempt == TABLE_ATTEMPTS))
            except _Unproven as unproven:
                logger.info("tables are compared again: %s", unproven.error.message)
                repaired.update(unproven.repaired)
                lost += 1
                if lost == ATTEMPTS or attempt == TABLE_ATTEMPTS:
                    raise unproven.error from None
            left = [table for table in left if table.key not in found]
            if not left:
                break
        return {key: _with_repairs(one, repaired[key]) for key, one in found.items()}

    def _tasks(self) -> RunTasks | None:
        """Runs tasks in Spark, which starts while the target is read; None: all in this process."""
        if self._options.processes == 1:
            return None
        if self._run_tasks is None:
            # Imported here, because pyspark takes a second.
            from subscriber.spark.jobs import run_range_tasks
            from subscriber.spark.session import starting_spark

            cores = self._options.processes or "*"
            spark = self._opened.enter_context(starting_spark(f"local[{cores}]", _spark_log(self._settings)))
            self._run_tasks = lambda *arguments, **options: run_range_tasks(
                spark.session().sparkContext, *arguments, **options
            )
        return self._run_tasks

    def _compare_held(
        self, batch: Sequence[_Table], run_tasks: RunTasks | None, *, last: bool
    ) -> Mapping[tuple[str, str], TableVerification]:
        """Compare a batch in one hold. Only in the last attempt, a table must be readable."""
        found: dict[tuple[str, str], TableVerification] = {}
        seconds = self._options.seconds
        progress("waiting until the target is at a snapshot of the publisher")
        with self._hold(self._target, self._subscription, self._settings, seconds=seconds) as held:
            with self._target.reporting(), self._target.engine.connect() as connection:
                applied = self._subscription.progress.read(connection)
                publishing = read_publishing(connection, self._subscription)
                # A command may have refreshed or removed a table since the comparison began.
                states = {
                    (one.schema, one.name): one.state for one in relations_of(connection, self._subscription.subid)
                }
            ready = []
            for table in batch:
                state = states.get(table.key)
                if state is RelationState.READY:
                    ready.append(table)
                else:
                    found[table.key] = _not_ready(self._subscription, table.relation, state)
            relations = [table.relation for table in ready]
            opened = held_tables(self._target, self._subscription, relations, publishing, held.snapshot, applied)
            with opened as tables:
                for table in ready:
                    progress("comparing tables", self._compared, self._tables)
                    try:
                        found[table.key] = verify_table(
                            self._target,
                            tables,
                            table.relation,
                            self._settings,
                            self._options,
                            run_tasks,
                            self._on_progress,
                            self._stop,
                        )
                    except ProgressConflict as error:  # something was applied, so the hold was lost
                        raise _Unproven(error, found) from None
                    except SubscriberError as error:
                        if last or not error.transient:
                            found[table.key] = self._failed(table, error)
                    self._compared += table.key in found
            try:
                held.check()
            except SubscriberError as error:
                raise _Unproven(error, found) from None
            self._resolve(found, held)
        return found

    def _resolve(self, found: Mapping[tuple[str, str], TableVerification], held: PausedApply) -> None:
        """Record that tables are equal which may have differed, unless rows were left out."""
        subid = self._subscription.subid
        with self._target.reporting(), self._target.engine.connect() as connection:
            differing = {(one.schema, one.name) for one in schema_changes_of(connection, subid) if one.differs}
        equal = [key for key, one in found.items() if key in differing and one.is_equal and one.all_rows]
        if not equal or self._options.sample is not None:
            return
        conninfo, name = self._subscription.conninfo, self._subscription.name
        with snapshot_session(conninfo, name, held.snapshot.name) as publisher:
            skipped = PublisherClient(publisher).missing_publications(self._subscription.streamed_publications)
        with self._target.begin() as connection:
            for table in equal:
                resolve_differences(connection, subid, table, lsn=held.snapshot.lsn, skipped=skipped)

    def _failed(self, table: _Table, error: SubscriberError) -> TableVerification:
        if error.transient and error.sqlstate == "40001":
            names = map(shlex.quote, (table.relation.qualified_name, self._subscription.name))
            command = "subscriber verify --table {} {}".format(*names)
            error = error.replace(
                hint=f"This happened in {TABLE_ATTEMPTS} attempts. Run `{command}` when the table is not truncated."
            )
        return replace(_named(self._subscription, table.relation), error=error.report())


def _with_repairs(found: TableVerification, rows: int) -> TableVerification:
    """The comparison, with the rows that were repaired in attempts before."""
    if not rows:
        return found
    note = f"{rows} rows were repaired before, when the hold was lost, and the table was compared again"
    return replace(found, notes=(*found.notes, note), repaired=found.repaired + rows)


def _spark_log(settings: Settings) -> Path:
    journal = default_journal(os.environ) if "://" in settings.journal else settings.journal
    return Path(journal).parent / "spark-verify.log"
