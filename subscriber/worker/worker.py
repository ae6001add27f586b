"""The worker of one subscription: keeps receiver and apply running, and has tables copied.

::

             ┌─ Receiving: a walreceiver process ──────┐        failure: wait, then start that part again (``failures``)
    tick ───▶├─ Applying: an apply loop ───────────────├─▶ caught up?
             ├─ Copying: rounds of copies ─────────────┘        changes are lost, or positions contradict each other: stop
             ├─ Retaining: ends the retention of deleted rows
             └─ Pausing: obeys a command that holds the apply

    Receiving ──▶ WorkerState ◀── Applying              what they share: subscription, tables, journal, positions
        └───────── an entry ─────────▲                  wakes the loop (``apply_pause``)
                      └──▶ snapshot() ──▶ code that shows the worker, or waits for it

The parts fail and restart independently.

Invariants:

- ``tick`` and ``end`` do not wait for a server. Work that may wait runs in the background
  (:mod:`subscriber.base.background`), or in a thread that ends a part.
- A worker that has stopped does not start again by itself: the stream must not go past data that
  could not be read. When a command changes the subscription, another worker takes its place.
- Code outside of the worker uses its snapshot.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Final

from subscriber.apply.message_listener import MessageListener
from subscriber.base.errors import SubscriberError, fault
from subscriber.base.retry import RetryState
from subscriber.base.settings import Settings
from subscriber.catalog.counters import WorkerCounters
from subscriber.catalog.leases import Lease
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import TableStates
from subscriber.spark.apply_pause import ApplyPause, WriterLock
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.targets import Target
from subscriber.worker.applying import Applying
from subscriber.worker.copying import Copying
from subscriber.worker.failures import FailureLog
from subscriber.worker.once import OnceTarget
from subscriber.worker.pausing import Pausing
from subscriber.worker.receiving import Receiving, StartProcess
from subscriber.worker.retaining import Retaining
from subscriber.worker.worker_snapshot import WorkerSnapshot
from subscriber.worker.worker_state import WorkerState, needs_restart

logger = logging.getLogger(__name__)

_COUNTERS: Final = tuple(one.name for one in fields(WorkerCounters))

_FAULTLESS_SECONDS: Final = 60.0
"""How long a worker must work after an unexpected error before that error counts as over."""


class SubscriptionWorker:
    """Runs one subscription. ``wake`` lets the supervisor tick at once, from any thread."""

    def __init__(
        self,
        subscription: Subscription,
        target: Target,
        spark: SparkFunctions,
        settings: Settings,
        writer_lock: WriterLock,
        start_process: StartProcess,
        on_message: MessageListener | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._began = time.monotonic()
        self._state = state = WorkerState(target, subscription, wake=wake)
        self._pause = pause = ApplyPause(writer_lock)
        self._failures = failures = FailureLog(state, settings)
        self._receiving = receiving = Receiving(
            state, settings, start_process, messages=on_message is not None, on_entry=pause.wake
        )
        self._pausing = Pausing(state, pause)
        self._retaining = Retaining(state, settings.wal_receiver_status_interval)
        self._applying = applying = Applying(state, spark, settings, pause, failures, on_message)
        self._synchronizing = synchronizing = Copying(
            state, receiving, pause, writer_lock, spark=spark, settings=settings, failures=failures
        )
        self._once_target = OnceTarget(lambda: state.subscription, settings.wal_retrieve_retry_interval)
        self._faults = RetryState("worker")
        for attempts in (receiving.attempts, applying.attempts, synchronizing.attempts, self._faults):
            attempts.on_over = partial(failures.over, attempts.stage)
        self._gave_up = False
        self._ending: list[threading.Thread] = []

    # What is known of it --------------------------------------------------------------------------

    def snapshot(self, *, look: bool = True) -> WorkerSnapshot:
        """The worker's state, for any thread; ``look`` may need a request to a remote journal."""
        state, receiving, applying, synchronizing = self._state, self._receiving, self._applying, self._synchronizing
        # Positions before progress: see WorkerSnapshot.has_applied.
        received, last_entry = state.current_positions() if look else state.positions
        tables = synchronizing.picture()
        busy = [since for since in (self._pause.busy_since, tables.loads_since) if since is not None]
        asking = (
            receiving.adopting,
            receiving.notices.recording,
            self._once_target.writing,
            self._failures.resolving,
            self._pausing.answering,
        )
        return WorkerSnapshot(
            state.subscription,
            began=self._began,
            relations=state.relations,
            stopped=state.stopped,
            disabled=state.disabled,
            receives=receiving.streams,
            applies=applying.loop is not None,
            received=received,
            last_entry=last_entry,
            applied=state.applied,
            transactions=applying.transactions,
            changes=applying.changes,
            receiving=receiving.attempts.failed,
            applying=applying.attempts.failed,
            synchronizing=synchronizing.attempts.failed,
            rounds=tables.rounds,
            once_target_attempts=self._once_target.attempts.failed,
            faults=self._faults.failed,
            copy_error=synchronizing.error or synchronizing.sequences.attempts.error,
            failed_tables=tables.failed_tables,
            copies=tables.copies,
            once_target=self._once_target.position,
            busy_since=min(busy, default=None),
            stuck_since=applying.stuck_since,
            waiting_for=tuple(one.name for one in asking if one.is_under_way()),
            gave_up=self._gave_up,
            counters=WorkerCounters(**{name: int(state.counts[name,]) for name in _COUNTERS}),
            server=receiving.server,
            receiver_pid=receiving.process_id,
            counts=state.counts,
            received_counts=receiving.counts,
            marks=receiving.marks,
            batches=applying.batches,
            applied_at=applying.applied_at,
        )

    @property
    def ended(self) -> bool:
        """Whether all parts have ended after the worker was told to end."""
        self._ending = [thread for thread in self._ending if thread.is_alive()]
        return not self._ending

    def needs_restart(self, stored: Subscription) -> bool:
        """Whether another worker is needed (C39); after a stop, for every command like ENABLE."""
        own = self._state.subscription
        return needs_restart(own, stored) or (self._state.stopped and stored.version != own.version)

    @property
    def is_settled(self) -> bool:
        """Whether an event or the catalog tells of whatever a tick would have to do."""
        return self._pausing.lease is None and self.snapshot(look=False).is_settled

    # Running --------------------------------------------------------------------------------------

    def update(self, stored: Subscription, relations: TableStates, pause: Lease | None = None) -> None:
        """Use what the catalog has now. After a command, what failed is tried again at once."""
        if stored.version != self._state.subscription.version:
            for attempts in (self._receiving.attempts, self._applying.attempts, self._synchronizing.attempts):
                if attempts.error is not None:
                    attempts.wait(0.0)
        self._state.subscription, self._state.relations = stored, relations
        self._pausing.update(pause)

    def catalog_unreachable(self) -> None:
        self._pausing.catalog_unreachable()

    def tick(self) -> None:
        """Check all parts, and start what is due. Never blocks, nor raises a SubscriberError."""
        state, receiving, applying, synchronizing = self._state, self._receiving, self._applying, self._synchronizing
        if not state.stopped:
            self._watch()
        if state.stopped:
            self.end()
            return
        if not self.ended or not self._faults.is_due():
            return
        if self._faults.error is not None and time.monotonic() - self._faults.failed.not_before > _FAULTLESS_SECONDS:
            self._faults.record_success()
        self._pausing.tick()
        self._retaining.tick()
        if state.consumers is not None:
            state.consumers.write_late()
        if receiving.process is None and receiving.attempts.is_due():
            self._attempt(receiving.attempts, receiving.start)
        if receiving.process is not None and receiving.attempts.is_due():
            self._attempt(receiving.attempts, receiving.let_receive)
        if receiving.streams and synchronizing.attempts.is_due() and not state.stopped:
            self._attempt(synchronizing.attempts, synchronizing.synchronize)
        if applying.loop is None and applying.attempts.is_due() and not state.stopped:
            self._attempt(applying.attempts, applying.start)
        now = self.snapshot(look=False)
        if now.failure is None and now.receives and now.applies and not self._pause.busy:
            self._failures.resolve()

    def set_once_target(self) -> None:
        self._once_target.write()

    def fault(self, error: Exception) -> None:
        """End all parts because of an unexpected error, and start them again later."""
        self._failures.record_failure(self._faults, fault("the apply worker failed", error))
        self.end()

    def end(self) -> None:
        """Tell all parts to end, without waiting. What is not durable comes again later."""
        # before the table synchronization is removed
        self._gave_up = self.snapshot(look=False).given_up
        sync, self._synchronizing.sync = self._synchronizing.sync, None
        loop, self._applying.loop = self._applying.loop, None
        receiver, self._receiving.process = self._receiving.process, None
        # All parts are told first, and then waited for: a round of copies may wait for the batch,
        # but the batch waits for no other part.
        if sync is not None:
            sync.cancel()
        if loop is not None:
            loop.cancel()
        for part in (sync, loop, receiver):
            if part is not None:
                thread = threading.Thread(target=part.stop, name=f"end of {self._state.subscription.name}", daemon=True)
                thread.start()
                self._ending.append(thread)

    def stop(self) -> None:
        self.end()
        for thread in self._ending:
            thread.join()

    # Failures -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        failure = self._receiving.watch()
        if failure is not None:
            self._failed(self._receiving.attempts, failure)
        self._attempt(self._applying.attempts, self._applying.watch)

    def _attempt(self, attempts: RetryState, step: Callable[[], None]) -> None:
        try:
            step()
        except SubscriberError as error:
            self._failed(attempts, error)

    def _failed(self, attempts: RetryState, error: SubscriberError) -> None:
        began = self._applying.batch_began if attempts is self._applying.attempts else 0.0
        self._failures.record_failure(attempts, error, began)
        if self._failures.disables(error):
            try:
                self._failures.disable()
            except SubscriberError as away:
                # The catalog in the target cannot be written. The next failure then disables the
                # subscription.
                logger.warning(
                    'subscription "%(subscription)s" cannot be disabled now: %(error)s',
                    {"subscription": self._state.subscription.name, "error": away.message},
                )
        elif error.stops:
            self._stop()

    def _stop(self) -> None:
        self._state.stopped = True
        self.end()
        logger.error(
            'subscription "%(subscription)s" has stopped; after its cause is removed: ALTER SUBSCRIPTION … ENABLE',
            {"subscription": self._state.subscription.name},
        )
