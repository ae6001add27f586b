"""``subscriber run``: the supervisor runs a worker for every enabled subscription of one target.

::

    catalog ──read every 0.2 to 1 s──▶ wanted ──▶ start, replace or end workers ──▶ tick each ──▶ done? ──▶ again, 0.1 s later
                                                                                                            or when woken

The catalog in the target defines which subscriptions exist. The supervisor reads it at least
once a second, so CREATE SUBSCRIPTION and DROP SUBSCRIPTION from another process take effect without
a restart. A command on the same machine, an event of a receiver, and the end of work in the
background wake it.

A subscription that fails neither stops nor delays the others. An unexpected error stops only the
worker in which it occurs. A worker ends in separate threads; the next worker for the same
subscription starts after that. Only the end of Spark ends all workers.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from subscriber.apply.logical_messages import MessageListener
from subscriber.commands.wake import watched_folder
from subscriber.errors import SubscriberError
from subscriber.pipeline.on_spark import Pipeline
from subscriber.runtime import once
from subscriber.runtime.catalog_watch import CatalogWatch, Wanted
from subscriber.runtime.consumer_collection import ConsumerCollection
from subscriber.runtime.gate import Turn
from subscriber.runtime.spare_receiver import SpareReceiver
from subscriber.runtime.worker import SubscriptionWorker
from subscriber.runtime.worker_snapshot import PATIENT_FAILURES, WorkerSnapshot
from subscriber.settings import Settings
from subscriber.targets import Target

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.02
"""How often it is checked, between two ticks, whether something has happened."""
_CATALOG_SECONDS: Final = 1.0


class Supervisor:
    """Runs the workers until it is told to stop, or until all subscriptions have caught up.

    Args:
        target: the target whose subscriptions are run.
        pipeline: starts queries and copies tables.
        settings: timeouts and sizes.
        once: whether to end when all subscriptions have caught up.
        turn: held by every query while it writes. With None, the queries take turns if the target
            has one writer, and write at the same time otherwise.
        on_message: called with every logical message of the publishers; with None the publishers
            are not asked to send logical messages.
        tick_seconds: the interval between two ticks of the workers.
        catalog_seconds: the longest pause between two reads of the catalog.

    Attributes:
        workers: the workers by the number of their subscription.
        catalog_watch: reads the catalog.
    """

    def __init__(
        self,
        target: Target,
        pipeline: Pipeline,
        settings: Settings,
        *,
        once: bool,
        turn: Turn | None = None,
        on_message: MessageListener | None = None,
        tick_seconds: float = _TICK_SECONDS,
        catalog_seconds: float = _CATALOG_SECONDS,
    ) -> None:
        self.workers: dict[int, SubscriptionWorker] = {}
        self.catalog_watch = CatalogWatch(target, catalog_seconds, watched_folder(settings))
        self._target = target
        self._pipeline = pipeline
        self._settings = settings
        self._once = once
        self._on_message = on_message
        self._turn = turn or (threading.Lock() if target.capabilities.single_writer else contextlib.nullcontext())
        self._tick_seconds = tick_seconds
        self._woken = threading.Event()
        self._is_warm = False
        self._spare = SpareReceiver()
        self._collection = ConsumerCollection(target, settings)
        self._ending: dict[int, SubscriptionWorker] = {}
        self._seems_done_since: int | None = None
        self._worked_for: dict[int, str] = {}
        self._disabled_by: dict[int, SubscriberError | None] = {}

    def run(self, stop: threading.Event, on_tick: Callable[[Supervisor], None] | None = None) -> bool:
        """Run the workers until ``stop`` is set, and return whether the run was successful.

        With ``once`` the run ends when every subscription has caught up or given up. It is
        successful if everything is done that :mod:`subscriber.runtime.once` describes; what is not
        done is logged as an error. Without ``once`` the run ends when every worker has stopped for
        good. It is successful if no worker has.

        Raises:
            SubscriberError: the first read of the catalog has failed, or Spark cannot be started.
            Exception: an error of a worker that was caused by the end of Spark.
        """
        finished = False
        try:
            while not stop.is_set():
                self._pipeline.check()
                self._reconcile()
                for worker in self.workers.values():
                    self._look_after(worker, stop)
                if on_tick is not None:
                    on_tick(self)
                finished = self._finished()
                if finished:
                    break
                if not self._once:
                    self._spare.keep()
                    self._warm_up()
                self._wait_for_tick(stop)
            if self._once:
                return once.has_done_everything(self._target, self._outcome(finished=finished))
        finally:
            self._spare.end()
            workers = [*self.workers.values(), *self._ending.values()]
            for worker in workers:
                worker.end()
            for worker in workers:
                worker.stop()
        return not any(one.stopped for one in self.snapshots(look=False).values())

    def snapshots(self, *, look: bool = True) -> dict[int, WorkerSnapshot]:
        """Return the snapshots of the workers by the number of their subscription; see
        :meth:`SubscriptionWorker.snapshot`.
        """
        return {subid: worker.snapshot(look=look) for subid, worker in dict(self.workers).items()}

    @property
    def busy_since(self) -> float | None:
        """Since when a worker holds the target with a batch or a copy (monotonic seconds); None if
        no worker does.
        """
        workers = [*dict(self.workers).values(), *dict(self._ending).values()]
        moments = [worker.snapshot(look=False).busy_since for worker in workers]
        return min((moment for moment in moments if moment is not None), default=None)

    def _wait_for_tick(self, stop: threading.Event) -> None:
        """Return when the next tick is due, something has happened, or ``stop`` is set."""
        due = time.monotonic() + self._tick_seconds
        while not (stop.is_set() or self.catalog_watch.is_due() or time.monotonic() >= due):
            if self._woken.wait(min(_LOOK_SECONDS, self._tick_seconds)):
                break
        self._woken.clear()

    def _warm_up(self) -> None:
        """Have Spark warmed up, as soon as no worker has work for it."""
        if not self._is_warm and all(one.is_idle for one in self.snapshots(look=False).values()):
            self._is_warm = self._pipeline.warm_up()

    def _look_after(self, worker: SubscriptionWorker, stop: threading.Event) -> None:
        try:
            worker.tick()
            self._mark(worker)
        except Exception as error:
            if stop.is_set():
                return  # the signal that stops this process may have ended Spark, too
            if self._pipeline.has_ended():
                raise
            worker.fault(error)

    def _mark(self, worker: SubscriptionWorker) -> None:
        """With ``once``, have the mark written as soon as the publisher can be queried."""
        if not self._once:
            return
        now = worker.snapshot(look=False)
        if not now.stopped and now.mark is None and now.receives:
            worker.set_mark()  # without a check of the publisher's history its position means nothing

    def _finished(self) -> bool:
        if self._ending:
            return False  # the next worker of the same subscription may be about to start
        workers = self.snapshots(look=self._once).values()
        if self._once:
            return self._is_done_after_another_look(all(one.caught_up or one.given_up for one in workers))
        # A subscription that was disabled because of an error may be enabled again.
        return bool(workers) and all(one.stopped and not one.disabled for one in workers)

    def _is_done_after_another_look(self, seems_done: bool) -> bool:
        """Return whether everything still seems done after the catalog was read once more, since a
        command may have changed a subscription meanwhile.

        If the catalog cannot be read, this is tried several times; then the run ends without
        waiting for it.
        """
        watch = self.catalog_watch
        if not seems_done:
            self._seems_done_since = None
        elif self._seems_done_since is None:
            self._seems_done_since = watch.looks
            watch.look_soon()
        return self._seems_done_since is not None and (
            watch.looks > self._seems_done_since or watch.failed_looks >= PATIENT_FAILURES
        )

    def _outcome(self, *, finished: bool) -> once.Outcome:
        return once.Outcome(
            finished=finished,
            has_looked=self.catalog_watch.looks > 0,
            catalog_is_known=not self.catalog_watch.failed_looks,
            subscriptions=self.catalog_watch.subscriptions,
            worked_for=self._worked_for,
            workers=self.snapshots(),
            disabled_by=self._disabled_by,
        )

    # The catalog ----------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Start and end workers so that they match the catalog."""
        self._let_go()
        wanted = self.catalog_watch.look()
        if wanted is None:
            if self.catalog_watch.failed_looks:
                for worker in self.workers.values():
                    worker.lose_sight()
            return
        if not wanted and self.catalog_watch.looks == 1 and not self._once:
            logger.warning("no subscription is enabled in this target")
        self._end_unwanted(wanted)
        self._let_go()
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
                    self._pipeline,
                    self._settings,
                    self._turn,
                    self._spare,
                    self._on_message,
                    self._woken.set,
                )
            self.workers[subid].take_up(subscription, relations, self.catalog_watch.holds.get(subid))

    def _end_unwanted(self, wanted: Wanted) -> None:
        """End the workers whose subscription was dropped, disabled or changed."""
        for subid, worker in list(self.workers.items()):
            if subid in wanted and not worker.needs_restart(wanted[subid][0]):
                continue
            now = worker.snapshot(look=False)
            logger.info('subscription "%s" was dropped, disabled or changed', now.subscription.name)
            if now.disabled:
                self._disabled_by[subid] = now.failure
            self._ending[subid] = self.workers.pop(subid)
            worker.end()

    def _let_go(self) -> None:
        """Remove the workers that have ended. A new worker for the same subscription can then start
        at once.
        """
        for subid, worker in list(self._ending.items()):
            if worker.ended:
                del self._ending[subid]
                self.catalog_watch.look_soon()
