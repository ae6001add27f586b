"""The copy of one table: one transaction of the target, which ends in state f at the LSN of the
snapshot (rules D2, D6).

If the copy replaces rows (``ALTER SUBSCRIPTION … REFRESH TABLE``), its transaction begins with the
deletion of all rows of the target's table. So readers see the old rows until it commits, and a copy
that fails leaves them. *Rejected:* a second table that takes the place of the first at the end. It
would need the indexes, constraints, triggers, privileges and views of the first, and DDL commits in
some databases.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from subscriber.apply.history_frames import end_history
from subscriber.base import failpoints
from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.run_log import OVER
from subscriber.base.settings import Settings
from subscriber.base.waiting import watched
from subscriber.catalog import deleted_rows
from subscriber.catalog.schema_changes import SchemaChanges
from subscriber.catalog.subscriptions import check_replicated
from subscriber.catalog.table_states import RelationState, SubscriptionRelation, advance_relation
from subscriber.publisher.copy_plan import TableFiles
from subscriber.publisher.fence.open_transactions import blockers_of
from subscriber.publisher.snapshot import CopySession, Snapshot
from subscriber.spark.copy import CopyProgress, CopySource
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.targets import Connection, Interruption, TargetTable
from subscriber.worker.copy_progress import Copies
from subscriber.worker.failures import COPY
from subscriber.worker.sync_catalog import SyncCatalog

logger = logging.getLogger(__name__)

TargetTables = Mapping[tuple[str, str], TargetTable]
"""Tables of the target, by the schema and name that the map gives a publisher's relation."""


class TableCopy:
    """Copies the tables of one subscription, one at a time."""

    def __init__(
        self,
        states: SyncCatalog,
        copies: Copies,
        *,
        spark: SparkFunctions,
        settings: Settings,
        interruption: Interruption,
    ) -> None:
        self.loads_since: float | None = None
        self._states = states
        self._copies = copies
        self._spark = spark
        self._settings = settings
        self._interruption = interruption

    def target_tables(self, relations: Sequence[SubscriptionRelation]) -> TargetTables:
        """The target's tables of relations; none if they cannot be read together. In a catalog of
        many tables, to look for one takes as long as for many.
        """
        target, names = self._states.target, self._states.subscription.options.map
        places = [names.in_target(one.schema, one.name) for one in relations]
        with contextlib.suppress(SubscriberError), target.reporting(), target.engine.connect() as connection:
            return target.shapes.reflect_all(connection, places)
        return {}

    def copy(
        self,
        relation: SubscriptionRelation,
        *,
        snapshot: Snapshot,
        session: CopySession,
        files: TableFiles,
        local: TargetTables,
        on_progress: Callable[[CopyProgress], None],
    ) -> SubscriptionRelation:
        """Copy a table in state i or d, and return it in state f; after an error
        (:func:`subscriber.spark.copy.copy_table`) it stays in state d. ``local`` is of
        :meth:`target_tables`.
        """
        self._log_worker(relation, "has started")
        failpoints.hit("copy.begin.before")
        if relation.state is RelationState.INIT:
            relation = self._states.advance(relation, RelationState.DATASYNC, None)
        failpoints.hit("copy.begin.after")
        source = self._source(relation, snapshot, session, files, local)
        copied = replace(relation, state=RelationState.FINISHEDCOPY, lsn=snapshot.lsn, replaces=False)

        def note(done: CopyProgress) -> None:
            on_progress(done)
            self._copies.record(relation, done)

        waits_for = partial(blockers_of, self._states.subscription.conninfo, self._states.subscription.name)
        with (
            self._copies.showing(relation),
            watched(f'the copy of table "{relation.qualified_name}" at the publisher', waits_for),
        ):
            done = self._spark.copy_table(
                source,
                self._states.target,
                partial(self._begin, relation, copied),
                self._settings,
                on_progress=note,
                stop=self._interruption.stop,
            )
        failpoints.hit("copy.commit.after")
        logger.info(
            'table "%(relation)s" of subscription "%(subscription)s" is copied: %(rows_in_words)s rows, as of %(lsn)s',
            {
                "subscription": self._states.subscription.name,
                "relation": relation.qualified_name,
                "stage": COPY,
                "rows": done.rows,
                "rows_in_words": f"{done.rows:,}",
                "lsn": format_lsn(snapshot.lsn),
            },
            extra=OVER,
        )
        self._log_worker(relation, "has finished")
        return copied

    def _log_worker(self, relation: SubscriptionRelation, what: str) -> None:
        logger.info(
            'logical replication table synchronization worker for subscription "%(subscription)s", table "%(relation)s" %(what)s',
            {"subscription": self._states.subscription.name, "relation": relation.qualified_name, "what": what},
        )

    def _source(
        self,
        relation: SubscriptionRelation,
        snapshot: Snapshot,
        session: CopySession,
        files: TableFiles,
        local: TargetTables,
    ) -> CopySource:
        options = self._states.subscription.options
        return CopySource(
            conninfo=self._states.subscription.conninfo,
            subscription=self._states.subscription.name,
            schema=relation.schema,
            table=relation.name,
            snapshot=snapshot.name,
            files=files,
            session=session,
            publishing=self._states.publishing(),
            names=options.map,
            local=local.get(options.map.in_target(relation.schema, relation.name)),
            add_columns=self._states.write if options.schema_changes == "add_columns" else None,
            binary=options.binary,
            changes=SchemaChanges(self._states.subscription.subid, self._states.subscription.name),
            values=options.unrepresentable_values,
            show_values=options.log_conflict_values,
            lsn=snapshot.lsn,
            history=options.history_rules,
            transform=options.transform,
        )

    @contextlib.contextmanager
    def _begin(self, relation: SubscriptionRelation, copied: SubscriptionRelation) -> Iterator[Connection]:
        """Begin the transaction of the rows. At its end the table is in its next state."""
        subid = self._states.subscription.subid
        with self._states.write() as connection, self._interruption.of(connection), self._loading():
            if relation.replaces:
                assert copied.lsn is not None  # that of the snapshot
                self._end_rows(connection, relation, copied.lsn)
            yield connection
            check_replicated(connection, self._states.subscription)
            advance_relation(connection, subid, relation, copied.state, copied.lsn)
            failpoints.hit("copy.commit.before")

    def _end_rows(self, connection: Connection, relation: SubscriptionRelation, lsn: LSN) -> None:
        """Delete the rows that the copy replaces; a history says that they have ended."""
        target, options = self._states.target, self._states.subscription.options
        table = target.shapes.reflect(connection, *options.map.in_target(relation.schema, relation.name))
        if table is None:
            return  # the copy has refused it
        mode = options.history_rules.of(relation.schema, relation.name)
        if mode != "off":
            end_history(connection, table, mode, lsn)
            return
        with deleted_rows.deleted_by(connection, target, None):
            target.writing.delete_all(connection, table)

    @contextlib.contextmanager
    def _loading(self) -> Iterator[None]:
        self.loads_since = time.monotonic()
        try:
            yield
        finally:
            self.loads_since = None
