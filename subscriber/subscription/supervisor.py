"""``subscriber run``: a worker for every enabled subscription of one target.

The catalog in the target says which subscriptions there are; it is read again about once a second, so that CREATE and DROP
SUBSCRIPTION given elsewhere take effect without a restart. One subscription in trouble does not stop the others.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from subscriber.apply.logical_messages import MessageListener
from subscriber.errors import SubscriberError, TargetUnavailable
from subscriber.pipeline.on_spark import Pipeline
from subscriber.settings import Settings
from subscriber.subscription import catalog
from subscriber.subscription.catalog import Subscription, SubscriptionRelation
from subscriber.subscription.worker import SubscriptionWorker
from subscriber.target import Target

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.1
_CATALOG_SECONDS: Final = 1.0

Turn = contextlib.AbstractContextManager[Any]
"""Held by whoever writes the target's tables."""


class Supervisor:
    """Runs workers until told to stop, or until all have caught up.

    Args:
        target: whose subscriptions.
        pipeline: starts queries, copies tables.
        settings: timeouts and sizes.
        once: end when all have caught up.
        turn: held by every query while it writes; None lets them take turns where the target has one writer, and elsewhere write
            side by side.
        on_message: called with every logical message of the publishers; None asks for none.
        tick_seconds: between two looks at the workers.
        catalog_seconds: between two looks at the catalog.

    Attributes:
        workers: by the subscription's number.
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
        self._target = target
        self._pipeline = pipeline
        self._settings = settings
        self._once = once
        self._on_message = on_message
        self._turn = turn or (threading.Lock() if target.capabilities.single_writer else contextlib.nullcontext())
        self._tick_seconds = tick_seconds
        self._catalog_seconds = catalog_seconds
        self._catalog_read = 0.0
        self._disabled = False

    def run(self, stop: threading.Event, on_tick: Callable[[Supervisor], None] | None = None) -> bool:
        """Work until ``stop`` is set; tells whether no subscription has failed for good.

        With ``once`` it ends when every subscription has caught up or given up; without, when every one is stopped for good.
        """
        try:
            while not stop.is_set():
                self._reconcile()
                for worker in self.workers.values():
                    worker.tick()
                    self._mark(worker)
                if on_tick is not None:
                    on_tick(self)
                if self._finished():
                    break
                stop.wait(self._tick_seconds)
        finally:
            for worker in self.workers.values():
                worker.stop()
        if self._once:
            return not self._disabled and not any(worker.given_up for worker in self.workers.values())
        return not any(worker.stopped for worker in self.workers.values())

    def _mark(self, worker: SubscriptionWorker) -> None:
        """With ``once``, note how far the publisher is now; the first time it can be asked."""
        if not self._once or worker.stopped or worker.has_mark:
            return
        try:
            worker.wants_caught_up()
        except SubscriberError as error:
            # The receiver asks the same server and will say the same; it also decides when to give up.
            logger.debug("no mark yet: %s", error.message)

    def _finished(self) -> bool:
        workers = self.workers.values()
        if self._once:
            return all(worker.caught_up() or worker.given_up for worker in workers)
        # One that was disabled because of an error waits to be enabled again.
        return bool(workers) and all(worker.stopped and not worker.disabled for worker in workers)

    def _reconcile(self) -> None:
        """Start and stop workers as the catalog says."""
        if time.monotonic() - self._catalog_read < self._catalog_seconds and self._catalog_read:
            return
        try:
            wanted = self._read_catalog()
        except TargetUnavailable as error:
            if not self._catalog_read:
                raise
            logger.debug("the catalog cannot be read now: %s", error.message)
            return
        if not wanted and not self._catalog_read:
            logger.warning("no subscription is enabled in this target")
        self._catalog_read = time.monotonic()
        for subid, worker in list(self.workers.items()):
            if subid not in wanted or worker.needs_restart(wanted[subid][0]):
                logger.info('subscription "%s" was dropped, disabled or changed', worker.subscription.name)
                self._disabled = self._disabled or worker.disabled
                self.workers.pop(subid).stop()
                if subid in wanted and wanted[subid][0].name != worker.subscription.name:
                    worker.forget_consumers()
        for subid, (subscription, relations) in wanted.items():
            if subid not in self.workers:
                self.workers[subid] = SubscriptionWorker(
                    subscription, self._target, self._pipeline, self._settings, self._turn, self._on_message
                )
            self.workers[subid].subscription = subscription
            self.workers[subid].relations = relations

    def _read_catalog(self) -> dict[int, tuple[Subscription, Sequence[SubscriptionRelation]]]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return {
                subscription.subid: (subscription, catalog.relations_of(connection, subscription.subid))
                for subscription in catalog.list_subscriptions(connection)
                if subscription.enabled
            }
