"""Has tables copied, sets synchronized tables to r, and then enables two-phase commit."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from subscriber.base.errors import PublisherTablesOutdated, SubscriberError
from subscriber.base.retry import FailedAttempts, RetryState
from subscriber.base.settings import Settings
from subscriber.catalog import table_states
from subscriber.catalog.subscriptions import set_two_phase_state
from subscriber.catalog.table_states import RelationState, SubscriptionRelation
from subscriber.spark.apply_pause import ApplyPause, WriterLock
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.worker.copy_progress import CopyStatus
from subscriber.worker.failures import NOT_FAILED, FailureLog
from subscriber.worker.receiving import Receiving
from subscriber.worker.sequence_sync import SequenceSync
from subscriber.worker.tablesync import TableSync
from subscriber.worker.worker_state import WorkerState

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncSnapshot:
    """The copies of a subscription's tables, as of one moment; ``failed_tables`` by schema and
    name, with sequences. ``loads_since`` is since when the transaction of a copy is open (monotonic
    seconds).
    """

    rounds: FailedAttempts = field(default_factory=FailedAttempts)
    failed_tables: Mapping[tuple[str, str], FailedAttempts] = field(default_factory=dict)
    copies: tuple[CopyStatus, ...] = ()
    loads_since: float | None = None


class Copying:
    """Keeps the table synchronization of one subscription running, from the first receiver that
    streams on. ``error`` is that of the last failed copy, until every table is ready.
    """

    def __init__(
        self,
        state: WorkerState,
        receiver: Receiving,
        pause: ApplyPause,
        writer_lock: WriterLock,
        *,
        spark: SparkFunctions,
        settings: Settings,
        failures: FailureLog,
    ) -> None:
        self.attempts = RetryState("table synchronization")
        self.sync: TableSync | None = None
        self.error: SubscriberError | None = None
        self._state = state
        self._receiver = receiver
        self._pause = pause
        self._writer_lock = writer_lock
        self._spark = spark
        self._settings = settings
        self._failures = failures
        self._has_new_states = False
        self.sequences = SequenceSync(state, writer_lock, settings, failures)

    def picture(self) -> SyncSnapshot:
        """The copies as they are now; any thread may call this."""
        sync, sequences = self.sync, self.sequences.failed_sequences
        if sync is None:
            return SyncSnapshot(failed_tables=sequences)
        failed = {**sync.failed_tables, **sequences}
        return SyncSnapshot(sync.attempts.failed, failed, tuple(sync.copies), sync.loads_since)

    def synchronize(self) -> None:
        if self.sync is None:
            assert self._state.consumers is not None
            self.sync = TableSync(
                self._state.subscription,
                self._state.target,
                self._state.consumers,
                pause=self._pause,
                writer_lock=self._writer_lock,
                spark=self._spark,
                settings=self._settings,
                on_error=self.copy_failed,
            )
            self.sync.on_end = self._round_ended
            self.sync.attempts = RetryState(self.attempts.stage, self.attempts.on_over)
        self.attempts.record_success()
        if self._has_new_states:
            with contextlib.suppress(SubscriberError):  # the catalog is read again later
                self._has_new_states = False
                self._state.read_relations()
        # The target may have one writer. And a table that becomes ready during a hold may have rows
        # from after the LSN of the hold.
        if not (self.sync.running or self._pause.busy or self._pause.limit is not None):
            with contextlib.suppress(SubscriberError):
                self.make_ready()
                self.enable_two_phase()
        self.sync.tick(self._state.relations.unfinished)
        self.sequences.tick()

    def copy_failed(self, error: SubscriberError, relation: SubscriptionRelation | None) -> None:
        if isinstance(error, PublisherTablesOutdated):
            try:
                self._state.refresh_publisher_tables(error)
            except SubscriberError as failure:
                error = failure
            else:
                return
        self.error = error.without_frames()
        attempts = NOT_FAILED if self.sync is None else self.sync.failed(relation)
        self._failures.record_copy_failure(error, relation, failed=attempts)
        if self._failures.disables(error):
            with contextlib.suppress(SubscriberError):
                self._failures.disable()

    def _round_ended(self) -> None:
        """Let the next tick read what the round has done; it comes at once."""
        self._has_new_states = True
        self._state.wake()

    def make_ready(self) -> None:
        """Set the tables in state s to r whose position the apply worker has passed (D5)."""
        state = self._state
        self._forget_error_when_ready()
        if all(relation.state is not RelationState.SYNCDONE for relation in state.relations.unfinished):
            return
        position = state.reach().position
        with state.target.begin() as connection:
            table_states.make_ready(connection, state.subscription.subid, position)
        state.read_relations()
        self._forget_error_when_ready()

    def enable_two_phase(self) -> None:
        """Enable two-phase commit after the copies (C48): another receiver enables it."""
        state = self._state
        subscription = state.subscription
        if subscription.two_phase_state != "p" or not state.relations or state.relations.unfinished:
            return
        with state.target.begin() as connection:
            set_two_phase_state(connection, subscription.subid, "e")
        state.subscription = replace(subscription, two_phase_state="e")
        logger.info(
            'logical replication apply worker for subscription "%(subscription)s" will restart so that two_phase can be enabled',
            {"subscription": subscription.name},
        )
        self._receiver.restart()

    def _forget_error_when_ready(self) -> None:
        if not self._state.relations.unfinished:
            # the table that could not be copied is no longer part of the subscription
            self.error = None
