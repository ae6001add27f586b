"""The part of a worker that has the tables copied, sets synchronized tables to state r, and enables
two-phase commit when all tables are ready.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from subscriber import catalog
from subscriber.catalog import RelationState, SubscriptionRelation
from subscriber.errors import PublisherTablesOutdated, SubscriberError
from subscriber.pipeline.on_spark import Pipeline
from subscriber.runtime.attempts import Attempts, FailedAttempts
from subscriber.runtime.copy_progress import CopyStatus
from subscriber.runtime.failures import FailureLog
from subscriber.runtime.gate import Gate, Turn
from subscriber.runtime.receiver_half import ReceiverHalf
from subscriber.runtime.tablesync import TableSync
from subscriber.runtime.worker_state import WorkerState
from subscriber.settings import Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncPicture:
    """The copies of a subscription's tables, as of one moment.

    Attributes:
        rounds: the rounds that have failed as a whole.
        failed_tables: the failed attempts of the tables whose last attempt has failed, by schema
            and name.
        copies: the progress of the copies that are in progress.
        loads_since: since when the transaction of a copy is open (monotonic seconds); None if no
            transaction is open.
    """

    rounds: FailedAttempts = field(default_factory=FailedAttempts)
    failed_tables: Mapping[tuple[str, str], FailedAttempts] = field(default_factory=dict)
    copies: tuple[CopyStatus, ...] = ()
    loads_since: float | None = None


class SyncHalf:
    """Keeps the table synchronization of one subscription running.

    Args:
        state: the state of the worker.
        receiver: the receiving part, which is restarted when two-phase commit is enabled.
        gate: the gate that the batches of the apply worker pass.
        turn: held while the target is written.
        pipeline: copies tables.
        settings: sizes and intervals.
        failures: the failure log of the worker.

    Attributes:
        attempts: the attempts to start the table synchronization.
        sync: the table synchronization; None until a receiver streams, and after the end.
        error: the error of the last copy that has failed; None once every table is ready.
    """

    def __init__(
        self,
        state: WorkerState,
        receiver: ReceiverHalf,
        gate: Gate,
        turn: Turn,
        *,
        pipeline: Pipeline,
        settings: Settings,
        failures: FailureLog,
    ) -> None:
        self.attempts = Attempts()
        self.sync: TableSync | None = None
        self.error: SubscriberError | None = None
        self._state = state
        self._receiver = receiver
        self._gate = gate
        self._turn = turn
        self._pipeline = pipeline
        self._settings = settings
        self._failures = failures
        self._has_new_states = False

    def picture(self) -> SyncPicture:
        """Return the current state of the copies; any thread may call this."""
        sync = self.sync
        if sync is None:
            return SyncPicture()
        return SyncPicture(sync.attempts.failed, sync.failed_tables, tuple(sync.copies), sync.loads_since)

    def synchronize(self) -> None:
        """Have tables copied, set synchronized tables to state r, and enable two-phase commit when
        all tables are ready.

        Raises:
            SubscriberError: the journal cannot be opened.
        """
        if self.sync is None:
            assert self._state.consumers is not None
            self.sync = TableSync(
                self._state.subscription,
                self._state.target,
                self._state.consumers,
                gate=self._gate,
                turn=self._turn,
                pipeline=self._pipeline,
                settings=self._settings,
                on_error=self.copy_failed,
            )
            self.sync.on_end = self._round_ended
        self.attempts.works()
        if self._has_new_states:
            with contextlib.suppress(SubscriberError):  # the catalog is read again later
                self._has_new_states = False
                self._state.read_relations()
        self.sync.tick(self._state.relations.unfinished)
        if self.sync.running or self._gate.busy:
            return  # the target may have one writer
        if self._state.is_held:
            return  # a table that becomes ready may have rows from after the LSN of the hold
        with contextlib.suppress(SubscriberError):
            self.make_ready()
            self.enable_two_phase()

    def copy_failed(self, error: SubscriberError, relation: SubscriptionRelation | None) -> None:
        """Record why a copy or a round of copies has failed. The thread of the round calls this."""
        if isinstance(error, PublisherTablesOutdated):
            try:
                self._state.refresh_publisher_tables(error)
            except SubscriberError as failure:
                error = failure
            else:
                return
        self.error = error.without_frames()
        self._failures.note_copy(error, relation)
        if self._failures.disables(error):
            with contextlib.suppress(SubscriberError):
                self._failures.disable()

    def _round_ended(self) -> None:
        """Let the next tick read what the round has done; it comes at once."""
        self._has_new_states = True
        self._state.wake()

    def make_ready(self) -> None:
        """Set the tables to state r that are in state s and whose position the apply worker has
        passed (D5).

        Raises:
            TargetUnavailable: the catalog cannot be read or written.
        """
        state = self._state
        self._forget_error_when_ready()
        if all(relation.state is not RelationState.SYNCDONE for relation in state.relations.unfinished):
            return
        received, last = state.current_positions()
        # If nothing is left to apply, the position is the LSN up to which the journal has received.
        position = received if last <= state.applied else state.applied
        state.read_relations()
        passed = [
            relation
            for relation in state.relations.unfinished
            if relation.state is RelationState.SYNCDONE and relation.lsn is not None and relation.lsn <= position
        ]
        if not passed:
            return
        with state.target.begin() as connection:
            catalog.make_ready(connection, state.subscription.subid, passed)
        state.read_relations()
        self._forget_error_when_ready()

    def enable_two_phase(self) -> None:
        """Enable two-phase commit, which had to wait for the copies (C48). The receiver is
        restarted, and enables it for the slot.

        Raises:
            TargetUnavailable: the catalog cannot be written.
        """
        state = self._state
        subscription = state.subscription
        if subscription.two_phase_state != "p" or not state.relations or state.relations.unfinished:
            return
        with state.target.begin() as connection:
            catalog.set_two_phase_state(connection, subscription.subid, "e")
        state.subscription = replace(subscription, two_phase_state="e")
        logger.info(
            'logical replication apply worker for subscription "%s" will restart so that two_phase can be enabled',
            subscription.name,
        )
        self._receiver.restart()

    def _forget_error_when_ready(self) -> None:
        if not self._state.relations.unfinished:
            # the table that could not be copied is no longer part of the subscription
            self.error = None
