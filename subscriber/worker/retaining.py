"""The part of a worker that ends the retention of deleted rows (``retain_dead_tuples``).

::

    mark the        wait for the transactions that       a barrier in        wait until it     the round
    deleted rows ─▶ are in progress at the publisher ──▶ its WAL       ────▶ is applied  ────▶ is over

A transaction of the publisher that was in progress may have a commit time before that of a deleted
row, and commit later. PostgreSQL 19 asks the walsender (message ``p``) and waits only for
transactions that are about to commit. Here the publisher is asked by a query, which every version
answers, and all transactions in progress are waited for: deleted rows are retained for longer while
a transaction of the publisher stays open.

A round that takes longer than ``max_retention_duration`` stops the retention; a later one that does
not lets it begin again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from subscriber.base.background import Background
from subscriber.base.errors import SubscriberError, UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.deleted_rows import delete_passed, mark, pass_round, record_relations
from subscriber.catalog.subscriptions import set_retention
from subscriber.commands.requirements import check_retention
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.worker.worker_state import WorkerState

logger = logging.getLogger(__name__)

_STEP_SECONDS: Final = 0.5


@dataclass(slots=True)
class _Round:
    """``following`` is the first transaction of the publisher that need not be waited for; ``lsn``
    is None until those before it have ended. ``began`` is in monotonic seconds.
    """

    number: int
    began: float
    following: int
    lsn: LSN | None = None


class Retaining:
    """Carries out the rounds of one subscription; ``interval`` is the pause between two."""

    def __init__(self, state: WorkerState, interval: float) -> None:
        self._state = state
        self._interval = interval
        self._round: _Round | None = None
        self._recorded: int | None = None
        self._due = time.monotonic()
        self._stepping = Background(self._step, f"retention of {state.subscription.name}")

    def tick(self) -> None:
        """Begin or continue a step, without waiting."""
        if not self._state.subscription.options.retain_dead_tuples or time.monotonic() < self._due:
            return
        try:
            ended = self._stepping.take()
        except SubscriberError as error:
            level = logging.WARNING if isinstance(error, UsageError) else logging.DEBUG
            logger.log(level, "deleted rows are retained for longer: %s", error.message)
            ended = False
        if ended is not None:
            self._due = time.monotonic() + (self._interval if ended else _STEP_SECONDS)

    def _step(self) -> bool:
        """Do what can be done now; returns whether a round has ended."""
        state = self._state
        if self._round is None:
            began = time.monotonic()
            subscription = state.subscription
            with state.target.begin() as connection:
                if self._recorded != subscription.version:  # it may have more tables, or others
                    record_relations(connection, state.target, subscription)
                number = mark(connection, state.target)
            self._recorded = subscription.version
            with self._connected() as publisher:
                check_retention(publisher)
                self._round = _Round(number, began, publisher.assign_transaction_id())
        current = self._round
        if current.lsn is None:
            with self._connected() as publisher:
                if publisher.oldest_transaction() >= current.following:
                    current.lsn = publisher.write_barrier()
        if current.lsn is None or not state.reach().has(current.lsn):
            self._stop_if_late(current)
            return False
        self._end(current)
        return True

    @contextmanager
    def _connected(self) -> Iterator[PublisherClient]:
        subscription = self._state.subscription
        with connect_publisher(subscription.conninfo, subscription.name) as server:
            yield PublisherClient(server)

    def _end(self, ended: _Round) -> None:
        subscription = self._state.subscription
        in_time = not self._is_late(ended)
        self._round = None
        with self._state.target.begin() as connection:
            pass_round(connection, self._state.target, subscription.subid, ended.number)
            if in_time and not subscription.retention_active:
                set_retention(connection, subscription.subid, active=True)
        if in_time and not subscription.retention_active:
            unlimited = not subscription.options.max_retention_duration
            logger.info(
                'logical replication worker for subscription "%s" will resume retaining the information for detecting'
                " conflicts\nDETAIL:  Retention is re-enabled because %s.",
                subscription.name,
                "max_retention_duration has been set to unlimited"
                if unlimited
                else "the apply process has caught up with the publisher within the configured max_retention_duration",
            )

    def _stop_if_late(self, current: _Round) -> None:
        subscription = self._state.subscription
        if not subscription.retention_active or not self._is_late(current):
            return
        with self._state.target.begin() as connection:
            set_retention(connection, subscription.subid, active=False)
            delete_passed(connection, self._state.target)
        logger.info(
            'logical replication worker for subscription "%s" has stopped retaining the information for detecting'
            " conflicts\nDETAIL:  Retention is stopped because the apply process has not caught up with the publisher"
            " within the configured max_retention_duration.",
            subscription.name,
        )

    def _is_late(self, current: _Round) -> bool:
        longest = self._state.subscription.options.max_retention_duration / 1000
        return 0 < longest < time.monotonic() - current.began
