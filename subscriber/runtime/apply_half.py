"""The part of a worker that keeps a Spark query running, which applies the journal to the target.

The thread that applies a batch also retries it after a failure (:mod:`subscriber.pipeline.sink`).
It asks this module how long to wait. The query itself is restarted only if a retry of the batch
cannot help: the publications that the query reads by have changed, or Spark itself has failed.
"""

from __future__ import annotations

import logging
from typing import Final

from subscriber.apply.applier import ApplyResult
from subscriber.apply.bulk import BulkApplier
from subscriber.apply.logical_messages import MessageListener
from subscriber.catalog.kept_publishing import read_publishing
from subscriber.errors import (
    ApplyError,
    MessageListenerError,
    PipelineError,
    PublicationsChanged,
    PublisherTablesOutdated,
    SubscriberError,
)
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.pipeline.apply_bound import ApplyBound
from subscriber.pipeline.on_spark import Pipeline
from subscriber.pipeline.streaming_query import ApplyQuery, JournalStream
from subscriber.runtime.attempts import Attempts
from subscriber.runtime.background import MOMENT_SECONDS, Background
from subscriber.runtime.catalog_rules import BatchRules
from subscriber.runtime.failures import FailureLog
from subscriber.runtime.gate import Gate
from subscriber.runtime.publisher_attributes import PublisherAttributes
from subscriber.runtime.refresh_publisher_tables import refresh_at_start
from subscriber.runtime.worker_state import WorkerState
from subscriber.settings import Settings

logger = logging.getLogger(__name__)

_NEEDS_ANOTHER_QUERY: Final = (PublicationsChanged, PublisherTablesOutdated, PipelineError, MessageListenerError)
"""Errors that a retry within the same query would repeat, or would not notice: the query has
filtered by definitions that are out of date, Spark itself has failed, or a logical message was not
accepted, which is offered again when a query starts.
"""


class ApplyHalf:
    """Keeps the query of one subscription running; see the module's docstring.

    Args:
        state: the state of the worker.
        pipeline: starts the query.
        settings: the sizes of batches and segments.
        gate: the gate that every batch passes.
        failures: the failure log of the worker.
        on_message: called with every logical message.
        bound: up to where batches may apply; None if there is never a bound.

    Attributes:
        attempts: the attempts to apply; a failed attempt includes the time when its batch began to
            write.
        query: the query; None while none is started.
        batch_began: when the last batch of a query that has ended began to write (monotonic
            seconds).
        rules: reads the rules of each batch from the catalog.
        reading: reads the publisher's tables before the first query starts.
        transactions: the number of transactions that were applied since the worker began.
        changes: the number of changes in these transactions.
    """

    def __init__(
        self,
        state: WorkerState,
        pipeline: Pipeline,
        settings: Settings,
        gate: Gate,
        failures: FailureLog,
        on_message: MessageListener | None,
        bound: ApplyBound | None = None,
    ) -> None:
        self.attempts = Attempts()
        self.query: ApplyQuery | None = None
        self.batch_began = 0.0
        self.rules = BatchRules(state.subscription)
        self.reading = Background(
            lambda: refresh_at_start(state.target, state.subscription),
            f"tables of {state.subscription.name}",
            state.wake,
        )
        self.transactions = 0
        self.changes = 0
        self._state = state
        self._pipeline = pipeline
        self._settings = settings
        self._gate = gate
        self._failures = failures
        self._on_message = on_message
        self._bound = bound or ApplyBound()

    @property
    def stuck_since(self) -> float | None:
        """When the batch began that contains a change which cannot be applied (monotonic seconds);
        None if there is no such change.

        Only a change that somebody makes in the target after this time can let the batch succeed.
        """
        failed = self.attempts.failed
        return failed.began if isinstance(failed.error, ApplyError) else None

    def watch(self) -> None:
        """Check whether the query has ended, or works again after a failure.

        Raises:
            SubscriberError: the reason why the query has ended, unless a new query can be started
                at once.
        """
        query, state = self.query, self._state
        if query is None:
            return
        if query.running:
            if self.attempts.error is not None:
                # a batch that failed has committed the transactions before the failure
                state.applied = LSN(max(state.applied, query.applied))
                if state.applied >= state.current_positions()[1]:
                    self.attempts.works()  # nothing is left to apply that could fail again
            return
        failure, self.batch_began = query.failure(), query.batch_began
        query.stop()
        self.query = None
        if isinstance(failure, PublicationsChanged):
            logger.info('subscription "%s": %s', state.subscription.name, failure.message)
        elif isinstance(failure, PublisherTablesOutdated):
            state.refresh_publisher_tables(failure)
        elif failure is not None:
            raise failure

    def start(self) -> None:
        """Start a query if there is a journal. What was received can be applied even while the
        publisher cannot be reached.

        Raises:
            SubscriberError: the journal or the target cannot be reached.
        """
        self._state.read_positions()
        if self._state.positions[0] != INVALID_LSN:
            self._start_query()

    def _start_query(self) -> None:
        state, subscription = self._state, self._state.subscription
        assert state.consumers is not None
        if self.reading.take(MOMENT_SECONDS) is None:
            return
        with state.target.reporting(), state.target.engine.connect() as connection:
            state.applied = subscription.progress.read(connection)
            self.rules.publishing = read_publishing(connection, subscription)
        state.consumers.note_applied(state.applied)
        state.consumers.take_over()
        applier = BulkApplier(
            state.target,
            subscription=subscription.name,
            subid=subscription.subid,
            read_rules=self.rules,
            ask=PublisherAttributes(state.target, subscription),
            on_message=self._on_message,
        )
        applier.deliver_messages()
        self.query = self._pipeline.start_query(
            f"apply {subscription.subid}: {subscription.name}",
            JournalStream(state.consumers.journal, state.applied, self.rules.publishing, self._bound),
            applier,
            self._settings,
            on_applied=self._note_applied,
            turn=self._gate,
            on_failure=self.batch_failed,
        )
        logger.info('apply of subscription "%s" starts at %s', subscription.name, format_lsn(state.applied))

    def _note_applied(self, result: ApplyResult) -> None:
        state = self._state
        state.applied = result.progress
        self.transactions += result.transactions
        self.changes += result.changes
        self.attempts.works()
        assert state.consumers is not None
        state.consumers.note_applied(result.progress)

    def batch_failed(self, error: SubscriberError, began: float) -> float | None:
        """Decide what happens after a batch has failed; the query calls this in the thread that
        applies.

        If the query is to end, :meth:`watch` finds its error later, and the worker records it then.

        Returns:
            The seconds to wait before the next attempt; None if the query is to end.
        """
        if isinstance(error, _NEEDS_ANOTHER_QUERY) or error.stops or self._failures.disables(error):
            return None
        delay = self._failures.note(self.attempts, error, began)
        self._failures.say_when(delay)
        return delay
