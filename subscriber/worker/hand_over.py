"""The hand-over of copied tables to the apply worker, from state f to state s (rules D3-D5).

::

    position of the tables   f@L ── catch-up beside the apply worker ──▶ ── last stretch ──▶ s@C
    apply worker             ─────────── applies ───────────────────────┤ loop paused at C ├── applies the changes of all tables

Tables of one snapshot are handed over together, between two batches of the apply worker, because
its position cannot change then. If their position C is not behind it, they go to state s at C. If
it is, the journal is read once more from C on, for these tables (the catch-up), at first beside the
apply worker, which waits only for the last stretch. However many tables catch up, the journal is
read once, and their positions move with their data in one transaction of the target.

A table whose change cannot be applied is left behind at the position that it has: it stays in state
f, and the others go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from subscriber.apply.conflicts.conflict import PostgreSQLPolicy
from subscriber.apply.exact import BulkApplier
from subscriber.base import errors, failpoints
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import CatchUpProgress, RelationState, SubscriptionRelation
from subscriber.postgres.publication.publishing import Publishing
from subscriber.spark.apply_loop import ApplyLoop, JournalStream
from subscriber.spark.apply_pause import ApplyPause
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.worker.catalog_rules import CatchUpRules
from subscriber.worker.refresh_publisher_tables import PublisherAttributes, known_tables, placed_publishing
from subscriber.worker.sync_catalog import SyncCatalog

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05
_RACE_SECONDS: Final = 60.0
"""How long a catch-up may run before the apply worker is stopped so that it can finish."""

Failed = Callable[[SubscriptionRelation, errors.SubscriberError], None]
"""Called with each table that could not be handed over, and with the reason."""


class HandOver:
    def __init__(
        self,
        states: SyncCatalog,
        journal: str,
        *,
        pause: ApplyPause,
        spark: SparkFunctions,
        settings: Settings,
        stop: threading.Event,
    ) -> None:
        self._states = states
        self._journal = journal
        self._pause = pause
        self._spark = spark
        self._settings = settings
        self._stop = stop

    def hand_over(self, tables: Sequence[SubscriptionRelation], failed: Failed) -> None:
        """Bring tables from state f to state s that are at one position.

        ``failed`` is called with each table that was left behind in state f; or in state i, at its
        position, if the journal no longer has its changes (55000). The error of the others is
        raised, and ProgressConflict if a command has changed the subscription's tables meanwhile.
        """
        progress = CatchUpProgress(self._states.subscription.subid, tables)
        with self._pause.closed():
            applied = self._states.applied()
            if self._states.position(progress) >= applied:
                self._synced(progress)
                return
        subscription = self._states.subscription
        publishing = placed_publishing(self._states.target, subscription, self._journal)
        catch_up = _CatchUp(tables, progress, subscription, publishing)
        try:
            self._catch_up(catch_up, applied, failed)
        except errors.JournalGap:
            self._copy_again_later(catch_up, failed)
        except errors.ProgressConflict:
            raise
        except errors.ApplyError:
            if len(catch_up.tables) == 1:
                raise
            for table in catch_up.tables:  # the error does not say which of them has failed
                try:
                    self.hand_over([table], failed)
                except errors.ProgressConflict:
                    continue  # a command has changed this table, and its state is read again
                except errors.ApplyError as error:
                    failed(table, error)

    def copy_again(self, relation: SubscriptionRelation) -> None:
        """Prepare a table for a new copy. TargetRelationError 55000: it still has old rows."""
        assert relation.lsn is not None
        if self._states.has_rows(relation):
            raise self._lost(relation, relation.lsn)
        self._states.advance(relation, RelationState.INIT, None)

    def _catch_up(self, catch_up: _CatchUp, applied: LSN, failed: Failed) -> None:
        loop = self._start_loop(catch_up)
        try:
            self._wait_for(loop, applied, _RACE_SECONDS)
            with self._pause.closed():
                self._wait_for(loop, self._states.applied(), None)
                loop.stop()
                self._synced(catch_up.progress)
        finally:
            loop.stop()
            for table, error in catch_up.left():
                failed(table, error)

    def _start_loop(self, catch_up: _CatchUp) -> ApplyLoop:
        subscription, target = self._states.subscription, self._states.target
        position = self._states.position(catch_up.progress)
        logger.info(
            "%(catch_up)s from %(lsn)s",
            {"catch_up": catch_up, "subscription": subscription.name, "lsn": format_lsn(position)},
        )
        applier = BulkApplier(
            target,
            subscription=subscription.name,
            subid=subscription.subid,
            read_rules=catch_up.rules,
            kept=catch_up.progress,
            ask=PublisherAttributes(target, subscription),
            policy=PostgreSQLPolicy(self._settings.postgresql_version),
        )
        return self._spark.start_apply(
            f"table sync {subscription.subid}: {subscription.name}",
            JournalStream(
                self._journal,
                position,
                catch_up.publishing,
                known=known_tables(subscription, catch_up.publishing),
            ),
            applier,
            self._settings,
            on_applied=lambda _: None,
            pause=ApplyPause(self._states.writer_lock),
            on_failure=catch_up.leave_behind,
        )

    def _wait_for(self, loop: ApplyLoop, position: LSN, longest: float | None) -> None:
        deadline = time.monotonic() + longest if longest is not None else float("inf")
        while loop.applied < position and time.monotonic() < deadline:
            if self._stop.wait(_POLL_SECONDS):
                raise stopped()
            if not loop.running:
                raise loop.failure() or stopped()

    def _synced(self, progress: CatchUpProgress) -> None:
        """Set tables to state s at their position, while no batch is in progress."""
        failpoints.hit("handover.before")
        position = self._states.position(progress)
        with self._states.write() as connection:
            progress.finish(connection, position)
        failpoints.hit("handover.after")

    def _copy_again_later(self, catch_up: _CatchUp, failed: Failed) -> None:
        """Set tables whose changes the journal has lost to state i, at their position."""
        lost = self._states.position(catch_up.progress)
        self._states.advance_all(catch_up.tables, RelationState.INIT, lost)
        for table in catch_up.tables:
            failed(table, self._lost(table, lost))

    def _lost(self, relation: SubscriptionRelation, position: LSN) -> errors.TargetRelationError:
        table = self._states.subscription.options.map.qualified(relation.schema, relation.name)
        return errors.TargetRelationError(
            f'table "{table}" cannot catch up: the journal no longer has its changes after {format_lsn(position)}',
            sqlstate="55000",
            detail="The table must be copied again, but still has the rows of its first copy.",
            hint="DISABLE the subscription, TRUNCATE the table in `subscriber sql`, and ENABLE the subscription. Or let the copy replace the rows:"
            f" ALTER SUBSCRIPTION {self._states.subscription.name} REFRESH TABLE {relation.qualified_name}.",
            relation=table,
        )


class _CatchUp:
    """The tables of one catch-up. The thread that applies leaves tables behind."""

    def __init__(
        self,
        tables: Sequence[SubscriptionRelation],
        progress: CatchUpProgress,
        subscription: Subscription,
        publishing: Publishing | None,
    ) -> None:
        self.tables = list(tables)
        self.progress = progress
        self.publishing = publishing
        self.rules = CatchUpRules(subscription, tables, publishing)
        self._names = subscription.options.map
        self._left: list[tuple[SubscriptionRelation, errors.SubscriberError]] = []

    def __str__(self) -> str:
        first = f'table "{self.tables[0].qualified_name}"'
        return f"{first} catches up" if len(self.tables) == 1 else f"{len(self.tables):,} tables catch up"

    def leave_behind(self, error: errors.SubscriberError, _began: float) -> float | None:
        """Go on without the table whose change has failed, unless the error concerns all tables."""
        found = [one for one in self.tables if self._names.qualified(one.schema, one.name) == error.relation]
        if error.transient or not isinstance(error, errors.ApplyError) or len(found) != 1 or len(self.tables) == 1:
            return None
        self.tables.remove(found[0])
        self.progress.leave(found[0])
        self.rules.leave(found[0])
        self._left.append((found[0], error))
        return 0.0

    def left(self) -> Iterator[tuple[SubscriptionRelation, errors.SubscriberError]]:
        """The tables that were left behind, each once."""
        while self._left:
            yield self._left.pop()


def stopped() -> errors.Stopped:
    return errors.Stopped("the table synchronization was stopped")
