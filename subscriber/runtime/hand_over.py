"""The hand-over of a copied table to the apply worker, from state f to state s (rules D3-D5).

::

    position of the table    f@L ── catch-up beside the apply worker ──▶ ── last stretch ──▶ s@C
    apply worker             ─────────── applies ───────────────────────┤ gate closed, at C ├── applies the changes of all tables

The hand-over takes place between two batches of the apply worker, because the position of the apply
worker cannot change then. If the position C of the table is not behind the apply worker's position,
the table goes to state s at C. If it is behind, a second query over the same journal first applies
the changes of this table (the catch-up). The catch-up runs beside the apply worker for a while, so
that the apply worker waits only for the last stretch.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import Final

from subscriber import failpoints
from subscriber.apply.applier import ApplyResult
from subscriber.apply.bulk import BulkApplier
from subscriber.catalog import CatchUpProgress, RelationState, SubscriptionRelation
from subscriber.errors import JournalGap, Stopped, TargetRelationError
from subscriber.lsn import LSN, format_lsn
from subscriber.pipeline.on_spark import Pipeline
from subscriber.pipeline.streaming_query import ApplyQuery, JournalStream
from subscriber.runtime.catalog_rules import CatchUpRules
from subscriber.runtime.gate import Gate
from subscriber.runtime.publisher_attributes import PublisherAttributes
from subscriber.runtime.sync_catalog import SyncCatalog
from subscriber.settings import Settings

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05
_RACE_SECONDS: Final = 60.0
"""How long a catch-up may run beside the apply worker before the apply worker is stopped so that
the catch-up can finish.
"""


class HandOver:
    """Hands over the copied tables of one subscription, one at a time.

    Args:
        states: the states of the tables, with their subscription and target.
        journal: the URL of the journal that contains the changes of the tables.
        gate: the gate that the batches of the apply worker pass.
        pipeline: starts the query of a catch-up.
        settings: the sizes of batches and segments.
        stop: ends a catch-up.
    """

    def __init__(
        self,
        states: SyncCatalog,
        journal: str,
        *,
        gate: Gate,
        pipeline: Pipeline,
        settings: Settings,
        stop: threading.Event,
    ) -> None:
        self._states = states
        self._journal = journal
        self._gate = gate
        self._pipeline = pipeline
        self._settings = settings
        self._stop = stop

    def hand_over(self, relation: SubscriptionRelation) -> None:
        """Bring a table from state f to state s.

        Raises:
            TargetRelationError: 55000, the journal no longer has the changes of the table. The
                table goes back to state i, and keeps its position.
            Stopped: the table synchronization was told to end.
            SubscriberError: the reason why the catch-up has ended.
        """
        with self._gate.closed():
            applied = self._states.applied()
            if self._states.position(relation) >= applied:
                self._synced(relation)
                return
        try:
            self._catch_up(relation, applied)
        except JournalGap:
            lost = self._states.position(relation)
            self._states.advance(relation, RelationState.INIT, lost)
            raise self._lost(relation, lost) from None

    def copy_again(self, relation: SubscriptionRelation) -> None:
        """Prepare a table that could not catch up for a new copy, provided that the rows of its
        first copy were removed.

        Raises:
            TargetRelationError: 55000, the table still has rows.
        """
        assert relation.lsn is not None
        if self._states.has_rows(relation):
            raise self._lost(relation, relation.lsn)
        self._states.advance(relation, RelationState.INIT, None)

    def _catch_up(self, relation: SubscriptionRelation, applied: LSN) -> None:
        query = self._start_catch_up(relation)
        try:
            self._wait_for(query, applied, _RACE_SECONDS)
            with self._gate.closed():
                self._wait_for(query, self._states.applied(), None)
                query.stop()
                self._synced(relation)
        finally:
            query.stop()

    def _start_catch_up(self, relation: SubscriptionRelation) -> ApplyQuery:
        subscription = self._states.subscription
        position = self._states.position(relation)
        publishing = self._states.publishing()
        applier = BulkApplier(
            self._states.target,
            subscription=subscription.name,
            subid=subscription.subid,
            read_rules=CatchUpRules(subscription, relation, publishing),
            kept=CatchUpProgress(subscription.subid, relation),
            ask=PublisherAttributes(self._states.target, subscription),
        )
        logger.info('table "%s" catches up from %s', relation.qualified_name, format_lsn(position))
        return self._pipeline.start_query(
            f"table sync {subscription.subid}: {relation.qualified_name}",
            JournalStream(self._journal, position, publishing),
            applier,
            self._settings,
            on_applied=_nothing,
            turn=self._states.turn,
        )

    def _wait_for(self, query: ApplyQuery, position: LSN, longest: float | None) -> None:
        """Return when the catch-up has reached ``position``, or after ``longest`` seconds.

        Raises:
            SubscriberError: the reason why the catch-up has ended.
            Stopped: the table synchronization was told to end, or the query was stopped.
        """
        deadline = time.monotonic() + longest if longest is not None else float("inf")
        while query.applied < position and time.monotonic() < deadline:
            if self._stop.wait(_POLL_SECONDS):
                raise stopped()
            if not query.running:
                raise query.failure() or stopped()

    def _synced(self, relation: SubscriptionRelation) -> None:
        """Set a table to state s at its position; no batch is in progress. The apply worker applies
        the later changes of the table.
        """
        failpoints.hit("handover.before")
        position = self._states.position(relation)
        finished = replace(relation, state=RelationState.FINISHEDCOPY, lsn=position)
        self._states.advance(finished, RelationState.SYNCDONE, position)
        failpoints.hit("handover.after")

    def _lost(self, relation: SubscriptionRelation, position: LSN) -> TargetRelationError:
        table = self._states.subscription.options.map.qualified(relation.schema, relation.name)
        return TargetRelationError(
            f'table "{table}" cannot catch up: the journal no longer has its changes after {format_lsn(position)}',
            sqlstate="55000",
            detail="The table must be copied again, but still has the rows of its first copy.",
            hint="DISABLE the subscription, TRUNCATE the table in `subscriber sql`, and ENABLE the subscription. Or let the copy replace the rows:"
            f" ALTER SUBSCRIPTION {self._states.subscription.name} REFRESH TABLE {relation.qualified_name}.",
            relation=table,
        )


def stopped() -> Stopped:
    """Return the error that ends a step of the table synchronization that was told to end."""
    return Stopped("the table synchronization was stopped")


def _nothing(_result: ApplyResult) -> None:
    pass
