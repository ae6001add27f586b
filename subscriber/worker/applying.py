"""The part of a worker that keeps an apply loop running.

The loop (:mod:`subscriber.spark.apply_loop`) also retries a batch that has failed. It asks this
module how long to wait. The loop itself is restarted only if a retry of the batch cannot help.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from functools import partial
from typing import Final

from subscriber.apply.applier import ApplyResult
from subscriber.apply.conflicts.conflict import PostgreSQLPolicy
from subscriber.apply.exact import BulkApplier
from subscriber.apply.message_listener import MessageListener
from subscriber.apply.parallel.parallel_applier import ParallelApplier
from subscriber.base import errors
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.base.retry import RetryState
from subscriber.base.settings import Settings
from subscriber.spark.apply_loop import ApplyLoop, JournalStream
from subscriber.spark.apply_pause import ApplyPause
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.worker.catalog_rules import BatchRules
from subscriber.worker.failures import FailureLog
from subscriber.worker.refresh_publisher_tables import PublisherAttributes, known_tables, placed_publishing
from subscriber.worker.worker_snapshot import AppliedBatch
from subscriber.worker.worker_state import WorkerState

logger = logging.getLogger(__name__)

_KEPT_BATCHES: Final = 50
_POSTGRESQL_EPOCH: Final = 946_684_800

_NEEDS_ANOTHER_LOOP: Final = (
    errors.PublicationsChanged,
    errors.PublisherTablesOutdated,
    errors.PipelineError,
    errors.MessageListenerError,
)
"""Errors that a retry within the same loop would repeat, or would not notice: the loop has filtered
by definitions that are out of date, Spark itself has failed, or a logical message was not accepted,
which is offered again when a loop starts.
"""


class Applying:
    """Keeps the loop of one subscription running. A failed attempt, and ``batch_began`` of a loop
    that has ended, are the time when the batch began to write (monotonic seconds).
    """

    def __init__(
        self,
        state: WorkerState,
        spark: SparkFunctions,
        settings: Settings,
        pause: ApplyPause,
        failures: FailureLog,
        on_message: MessageListener | None,
    ) -> None:
        self.attempts = RetryState("apply")
        self.loop: ApplyLoop | None = None
        self.batch_began = 0.0
        self.rules = BatchRules(state.subscription)
        self.transactions = 0
        self.changes = 0
        self.applied_at: float | None = None
        self.batches: deque[AppliedBatch] = deque(maxlen=_KEPT_BATCHES)
        self._state = state
        self._spark = spark
        self._settings = settings
        self._pause = pause
        self._failures = failures
        self._on_message = on_message

    @property
    def stuck_since(self) -> float | None:
        """When the batch began that has a change which cannot be applied (monotonic seconds); None
        if there is none. Only a change of the target after this time can let the batch succeed.
        """
        failed = self.attempts.failed
        return failed.began if isinstance(failed.error, errors.ApplyError) else None

    def watch(self) -> None:
        """Raise why the loop has ended, unless another can be started; note that it works again."""
        loop, state = self.loop, self._state
        if loop is None:
            return
        if loop.running:
            if self.attempts.error is not None:
                # a batch that failed has committed the transactions before the failure
                state.applied = LSN(max(state.applied, loop.applied))
                if not state.reach().waits:
                    self.attempts.record_success()  # nothing is left to apply that could fail again
            return
        failure, self.batch_began = loop.failure(), loop.batch_began
        state.count("apply_restarts")
        loop.stop()
        self.loop = None
        if isinstance(failure, errors.PublicationsChanged):
            logger.info(
                'subscription "%(subscription)s": %(error)s',
                {"subscription": state.subscription.name, "error": failure.message},
            )
        elif isinstance(failure, errors.PublisherTablesOutdated):
            state.refresh_publisher_tables(failure)
        elif failure is not None:
            raise failure

    def start(self) -> None:
        """Start a loop if there is a journal, which is applied even without the publisher."""
        self._state.read_positions()
        if self._state.positions[0] != INVALID_LSN:
            self._start_loop()

    def _start_loop(self) -> None:
        state, subscription = self._state, self._state.subscription
        assert state.consumers is not None
        try:
            publishing = placed_publishing(state.target, subscription, state.consumers.journal)
        except errors.PublisherTablesOutdated as error:
            logger.debug('subscription "%s": %s', subscription.name, error.message)
            return  # the next attempt is made at once
        with state.target.reporting(), state.target.engine.connect() as connection:
            state.applied = subscription.progress.read(connection)
        self.rules.publishing = publishing
        state.consumers.record_publishing(publishing, state.applied)
        state.consumers.record_applied(state.applied)
        state.consumers.take_over()
        writers = subscription.options.parallel_apply
        make = BulkApplier if writers == 1 else partial(ParallelApplier, writers=writers)
        applier = make(
            state.target,
            subscription=subscription.name,
            subid=subscription.subid,
            read_rules=self.rules,
            ask=PublisherAttributes(state.target, subscription),
            on_message=self._on_message,
            policy=PostgreSQLPolicy(self._settings.postgresql_version),
        )
        applier.deliver_messages()
        self.loop = self._spark.start_apply(
            f"apply {subscription.subid}: {subscription.name}",
            JournalStream(
                state.consumers.journal,
                state.applied,
                publishing,
                known=known_tables(subscription, publishing),
            ),
            applier,
            self._settings,
            on_applied=self._record_applied,
            pause=self._pause,
            on_failure=self.batch_failed,
            on_end=state.wake,
        )
        logger.info(
            'apply of subscription "%(subscription)s" starts at %(lsn)s',
            {"subscription": subscription.name, "lsn": format_lsn(state.applied)},
        )

    def _record_applied(self, result: ApplyResult) -> None:
        state = self._state
        state.applied = result.progress
        self._count(result)
        failing = None if self.attempts.error is None else self.attempts.error.lsn
        if failing is None or result.progress >= failing:  # not of a transaction before the one that fails
            self.attempts.record_success()
        assert state.consumers is not None
        state.consumers.record_applied(result.progress)

    def _count(self, result: ApplyResult) -> None:
        """Count what a batch has done, in the thread of the loop; see metrics.py of operate."""
        self.transactions += result.transactions
        self.changes += result.changes
        state, now = self._state, time.time()
        state.count("batches", 1, "exact" if result.exact else "bulk", result.exact or "")
        state.count("replaced_values", result.replaced)
        state.count("skipped_transactions", result.skipped)
        for stage, seconds in result.seconds.items():
            state.count("batch_seconds", seconds, stage)
        for table, rows in result.rows.items():
            state.count("rows", rows, *table)
        for kind, conflicts in result.conflicts.items():
            state.count("conflicts", conflicts, kind.value)
        lag = None
        if result.commit_timestamp is not None:
            self.applied_at = now
            lag = max(0.0, now - result.commit_timestamp / 1e6 - _POSTGRESQL_EPOCH)
            state.count_seconds("commit_to_visible", lag)
        if result.transactions:
            self.batches.append(
                AppliedBatch(
                    now, result.progress, result.transactions, result.changes, lag, result.exact, result.seconds
                )
            )

    def batch_failed(self, error: errors.SubscriberError, began: float) -> float | None:
        """The seconds to wait before a batch is tried again; None if the loop is to end. The loop
        calls this in its thread. :meth:`watch` finds the error of a loop that ends.
        """
        if isinstance(error, _NEEDS_ANOTHER_LOOP) or error.stops or self._failures.disables(error):
            return None
        return self._failures.record_failure(self.attempts, error, began)
