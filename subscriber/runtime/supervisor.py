"""``subscriber run``: a worker for every enabled subscription of one target.

::

    catalog ──a look a second──▶ wanted ──▶ start, replace or end workers ──▶ tick each ──▶ done? ──▶ again, 0.1 s later

The catalog in the target says which subscriptions there are; it is read again about once a second,
so that CREATE and DROP SUBSCRIPTION given elsewhere take effect without a restart.

One subscription in trouble does not stop the others, nor make them wait: an error that nobody has
foreseen stops its worker alone, and a worker that is to end does so in threads of its own; the next
one for its subscription starts when it has ended. What ends all is only the end of Spark.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Final

from subscriber.apply.logical_messages import MessageListener
from subscriber.errors import SubscriberError
from subscriber.pipeline.on_spark import Pipeline
from subscriber.runtime import once
from subscriber.runtime.catalog_watch import CatalogWatch, Wanted
from subscriber.runtime.consumer_collection import ConsumerCollection
from subscriber.runtime.gate import Turn
from subscriber.runtime.worker import SubscriptionWorker
from subscriber.runtime.worker_snapshot import PATIENT_FAILURES, WorkerSnapshot
from subscriber.settings import Settings
from subscriber.targets import Target

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.1
_CATALOG_SECONDS: Final = 1.0


class Supervisor:
    """Runs workers until told to stop, or until all have caught up.

    Args:
        target: whose subscriptions.
        pipeline: starts queries, copies tables.
        settings: timeouts and sizes.
        once: end when all have caught up.
        turn: held by every query while it writes; None lets them take turns where the target has
            one writer, and elsewhere write side by side.
        on_message: called with every logical message of the publishers; None asks for none.
        tick_seconds: between two looks at the workers.
        catalog_seconds: between two looks at the catalog.

    Attributes:
        workers: by the subscription's number.
        catalog_watch: what the catalog says.
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
        self.catalog_watch = CatalogWatch(target, catalog_seconds)
        self._target = target
        self._pipeline = pipeline
        self._settings = settings
        self._once = once
        self._on_message = on_message
        self._turn = turn or (threading.Lock() if target.capabilities.single_writer else contextlib.nullcontext())
        self._tick_seconds = tick_seconds
        self._collection = ConsumerCollection(target, settings)
        self._ending: dict[int, SubscriptionWorker] = {}
        self._seems_done_since: int | None = None
        self._worked_for: dict[int, str] = {}
        self._disabled_by: dict[int, SubscriberError | None] = {}

    def run(self, stop: threading.Event, on_tick: Callable[[Supervisor], None] | None = None) -> bool:
        """Work until ``stop`` is set, and tell whether that went well.

        With ``once`` it ends when every subscription has caught up or given up, and went well when
        everything is done that :mod:`subscriber.runtime.once` promises; what is not is logged as an
        error. Without, it ends when every subscription is stopped for good, and went well when none
        is.

        Raises:
            SubscriberError: the catalog could not be read at all.
            Exception: what Spark's end has made of whatever was asked of it.
        """
        finished = False
        try:
            while not stop.is_set():
                self._reconcile()
                for worker in self.workers.values():
                    self._look_after(worker, stop)
                if on_tick is not None:
                    on_tick(self)
                finished = self._finished()
                if finished:
                    break
                stop.wait(self._tick_seconds)
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
        """What is known of the workers now, by their subscription's number; see
        :meth:`SubscriptionWorker.snapshot`.
        """
        return {subid: worker.snapshot(look=look) for subid, worker in dict(self.workers).items()}

    @property
    def busy_since(self) -> float | None:
        """Since when a worker holds the target with a batch or a copy (monotonic seconds); None
        where none does.
        """
        workers = [*dict(self.workers).values(), *dict(self._ending).values()]
        moments = [worker.snapshot(look=False).busy_since for worker in workers]
        return min((moment for moment in moments if moment is not None), default=None)

    def _look_after(self, worker: SubscriptionWorker, stop: threading.Event) -> None:
        try:
            worker.tick()
            self._mark(worker)
        except Exception as error:
            if stop.is_set():
                return  # whoever has told us to end may have told Spark, too
            if self._pipeline.has_ended():
                raise
            worker.fault(error)

    def _mark(self, worker: SubscriptionWorker) -> None:
        """With ``once``, note how far the publisher is now; the first time it can be asked."""
        if not self._once:
            return
        now = worker.snapshot(look=False)
        if not now.stopped and now.mark is None and now.receives:
            worker.set_mark()  # a position of a publisher whose history has not been checked means nothing

    def _finished(self) -> bool:
        if self._ending:
            return False  # another may be about to begin in its place
        workers = self.snapshots(look=self._once).values()
        if self._once:
            return self._is_done_after_another_look(all(one.caught_up or one.given_up for one in workers))
        # One that was disabled because of an error waits to be enabled again.
        return bool(workers) and all(one.stopped and not one.disabled for one in workers)

    def _is_done_after_another_look(self, seems_done: bool) -> bool:
        """Whether all that is enabled still seems done when the catalog has been read once more: a
        command may have come meanwhile.

        A catalog that cannot be read is asked again several times, and then no longer waited for.
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
        """Start and stop workers as the catalog says."""
        self._let_go()
        wanted = self.catalog_watch.look()
        if wanted is None:
            return
        if not wanted and self.catalog_watch.looks == 1 and not self._once:
            logger.warning("no subscription is enabled in this target")
        self._end_unwanted(wanted)
        self._let_go()
        if not self._ending:
            # A worker that is still ending would leave its position once more.
            self._collection.collect(self.catalog_watch.subscriptions)
        for subid, (subscription, relations) in wanted.items():
            self._worked_for[subid] = subscription.name
            self._disabled_by.pop(subid, None)
            if subid in self._ending:
                continue
            if subid not in self.workers:
                self.workers[subid] = SubscriptionWorker(
                    subscription, self._target, self._pipeline, self._settings, self._turn, self._on_message
                )
            self.workers[subid].take_up(subscription, relations)

    def _end_unwanted(self, wanted: Wanted) -> None:
        """Have the workers end whose subscription was dropped, disabled or changed."""
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
        """Forget the workers that have ended; whoever waits for that is started at once."""
        for subid, worker in list(self._ending.items()):
            if worker.ended:
                del self._ending[subid]
                self.catalog_watch.look_soon()
