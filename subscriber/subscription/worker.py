"""The apply worker of one subscription: a walreceiver process and a Spark query, kept running.

::

             ┌─ starting ─▶ receiver running ──┐            transient failure: wait, then start that half again
    tick ───▶│                                 ├─▶ caught up?   (0.5 s, doubling up to wal_retrieve_retry_interval)
             └─ starting ─▶ query running ─────┘            lasting failure: stay stopped, say why

The two halves fail and restart independently: while the target is away the receiver goes on, and the other way round.
Lasting are failures that the next attempt would only repeat without anybody noticing: a message that does not decode, a
gap in the journal, a slot that is gone. A change that cannot be applied is retried for ever, as PostgreSQL's worker does (rule
C35): somebody may remove the conflicting row.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from subscriber.apply import progress
from subscriber.apply.conflict import conflict_kind
from subscriber.apply.exact import ApplyResult, ExactApplier
from subscriber.errors import ApplyError, ProgressConflict, SubscriberError
from subscriber.journal.reader import journal_positions
from subscriber.journal.retention import write_consumer
from subscriber.journal.storage import journal_url, open_storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.pipeline.query import ApplyQuery, StartQuery
from subscriber.protocol.messages import Relation
from subscriber.receive.publisher import Publisher, connect_publisher
from subscriber.settings import Settings
from subscriber.subscription import catalog
from subscriber.subscription.catalog import Subscription
from subscriber.subscription.receiver import ReceiverProcess
from subscriber.subscription.walreceiver import Assignment
from subscriber.target import Target

logger = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS: Final = 0.5
PATIENT_FAILURES: Final = 5
"""How many failures in a row `run --once` puts up with: about ten seconds of a publisher or target that restarts."""


@dataclass(slots=True)
class Half:
    """How one half of a worker is doing.

    Attributes:
        error: its last failure; None once it works again.
        failures: in a row.
        failed_attempts: since the worker began.
        not_before: monotonic seconds; it is not started again earlier.
    """

    error: SubscriberError | None = None
    failures: int = 0
    failed_attempts: int = 0
    not_before: float = 0.0

    def failed(self, error: SubscriberError, longest: float) -> float:
        """Note a failure; gives the seconds to wait."""
        delay = float(min(longest, _FIRST_RETRY_SECONDS * 2**self.failures))
        self.error = error
        self.failures += 1
        self.failed_attempts += 1
        self.not_before = time.monotonic() + delay
        return delay

    def works(self) -> None:
        """Forget the failures."""
        self.error = None
        self.failures = 0


class SubscriptionWorker:
    """See the module.

    Attributes:
        subscription: what it works for.
        stopped: whether it has failed for good.
        applied: the target's progress, once known.
        transactions: how many were applied since the start.
        changes: how many changes they had.
    """

    def __init__(
        self,
        subscription: Subscription,
        target: Target,
        start_query: StartQuery,
        settings: Settings,
        turn: contextlib.AbstractContextManager[Any],
    ) -> None:
        self.subscription = subscription
        self.stopped = False
        self.applied = INVALID_LSN
        self.transactions = 0
        self.changes = 0
        self._target = target
        self._new_query = start_query
        self._settings = settings
        self._turn = turn
        self._receiver: ReceiverProcess | None = None
        self._query: ApplyQuery | None = None
        self._receiving = Half()
        self._applying = Half()
        self._stuck_since = 0.0
        self._barrier: LSN | None = None
        self._journal = ""

    # Running --------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Look after both halves; never blocks for long and never raises a SubscriberError."""
        if not self.stopped:
            self._watch()
        if self.stopped:
            return
        now = time.monotonic()
        if self._receiver is None and now >= self._receiving.not_before:
            self._attempt(self._receiving, self._start_receiver)
        if self._query is None and self._journal_exists() and now >= self._applying.not_before and not self.stopped:
            self._attempt(self._applying, self._start_query)

    def stop(self) -> None:
        """End both halves; what is not durable or not committed comes again."""
        query, self._query = self._query, None
        receiver, self._receiver = self._receiver, None
        if query is not None:
            query.stop()
        if receiver is not None:
            receiver.stop()

    def wants_caught_up(self) -> None:
        """Set the mark that :meth:`caught_up` asks for: everything the publisher has committed by now."""
        with connect_publisher(self.subscription.conninfo, self.subscription.name) as server:
            self._barrier = Publisher(server).write_barrier()

    @property
    def failure(self) -> SubscriberError | None:
        """The last failure of the half that does not work; None while both do."""
        return self._receiving.error or self._applying.error

    @property
    def given_up(self) -> bool:
        """Whether somebody who waits for it should not: it is stopped, or has failed several times in a row."""
        return self.stopped or max(self._receiving.failures, self._applying.failures) >= PATIENT_FAILURES

    @property
    def failed_attempts(self) -> tuple[int, int]:
        """How often the receiver and the query have failed since the worker began."""
        return self._receiving.failed_attempts, self._applying.failed_attempts

    @property
    def stuck_since(self) -> float | None:
        """When the batch began that holds a change which cannot be applied (monotonic seconds); None where there is none.

        Only a change of the target's own, made after that, can let it go on.
        """
        return self._stuck_since if isinstance(self._applying.error, ApplyError) else None

    @property
    def has_mark(self) -> bool:
        """Whether the mark is set."""
        return self._barrier is not None

    def caught_up(self) -> bool:
        """Whether everything up to the mark is in the target."""
        if self._barrier is None or self._query is None or not self._journal:
            return False
        received, last = self.positions()
        return received >= self._barrier and self.applied >= last

    def positions(self) -> tuple[LSN, LSN]:
        """How far the journal has received, and where its last entry ends."""
        return journal_positions(self._journal) if self._journal else (INVALID_LSN, INVALID_LSN)

    @property
    def state(self) -> str:
        """One word for people."""
        if self.stopped:
            return "stopped"
        if self.failure is not None:
            return "retrying"
        return "streaming" if self._receiver_ready() and self._query is not None else "starting"

    def summary(self) -> str:
        """One line for people."""
        received, last = self.positions()
        return (
            f"{self.subscription.name} {self.state}, received {format_lsn(received)}, applied {format_lsn(self.applied)},"
            f" lag {max(0, last - self.applied):,} B, {self.transactions:,} transactions, {self.changes:,} changes"
        )

    # The two halves ---------------------------------------------------------------------------------

    def _receiver_ready(self) -> bool:
        return self._receiver is not None and self._receiver.streaming

    def _journal_exists(self) -> bool:
        """What was received can be applied while the publisher is away."""
        return self.positions()[0] != INVALID_LSN

    def _attempt(self, half: Half, start: Callable[[], None]) -> None:
        try:
            start()
        except SubscriberError as error:
            self._failed(half, error)

    def _watch(self) -> None:
        """Notice what ended, and what works again."""
        if self._receiver is not None and not self._receiver.running:
            error = self._receiver.failure()
            self._receiver.stop()
            self._receiver = None
            self._failed(self._receiving, error)
        elif self._receiver_ready() and self._receiving.error is not None and self._receiving_for_long():
            self._receiving.works()
        if self._query is not None and not self._query.running:
            failure = self._query.failure()
            self._stuck_since = self._query.batch_began
            self._query.stop()
            self._query = None
            if failure is not None:
                self._failed(self._applying, failure)
        elif self._query is not None and self._applying.error is not None and self.applied >= self.positions()[1]:
            self._applying.works()  # there is nothing to apply that could fail again

    def _receiving_for_long(self) -> bool:
        """A receiver that only just streams may meet the same obstacle again."""
        return time.monotonic() - self._receiving.not_before >= self._settings.wal_retrieve_retry_interval

    def _failed(self, half: Half, error: SubscriberError) -> None:
        logger.error('subscription "%s": %s', self.subscription.name, error.report())
        self._record(error)
        delay = half.failed(error, self._settings.wal_retrieve_retry_interval)
        if error.transient or (isinstance(error, ApplyError) and not isinstance(error, ProgressConflict)):
            logger.info('subscription "%s": trying again in %.1f s', self.subscription.name, delay)
        else:
            self.stopped = True
            self.stop()

    def _record(self, error: SubscriberError) -> None:
        try:
            with self._target.begin() as connection:
                catalog.record_error(connection, self.subscription.name, error.report())
                kind = conflict_kind(error)
                if kind is not None:
                    # Counted here: the transaction that met it was rolled back, and a counter in it with it.
                    progress.count_conflicts(connection, self.subscription.subid, self.subscription.name, {kind: 1})
        except SubscriberError:
            # The target itself may be what failed; the log has the error.
            logger.debug("could not record an error in the target")

    def _start_receiver(self) -> None:
        applied = self._first_position()
        options = self.subscription.options
        assert self.subscription.slot_name is not None
        assert self.subscription.system_identifier is not None
        self._journal = journal_url(
            self._settings.journal, self.subscription.system_identifier, self.subscription.slot_name
        )
        self._receiver = ReceiverProcess(
            Assignment(
                subscription=self.subscription.name,
                conninfo=self.subscription.conninfo,
                slot=self.subscription.slot_name,
                publications=self.subscription.publications,
                streaming=options.streaming,
                two_phase=options.two_phase,
                origin=options.origin,
                system_identifier=self.subscription.system_identifier,
                journal=self._journal,
                applied_lsn=applied,
            )
        )

    def _first_position(self) -> LSN:
        """The target's progress; a subscription that never ran begins where its slot does.

        Read once: only this worker advances it, and a receiver must be able to start again while the target is away.
        """
        if self.applied != INVALID_LSN:
            return self.applied
        with self._target.reporting(), self._target.engine.connect() as connection:
            self.applied = progress.read_progress(connection, self.subscription.origin)
        if self.applied != INVALID_LSN:
            return self.applied
        assert self.subscription.slot_name is not None
        with connect_publisher(self.subscription.conninfo, self.subscription.name) as server:
            confirmed = Publisher(server).check_slot(self.subscription.slot_name).confirmed_flush_lsn
        with self._target.begin() as connection:
            progress.advance_progress(connection, self.subscription.origin, INVALID_LSN, confirmed)
        self.applied = confirmed
        return confirmed

    def _start_query(self) -> None:
        with self._target.reporting(), self._target.engine.connect() as connection:
            self.applied = progress.read_progress(connection, self.subscription.origin)
            ready = catalog.ready_relations(connection, self.subscription.subid)
        write_consumer(open_storage(self._journal), self.subscription.name, self.applied)
        applier = ExactApplier(
            self._target,
            subscription=self.subscription.name,
            subid=self.subscription.subid,
            should_apply=_RelationFilter(self.subscription.name, ready),
        )
        self._query = self._new_query(
            self.subscription.name,
            self._journal,
            applier,
            self.applied,
            self._settings,
            on_applied=self._note_applied,
            turn=self._turn,
        )
        logger.info('apply of subscription "%s" starts at %s', self.subscription.name, format_lsn(self.applied))

    def _note_applied(self, result: ApplyResult) -> None:
        self.applied = result.progress
        self.transactions += result.transactions
        self.changes += result.changes
        self._applying.works()
        write_consumer(open_storage(self._journal), self.subscription.name, result.progress)


class _RelationFilter:
    """Rule C4: changes of relations that the subscription does not know are ignored; said once each."""

    def __init__(self, subscription: str, ready: frozenset[tuple[str, str]]) -> None:
        self._subscription = subscription
        self._ready = ready
        self._said: set[str] = set()

    def __call__(self, relation: Relation, _finish_lsn: LSN) -> bool:
        if (relation.namespace, relation.name) in self._ready:
            return True
        if relation.qualified_name not in self._said:
            self._said.add(relation.qualified_name)
            logger.warning(
                'subscription "%s" ignores changes of relation "%s": it was not published when the subscription was created',
                self._subscription,
                relation.qualified_name,
            )
        return False
