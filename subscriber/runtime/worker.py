"""The worker of one subscription: it keeps the receiver and the query running, and has the tables
copied.

::

             ┌─ ReceiverHalf: a walreceiver process ───┐        failure: wait, then start that part again (``failures``)
    tick ───▶│─ ApplyHalf: a Spark query ──────────────├─▶ caught up?
             ├─ SyncHalf: rounds of copies ────────────┘        changes are lost, or positions contradict each other: stop
             └─ HoldHalf: obeys a command that holds the apply

    ReceiverHalf ──▶ WorkerState ◀── ApplyHalf           what they share: subscription, tables, journal, positions
                         └──▶ snapshot() ──▶ code that shows the worker, or waits for it

The parts fail and restart independently: while the target cannot be reached, the receiver goes on,
and while the publisher cannot be reached, the query goes on.

Invariants:

- ``tick`` and ``end`` do not wait for a server. Work that may wait runs in the background
  (:mod:`subscriber.runtime.background`), or in a thread that ends a part.
- A worker that has stopped does not start again by itself: the stream must not go past data that
  could not be read. When a command changes the subscription, another worker takes its place.
- Code outside of the worker does not read its parts. It uses the snapshot of the worker.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from subscriber.apply.logical_messages import MessageListener
from subscriber.catalog import ApplyHold, Subscription, TableStates
from subscriber.errors import PipelineError, SubscriberError
from subscriber.pipeline.on_spark import Pipeline
from subscriber.runtime.apply_half import ApplyHalf
from subscriber.runtime.attempts import Attempts
from subscriber.runtime.failures import FailureLog
from subscriber.runtime.gate import Gate, Turn
from subscriber.runtime.hold_half import HoldHalf
from subscriber.runtime.mark import Mark
from subscriber.runtime.receiver_half import ReceiverHalf
from subscriber.runtime.spare_receiver import SpareReceiver
from subscriber.runtime.sync_half import SyncHalf
from subscriber.runtime.worker_snapshot import WorkerSnapshot
from subscriber.runtime.worker_state import WorkerState, needs_restart
from subscriber.settings import Settings
from subscriber.targets import Target

logger = logging.getLogger(__name__)

_FAULTLESS_SECONDS: Final = 60.0
"""How long a worker must work after an unexpected error before that error counts as over."""


class SubscriptionWorker:
    """Runs one subscription; see the module's docstring.

    Args:
        subscription: the subscription.
        target: the target that the changes are applied to.
        pipeline: starts the query, and copies tables.
        settings: timeouts and sizes.
        turn: held while the target is written.
        spare: the processes for receivers.
        on_message: called with every logical message of the publisher; with None the publisher is
            not asked to send logical messages.
        wake: lets the supervisor tick at once; any thread may call it.
    """

    def __init__(
        self,
        subscription: Subscription,
        target: Target,
        pipeline: Pipeline,
        settings: Settings,
        turn: Turn,
        spare: SpareReceiver,
        on_message: MessageListener | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._began = time.monotonic()
        self._state = state = WorkerState(target, subscription, wake=wake)
        self._gate = gate = Gate(turn)
        self._failures = failures = FailureLog(state, settings)
        self._receiving = ReceiverHalf(state, settings, spare, messages=on_message is not None)
        self._holding = HoldHalf(state, gate)
        self._applying = ApplyHalf(state, pipeline, settings, gate, failures, on_message, self._holding.bound)
        self._synchronizing = SyncHalf(
            state, self._receiving, gate, turn, pipeline=pipeline, settings=settings, failures=failures
        )
        self._mark = Mark(lambda: state.subscription, settings.wal_retrieve_retry_interval)
        self._faults = Attempts()
        self._gave_up = False
        self._ending: list[threading.Thread] = []

    # What is known of it --------------------------------------------------------------------------

    def snapshot(self, *, look: bool = True) -> WorkerSnapshot:
        """Return the current state of the worker; any thread may call this.

        Args:
            look: whether to read the positions of the journal now, which may need a request to a
                remote journal; otherwise the positions are those that were read last.
        """
        state, receiving, applying, synchronizing = self._state, self._receiving, self._applying, self._synchronizing
        # Positions before progress: see WorkerSnapshot.has_applied.
        received, last_entry = state.current_positions() if look else state.positions
        tables = synchronizing.picture()
        busy = [since for since in (self._gate.busy_since, tables.loads_since) if since is not None]
        asking = (
            receiving.adopting,
            receiving.notices.recording,
            applying.reading,
            self._mark.writing,
            self._failures.resolving,
            self._holding.answering,
        )
        return WorkerSnapshot(
            state.subscription,
            began=self._began,
            relations=state.relations,
            stopped=state.stopped,
            disabled=state.disabled,
            receives=receiving.streams,
            applies=applying.query is not None,
            received=received,
            last_entry=last_entry,
            applied=state.applied,
            transactions=applying.transactions,
            changes=applying.changes,
            receiving=receiving.attempts.failed,
            applying=applying.attempts.failed,
            synchronizing=synchronizing.attempts.failed,
            rounds=tables.rounds,
            marking=self._mark.attempts.failed,
            faults=self._faults.failed,
            copy_error=synchronizing.error,
            failed_tables=tables.failed_tables,
            copies=tables.copies,
            mark=self._mark.position,
            busy_since=min(busy, default=None),
            stuck_since=applying.stuck_since,
            waiting_for=tuple(one.name for one in asking if one.is_under_way()),
            gave_up=self._gave_up,
            notices=receiving.notices.count,
            server=receiving.server,
        )

    @property
    def ended(self) -> bool:
        """Whether all parts have ended after the worker was told to end."""
        self._ending = [thread for thread in self._ending if thread.is_alive()]
        return not self._ending

    def needs_restart(self, stored: Subscription) -> bool:
        """Return whether the subscription has changed in a way that needs another worker (rule
        C39). If this one has stopped, every command that writes the subscription does, such as
        ENABLE.
        """
        own = self._state.subscription
        return needs_restart(own, stored) or (self._state.stopped and stored.version != own.version)

    # Running --------------------------------------------------------------------------------------

    def take_up(self, stored: Subscription, relations: TableStates, hold: ApplyHold | None = None) -> None:
        """Use the subscription, the table states and the hold that the catalog has now. The
        subscription may differ only in what needs no restart. After a command, what failed is
        tried again at once.
        """
        if stored.version != self._state.subscription.version:
            for attempts in (self._receiving.attempts, self._applying.attempts, self._synchronizing.attempts):
                if attempts.error is not None:
                    attempts.wait(0.0)
        self._state.subscription, self._state.relations = stored, relations
        self._holding.take_up(hold)

    def lose_sight(self) -> None:
        """Note that the catalog cannot be read now."""
        self._holding.lose_sight()

    def tick(self) -> None:
        """Check all parts, and start what is due. This never blocks for long and never raises a
        SubscriberError.
        """
        state, receiving, applying, synchronizing = self._state, self._receiving, self._applying, self._synchronizing
        if not state.stopped:
            self._watch()
        if state.stopped:
            self.end()
            return
        if not self.ended or not self._faults.is_due():
            return
        if self._faults.error is not None and time.monotonic() - self._faults.failed.not_before > _FAULTLESS_SECONDS:
            self._faults.works()
        self._holding.tick()
        if state.consumers is not None:
            state.consumers.write_late()
        if receiving.process is None and receiving.attempts.is_due():
            self._attempt(receiving.attempts, receiving.start)
        if receiving.process is not None and receiving.attempts.is_due():
            self._attempt(receiving.attempts, receiving.let_receive)
        if receiving.streams and synchronizing.attempts.is_due() and not state.stopped:
            self._attempt(synchronizing.attempts, synchronizing.synchronize)
        if applying.query is None and applying.attempts.is_due() and not state.stopped:
            self._attempt(applying.attempts, applying.start)
        now = self.snapshot(look=False)
        if now.failure is None and now.receives and now.applies and not self._gate.busy:
            self._failures.resolve()

    def set_mark(self) -> None:
        """Have the mark written that :attr:`WorkerSnapshot.caught_up` compares with. It is written
        in the background; a later call finds the result.
        """
        self._mark.write()

    def fault(self, error: Exception) -> None:
        """End all parts because of an unexpected error, and start them again later. The other
        subscriptions are not affected.
        """
        place = traceback.extract_tb(error.__traceback__)[-1]
        found = PipelineError(
            "the apply worker failed",
            # The text of the error is left out, because it may contain values.
            detail=f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}",
            hint="This is a fault of the program: please report it.",
        )
        self._failures.say_when(self._failures.note(self._faults, found))
        self.end()

    def end(self) -> None:
        """Tell all parts to end, and do not wait for that: :attr:`ended` is true when they have
        ended. Data that is not durable or not committed is sent or applied again later.
        """
        # before the table synchronization is removed
        self._gave_up = self.snapshot(look=False).given_up
        sync, self._synchronizing.sync = self._synchronizing.sync, None
        query, self._applying.query = self._applying.query, None
        receiver, self._receiving.process = self._receiving.process, None
        # All parts are told first, and then waited for: a round of copies may wait for the batch,
        # but the batch waits for no other part.
        if sync is not None:
            sync.cancel()
        if query is not None:
            query.cancel()
        for part in (sync, query, receiver):
            if part is not None:
                thread = threading.Thread(target=part.stop, name=f"end of {self._state.subscription.name}", daemon=True)
                thread.start()
                self._ending.append(thread)

    def stop(self) -> None:
        """End all parts, and wait for their end."""
        self.end()
        for thread in self._ending:
            thread.join()

    # Failures -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Check which parts have ended, and which work again after a failure."""
        failure = self._receiving.watch()
        if failure is not None:
            self._failed(self._receiving.attempts, failure)
        self._attempt(self._applying.attempts, self._applying.watch)

    def _attempt(self, attempts: Attempts, step: Callable[[], None]) -> None:
        try:
            step()
        except SubscriberError as error:
            self._failed(attempts, error)

    def _failed(self, attempts: Attempts, error: SubscriberError) -> None:
        began = self._applying.batch_began if attempts is self._applying.attempts else 0.0
        delay = self._failures.note(attempts, error, began)
        if self._failures.disables(error):
            try:
                self._failures.disable()
            except SubscriberError as away:
                # The catalog in the target cannot be written. The next failure then disables the
                # subscription.
                name = self._state.subscription.name
                logger.warning('subscription "%s" cannot be disabled now: %s', name, away.message)
                self._failures.say_when(delay)
        elif error.stops:
            self._stop()
        else:
            self._failures.say_when(delay)

    def _stop(self) -> None:
        self._state.stopped = True
        self.end()
        logger.error(
            'subscription "%s" has stopped; after its cause is removed: ALTER SUBSCRIPTION … ENABLE',
            self._state.subscription.name,
        )
