"""``subscriber run``: the supervisor runs a worker for every enabled subscription of one target.

::

    catalog ──read every 0.2 to 1 s──▶ wanted ──▶ start, replace or end workers ──▶ tick each ──▶ done? ──▶ again, 0.1 s later
                                                                                                            or when woken

A command on this machine, an event of a receiver, the end of an apply loop, and the end of work in
the background wake it. While all workers are settled, only these are waited for, for half a second.

A subscription that fails neither stops nor delays the others. An unexpected error stops only the
worker in which it occurs. The next worker for a subscription starts when the last one has ended.
Only the end of Spark ends all workers.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from subscriber.apply.message_listener import MessageListener
from subscriber.base.errors import SubscriberError
from subscriber.base.retry import PATIENT_FAILURES
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import target_identifier
from subscriber.catalog.released import released_slots
from subscriber.catalog.subscriptions import Subscription
from subscriber.commands.consumers import collect_consumers
from subscriber.commands.wake import watched_folder
from subscriber.spark.apply_pause import WriterLock
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.targets import Target
from subscriber.worker import once
from subscriber.worker.catalog_watch import CatalogWatch, EnabledSubscriptions
from subscriber.worker.receiving import start_receiver
from subscriber.worker.worker import SubscriptionWorker
from subscriber.worker.worker_snapshot import WorkerSnapshot

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.1
_TICKS_SETTLED: Final = 5
"""How many times as long a tick takes while all workers are settled."""
_LOOK_SECONDS: Final = 0.02
"""How often it is checked, between two ticks, whether something has happened."""
_CATALOG_SECONDS: Final = 1.0
_SIGNAL_SECONDS: Final = 0.5
"""How long a signal may take that stops this process after it has ended Spark."""


class Supervisor:
    """Runs the workers; with ``once`` until all subscriptions have caught up. Without a
    ``writer_lock``, the loops share one if the target has one writer. Without ``on_message`` the
    publishers are not asked to send logical messages. ``looped_at`` is when it last went round its
    loop (monotonic seconds).
    """

    def __init__(
        self,
        target: Target,
        spark: SparkFunctions,
        settings: Settings,
        *,
        once: bool,
        writer_lock: WriterLock | None = None,
        on_message: MessageListener | None = None,
        tick_seconds: float = _TICK_SECONDS,
        catalog_seconds: float = _CATALOG_SECONDS,
    ) -> None:
        self.workers: dict[int, SubscriptionWorker] = {}
        self.looped_at: float | None = None
        self.catalog_watch = CatalogWatch(target, catalog_seconds, watched_folder(settings))
        self._target = target
        self._spark = spark
        self._settings = settings
        self._once = once
        self._on_message = on_message
        self._writer_lock = writer_lock or (
            threading.Lock() if target.capabilities.single_writer else contextlib.nullcontext()
        )
        self._tick_seconds = tick_seconds
        self._woken = threading.Event()
        self._is_warm = False
        self._collection = ConsumerCollection(target, settings)
        self._ending: dict[int, SubscriptionWorker] = {}
        self._seems_done_since: int | None = None
        self._worked_for: dict[int, str] = {}
        self._disabled_by: dict[int, SubscriberError | None] = {}

    def run(self, stop: threading.Event, on_tick: Callable[[Supervisor], None] | None = None) -> bool:
        """Run the workers until ``stop`` is set, and return whether the run was successful.

        With ``once`` the run ends when every subscription has caught up or given up, and is
        successful if everything is done that :mod:`subscriber.worker.once` describes. Otherwise it
        ends when every worker has stopped for good, and is successful if no worker has. The errors
        are those of the first read of the catalog, and of Spark.
        """
        finished = False
        try:
            while not stop.is_set():
                self._check_spark(stop)
                self._reconcile()
                for worker in self.workers.values():
                    self._tick(worker, stop)
                self.looped_at = time.monotonic()
                if on_tick is not None:
                    on_tick(self)
                finished = self._finished()
                if finished:
                    break
                if not self._once:
                    self._warm_up()
                self._wait_for_tick(stop)
            if self._once:
                return once.has_done_everything(self._target, self._outcome(finished=finished))
        finally:
            workers = [*self.workers.values(), *self._ending.values()]
            for worker in workers:
                worker.end()
            for worker in workers:
                worker.stop()
        return not any(one.stopped for one in self.snapshots(look=False).values())

    def snapshots(self, *, look: bool = True) -> dict[int, WorkerSnapshot]:
        return {subid: worker.snapshot(look=look) for subid, worker in dict(self.workers).items()}

    @property
    def jvm_pid(self) -> int | None:
        return self._spark.jvm_pid()

    @property
    def busy_since(self) -> float | None:
        """Since when a worker holds the target with a batch or a copy (monotonic seconds)."""
        workers = [*dict(self.workers).values(), *dict(self._ending).values()]
        moments = [worker.snapshot(look=False).busy_since for worker in workers]
        return min((moment for moment in moments if moment is not None), default=None)

    def _wait_for_tick(self, stop: threading.Event) -> None:
        due = time.monotonic() + self._tick_seconds * (_TICKS_SETTLED if self._is_settled() else 1)
        while not (stop.is_set() or self.catalog_watch.is_due() or time.monotonic() >= due):
            if self._woken.wait(min(_LOOK_SECONDS, self._tick_seconds)):
                break
        self._woken.clear()

    def _is_settled(self) -> bool:
        workers = self.workers.values()
        return not (self._once or self._ending) and all(worker.is_settled for worker in workers)

    def _check_spark(self, stop: threading.Event) -> None:
        """Return if Spark starts or works, or if the run is to end."""
        try:
            self._spark.check()
        except SubscriberError:
            # The signal that stops this process may have ended Spark, too.
            if not stop.wait(_SIGNAL_SECONDS):
                raise

    def _warm_up(self) -> None:
        if not self._is_warm and all(one.is_idle for one in self.snapshots(look=False).values()):
            self._is_warm = self._spark.warm_up()

    def _tick(self, worker: SubscriptionWorker, stop: threading.Event) -> None:
        try:
            worker.tick()
            self._set_once_target(worker)
        except Exception as error:
            if stop.is_set():
                return  # the signal that stops this process may have ended Spark, too
            if self._spark.has_ended():
                raise
            worker.fault(error)

    def _set_once_target(self, worker: SubscriptionWorker) -> None:
        """With ``once``, have its target written as soon as the publisher can be queried."""
        if not self._once:
            return
        now = worker.snapshot(look=False)
        if not now.stopped and now.once_target is None and now.receives:
            worker.set_once_target()  # without a check of the publisher's history its position means nothing

    def _finished(self) -> bool:
        if self._ending:
            return False  # the next worker of the same subscription may be about to start
        workers = self.snapshots(look=self._once).values()
        if self._once:
            return self._is_done_after_another_poll(all(one.caught_up or one.given_up for one in workers))
        # A subscription that was disabled because of an error may be enabled again.
        return bool(workers) and all(one.stopped and not one.disabled for one in workers)

    def _is_done_after_another_poll(self, seems_done: bool) -> bool:
        """Whether all seems done after another read: a command may have changed a subscription."""
        watch = self.catalog_watch
        if not seems_done:
            self._seems_done_since = None
        elif self._seems_done_since is None:
            self._seems_done_since = watch.polls
            watch.poll_soon()
        return self._seems_done_since is not None and (
            watch.polls > self._seems_done_since or watch.failed_polls >= PATIENT_FAILURES
        )

    def _outcome(self, *, finished: bool) -> once.Outcome:
        return once.Outcome(
            finished=finished,
            has_polled=self.catalog_watch.polls > 0,
            catalog_is_known=not self.catalog_watch.failed_polls,
            subscriptions=self.catalog_watch.subscriptions,
            worked_for=self._worked_for,
            workers=self.snapshots(),
            disabled_by=self._disabled_by,
        )

    # The catalog ----------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        self._reap_ended()
        wanted = self.catalog_watch.poll()
        if wanted is None:
            if self.catalog_watch.failed_polls:
                for worker in self.workers.values():
                    worker.catalog_unreachable()
            return
        if not wanted and self.catalog_watch.polls == 1 and not self._once:
            logger.warning("no subscription is enabled in this target")
        self._end_unwanted(wanted)
        self._reap_ended()
        if not self._ending:
            # A worker that is still ending may write its consumer's position once more.
            self._collection.collect(self.catalog_watch.subscriptions)
        for subid, (subscription, relations) in wanted.items():
            self._worked_for[subid] = subscription.name
            self._disabled_by.pop(subid, None)
            if subid in self._ending:
                continue
            if subid not in self.workers:
                self.workers[subid] = SubscriptionWorker(
                    subscription,
                    self._target,
                    self._spark,
                    self._settings,
                    self._writer_lock,
                    partial(start_receiver, self._spark.fork_server),
                    self._on_message,
                    self._woken.set,
                )
            self.workers[subid].update(subscription, relations, self.catalog_watch.pauses.get(subid))

    def _end_unwanted(self, wanted: EnabledSubscriptions) -> None:
        for subid, worker in list(self.workers.items()):
            if subid in wanted and not worker.needs_restart(wanted[subid][0]):
                continue
            now = worker.snapshot(look=False)
            logger.info(
                'subscription "%(subscription)s" was dropped, disabled or changed',
                {"subscription": now.subscription.name},
            )
            if now.disabled:
                self._disabled_by[subid] = now.failure
            self._ending[subid] = self.workers.pop(subid)
            worker.end()

    def _reap_ended(self) -> None:
        """Remove the workers that have ended, so that new ones can start in their places."""
        for subid, worker in list(self._ending.items()):
            if worker.ended:
                del self._ending[subid]
                self.catalog_watch.poll_soon()


_AGAIN_SECONDS: Final = 60.0
"""The interval between two attempts if a journal cannot be reached."""


class ConsumerCollection:
    """Removes consumers of a target that are no longer needed, so that journals can be trimmed."""

    def __init__(self, target: Target, settings: Settings) -> None:
        self._target = target
        self._settings = settings
        self._collected: object = None
        self._again = 0.0

    def collect(self, subscriptions: Sequence[Subscription]) -> None:
        """Do so if subscriptions have changed; journals that are away are tried again later."""
        slots = [(one.subid, one.system_identifier, one.slot_name, one.slot_adopted) for one in subscriptions]
        if slots == self._collected and time.monotonic() < self._again:
            return
        try:
            with self._target.reporting(), self._target.engine.connect() as connection:
                identifier = target_identifier(connection)
                released = [(one.system_identifier, one.slot) for one in released_slots(connection)]
            removed, complete = collect_consumers(self._settings.journal, identifier, subscriptions, keep=released)
        except SubscriberError as error:
            logger.debug("consumers of dropped subscriptions could not be removed from the journals: %s", error.message)
            removed, complete = [], False
        self._collected = slots
        self._again = float("inf") if complete else time.monotonic() + _AGAIN_SECONDS
        for file in removed:
            logger.info('removed consumer "%s" of the journal: its subscription was dropped, or has another slot', file)
