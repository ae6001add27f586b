"""The applying half of a worker: a Spark query from the journal into the target, kept running.

A batch that fails is tried again where it is (:mod:`subscriber.pipeline.sink`), in the thread that
applies it, which asks here. The query is started again only when that would not help: it reads by
publications that have changed, or Spark itself has failed.
"""

from __future__ import annotations

import logging
from typing import Final

from subscriber.apply.applier import ApplyResult
from subscriber.apply.exact import ExactApplier
from subscriber.apply.logical_messages import MessageListener
from subscriber.catalog.kept_publishing import read_publishing
from subscriber.errors import ApplyError, PipelineError, PublicationsChanged, PublisherTablesOutdated, SubscriberError
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.pipeline.on_spark import Pipeline
from subscriber.pipeline.streaming_query import ApplyQuery, JournalStream
from subscriber.runtime.attempts import Attempts
from subscriber.runtime.background import Background
from subscriber.runtime.catalog_rules import BatchRules
from subscriber.runtime.failures import FailureLog, is_tried_again
from subscriber.runtime.gate import Gate
from subscriber.runtime.publisher_attributes import PublisherAttributes
from subscriber.runtime.refresh_publisher_tables import refresh_at_start
from subscriber.runtime.worker_state import WorkerState
from subscriber.settings import Settings

logger = logging.getLogger(__name__)

_NEEDS_ANOTHER_QUERY: Final = (PublicationsChanged, PublisherTablesOutdated, PipelineError)
"""Errors of a batch that the same query would meet again: it has filtered by what is no longer
true, or Spark itself has failed.
"""


class ApplyHalf:
    """See the module.

    Args:
        state: the worker's.
        pipeline: starts the query.
        settings: sizes.
        gate: what the batches go through.
        failures: the worker's.
        on_message: called with every logical message.

    Attributes:
        attempts: at applying; a failure has when its batch began to write.
        query: the query; None while none is started.
        batch_began: when the last batch of a query that has ended began to write (monotonic
            seconds).
        rules: what the catalog says about each batch.
        reading: reads the publisher's tables before the first query starts.
        transactions: how many were applied since the worker began.
        changes: how many changes they had.
    """

    def __init__(
        self,
        state: WorkerState,
        pipeline: Pipeline,
        settings: Settings,
        gate: Gate,
        failures: FailureLog,
        on_message: MessageListener | None,
    ) -> None:
        self.attempts = Attempts()
        self.query: ApplyQuery | None = None
        self.batch_began = 0.0
        self.rules = BatchRules(state.subscription)
        self.reading = Background(
            lambda: refresh_at_start(state.target, state.subscription), f"tables of {state.subscription.name}"
        )
        self.transactions = 0
        self.changes = 0
        self._state = state
        self._pipeline = pipeline
        self._settings = settings
        self._gate = gate
        self._failures = failures
        self._on_message = on_message

    @property
    def stuck_since(self) -> float | None:
        """When the batch began that holds a change which cannot be applied (monotonic seconds);
        None where there is none.

        Only a change of the target's own, made after that, can let it go on.
        """
        failed = self.attempts.failed
        return failed.began if isinstance(failed.error, ApplyError) else None

    def watch(self) -> None:
        """Notice that the query has ended, or that it works again.

        Raises:
            SubscriberError: why it has ended, where another query would not do at once.
        """
        query, state = self.query, self._state
        if query is None:
            return
        if query.running:
            if self.attempts.error is not None:
                state.applied = LSN(max(state.applied, query.applied))  # a batch that fails has committed its good part
                if state.applied >= state.current_positions()[1]:
                    self.attempts.works()  # there is nothing to apply that could fail again
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
        """Start a query once there is a journal: what was received can be applied while the
        publisher is away.

        Raises:
            SubscriberError: the journal or the target cannot be reached, or Spark does not start
                the query.
        """
        self._state.read_positions()
        if self._state.positions[0] != INVALID_LSN:
            self._start_query()

    def _start_query(self) -> None:
        state, subscription = self._state, self._state.subscription
        assert state.consumers is not None
        if self.reading.take() is None:
            return
        with state.target.reporting(), state.target.engine.connect() as connection:
            state.applied = subscription.progress.read(connection)
            self.rules.publishing = read_publishing(connection, subscription)
        state.consumers.note_applied(state.applied)
        state.consumers.take_over()
        applier = ExactApplier(
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
            JournalStream(state.consumers.journal, state.applied, self.rules.publishing),
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
        """Asked by the query, in the thread that applies: the seconds to wait, None where the query
        is to end.

        What it ends with :meth:`watch` finds, and the worker notes it then.
        """
        if isinstance(error, _NEEDS_ANOTHER_QUERY) or not is_tried_again(error) or self._failures.disables(error):
            return None
        delay = self._failures.note(self.attempts, error, began)
        self._failures.say_when(delay)
        return delay
