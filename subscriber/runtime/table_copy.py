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
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from subscriber import catalog, failpoints
from subscriber.catalog import RelationState, SchemaChanges, SubscriptionRelation
from subscriber.lsn import format_lsn
from subscriber.pipeline.copy import CopyProgress, CopySource
from subscriber.pipeline.on_spark import Pipeline
from subscriber.publisher.blockers import blockers_of
from subscriber.publisher.copy_plan import TableFiles
from subscriber.publisher.snapshot import Snapshot
from subscriber.runtime.copy_progress import Copies
from subscriber.runtime.sync_catalog import SyncCatalog
from subscriber.settings import Settings
from subscriber.targets import Connection, Interruption
from subscriber.waiting import watched

logger = logging.getLogger(__name__)


class TableCopy:
    """Copies the tables of one subscription, one at a time.

    Args:
        states: the states of the tables, with their subscription and target.
        copies: shows the progress of a copy.
        pipeline: copies a table.
        settings: the sizes of a copy.
        interruption: ends a copy.

    Attributes:
        loads_since: since when the transaction of a copy is open (monotonic seconds); None if no
            transaction is open.
    """

    def __init__(
        self,
        states: SyncCatalog,
        copies: Copies,
        *,
        pipeline: Pipeline,
        settings: Settings,
        interruption: Interruption,
    ) -> None:
        self.loads_since: float | None = None
        self._states = states
        self._copies = copies
        self._pipeline = pipeline
        self._settings = settings
        self._interruption = interruption

    def copy(
        self,
        relation: SubscriptionRelation,
        *,
        snapshot: Snapshot,
        files: TableFiles,
        on_progress: Callable[[], None],
    ) -> SubscriptionRelation:
        """Copy a table in state i or d, and return it in state f.

        Args:
            relation: the table.
            snapshot: the snapshot from which the table is copied.
            files: the files of the table, as they were before the snapshot was exported.
            on_progress: called after every block.

        Raises:
            SubscriberError: see :func:`subscriber.pipeline.copy.copy_table`; the table stays in
                state d.
        """
        failpoints.hit("copy.begin.before")
        if relation.state is RelationState.INIT:
            relation = self._states.advance(relation, RelationState.DATASYNC, None)
        failpoints.hit("copy.begin.after")
        source = self._source(relation, snapshot, files)
        copied = replace(relation, state=RelationState.FINISHEDCOPY, lsn=snapshot.lsn, replaces=False)

        def note(done: CopyProgress) -> None:
            on_progress()
            self._copies.note(relation, done)

        waits_for = partial(blockers_of, self._states.subscription.conninfo, self._states.subscription.name)
        with (
            self._copies.showing(relation),
            watched(f'the copy of table "{relation.qualified_name}" at the publisher', waits_for),
        ):
            done = self._pipeline.copy_table(
                source,
                self._states.target,
                partial(self._begin, relation, copied),
                self._settings,
                on_progress=note,
                stop=self._interruption.stop,
            )
        failpoints.hit("copy.commit.after")
        logger.info(
            'table "%s" of subscription "%s" is copied: %s rows, as of %s',
            relation.qualified_name,
            self._states.subscription.name,
            f"{done.rows:,}",
            format_lsn(snapshot.lsn),
        )
        return copied

    def _source(self, relation: SubscriptionRelation, snapshot: Snapshot, files: TableFiles) -> CopySource:
        options = self._states.subscription.options
        return CopySource(
            conninfo=self._states.subscription.conninfo,
            subscription=self._states.subscription.name,
            publications=self._states.subscription.publications,
            schema=relation.schema,
            table=relation.name,
            snapshot=snapshot.name,
            files=files,
            publishing=self._states.publishing(),
            names=options.map,
            add_columns=self._states.write if options.schema_changes == "add_columns" else None,
            binary=options.binary,
            changes=SchemaChanges(self._states.subscription.subid, self._states.subscription.name),
            values=options.unrepresentable_values,
            show_values=options.log_conflict_values,
            lsn=snapshot.lsn,
            streamed=self._states.subscription.streamed_publications,
        )

    @contextlib.contextmanager
    def _begin(self, relation: SubscriptionRelation, copied: SubscriptionRelation) -> Iterator[Connection]:
        """Begin the transaction of the rows. At its end the table is in its next state."""
        subid = self._states.subscription.subid
        with self._states.write() as connection, self._interruption.of(connection), self._loading():
            if relation.replaces:
                self._delete_rows(connection, relation)
            yield connection
            catalog.check_replicated(connection, self._states.subscription)
            catalog.advance_relation(connection, subid, relation, copied.state, copied.lsn)
            failpoints.hit("copy.commit.before")

    def _delete_rows(self, connection: Connection, relation: SubscriptionRelation) -> None:
        """Delete the rows that the copy replaces."""
        target = self._states.target
        place = self._states.subscription.options.map.local(relation.schema, relation.name)
        table = target.shapes.reflect(connection, *place)
        if table is not None:  # else the copy has refused it
            target.writing.delete_all(connection, table)

    @contextlib.contextmanager
    def _loading(self) -> Iterator[None]:
        self.loads_since = time.monotonic()
        try:
            yield
        finally:
            self.loads_since = None
