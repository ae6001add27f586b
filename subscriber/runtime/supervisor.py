"""``subscriber run``: a worker for every enabled subscription of one target.

The catalog in the target says which subscriptions there are; it is read again about once a second, so that CREATE and DROP
SUBSCRIPTION given elsewhere take effect without a restart.

One subscription in trouble does not stop the others, nor make them wait: an error that nobody has foreseen stops its worker alone, and
a worker that is to end does so in threads of its own; the next one for its subscription starts when it has ended. What ends all is only the
end of Spark.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from subscriber import catalog
from subscriber.apply.logical_messages import MessageListener
from subscriber.catalog import KeptStates, RelationState, Subscription, SubscriptionRelation, TableStates
from subscriber.errors import SubscriberError, TargetUnavailable
from subscriber.pipeline.on_spark import Pipeline
from subscriber.positions.consumers import collect_consumers
from subscriber.runtime import once
from subscriber.runtime.worker import PATIENT_FAILURES, SubscriptionWorker
from subscriber.settings import Settings
from subscriber.targets import Target

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.1
_CATALOG_SECONDS: Final = 1.0
_COLLECT_SECONDS: Final = 60.0

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
        self._next_look = 0.0
        self._has_looked = False
        self._cannot_look = False
        self._ending: dict[int, SubscriptionWorker] = {}
        self._collect_again = 0.0
        self._subscriptions: Sequence[Subscription] = ()
        self._collected: object = None
        self._states = KeptStates()
        self._looks = 0
        self._failed_looks = 0
        self._seems_done_since: int | None = None
        self._worked_for: dict[int, str] = {}
        self._disabled_by: dict[int, SubscriberError | None] = {}

    def run(self, stop: threading.Event, on_tick: Callable[[Supervisor], None] | None = None) -> bool:
        """Work until ``stop`` is set, and tell whether that went well.

        With ``once`` it ends when every subscription has caught up or given up, and went well when everything is done that
        :mod:`subscriber.runtime.once` promises; what is not is logged as an error. Without, it ends when every subscription is stopped
        for good, and went well when none is.

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
                return self._has_done_everything(finished=finished)
        finally:
            workers = [*self.workers.values(), *self._ending.values()]
            for worker in workers:
                worker.end()
            for worker in workers:
                worker.stop()
        return not any(worker.stopped for worker in self.workers.values())

    @property
    def busy_since(self) -> float | None:
        """Since when a worker holds the target with a batch or a copy (monotonic seconds); None where none does."""
        moments = [worker.busy_since for worker in [*self.workers.values(), *self._ending.values()]]
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
        if self._once and not worker.stopped and worker.mark is None and worker.receives:
            worker.set_mark()  # a position of a publisher whose history has not been checked means nothing

    def _finished(self) -> bool:
        workers = self.workers.values()
        if self._ending:
            return False  # another may be about to begin in its place
        if self._once:
            return self._is_done_after_another_look(all(worker.caught_up() or worker.given_up for worker in workers))
        # One that was disabled because of an error waits to be enabled again.
        return bool(workers) and all(worker.stopped and not worker.disabled for worker in workers)

    def _is_done_after_another_look(self, seems_done: bool) -> bool:
        """Whether all that is enabled still seems done when the catalog has been read once more: a command may have come meanwhile.

        A catalog that cannot be read is asked again several times, and then no longer waited for.
        """
        if not seems_done:
            self._seems_done_since = None
        elif self._seems_done_since is None:
            self._seems_done_since, self._next_look = self._looks, 0.0
        return self._seems_done_since is not None and (
            self._looks > self._seems_done_since or self._failed_looks >= PATIENT_FAILURES
        )

    # What is left of `run --once` ---------------------------------------------------------------------

    def _has_done_everything(self, *, finished: bool) -> bool:
        """Whether `run --once` has done what it promises; logs what it has not, and warns of what it leaves alone."""
        if not finished:
            logger.error("the run was told to end before everything had caught up")
        if self._failed_looks:
            logger.error(
                "the catalog cannot be read: whether a subscription or a table was added meanwhile is not known"
            )
        remaining = list(self._remaining())
        for one in remaining:
            logger.error("%s", one)
        once.warn_of_disabled([one.name for one in self._subscriptions if not one.enabled])
        for worker in self.workers.values():
            if finished and not worker.stopped:
                known = {(relation.schema, relation.name) for relation in worker.relations}
                once.warn_of_unknown_tables(self._target, worker.subscription, known)
        return finished and not self._failed_looks and not remaining

    def _remaining(self) -> Iterator[once.Remaining]:
        if self._has_looked and not self._worked_for:
            yield once.nothing_enabled([one.name for one in self._subscriptions])
        now = {one.subid: one for one in self._subscriptions}
        for subid, name in self._worked_for.items():
            worker = self.workers.get(subid)
            if worker is None:
                yield once.went_away(name, now.get(subid), self._disabled_by.get(subid))
            elif worker.disabled:
                yield once.went_away(name, replace(worker.subscription, enabled=False), worker.failure)
            else:
                yield from self._remaining_of(worker)

    def _remaining_of(self, worker: SubscriptionWorker) -> Iterator[once.Remaining]:
        name = worker.subscription.name
        if not worker.stream_caught_up():
            yield once.stream_not_caught_up(name, worker.failure, worker.applied, worker.mark)
        if worker.relations.unfinished:
            yield from (once.table_not_ready(name, relation) for relation in self._unfinished_with_errors(worker))

    def _unfinished_with_errors(self, worker: SubscriptionWorker) -> Sequence[SubscriptionRelation]:
        """The tables of a worker that are not ready, with the errors that the catalog keeps of them, if it can be read."""
        try:
            with self._target.reporting(), self._target.engine.connect() as connection:
                relations = catalog.relations_of(connection, worker.subscription.subid)
        except SubscriberError:
            return worker.relations.unfinished
        return [relation for relation in relations if relation.state is not RelationState.READY]

    # The catalog --------------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Start and stop workers as the catalog says."""
        self._let_go()
        if time.monotonic() < self._next_look:
            return
        try:
            wanted = self._read_catalog()
        except SubscriberError as error:
            if not self._has_looked:
                raise
            self._failed_looks += 1
            self._say_once(error)
            self._next_look = time.monotonic() + self._catalog_seconds
            return
        if not wanted and not self._has_looked and not self._once:
            logger.warning("no subscription is enabled in this target")
        self._has_looked, self._cannot_look = True, False
        self._looks += 1
        self._failed_looks = 0
        self._next_look = time.monotonic() + self._catalog_seconds
        for subid, worker in list(self.workers.items()):
            if subid not in wanted or worker.needs_restart(wanted[subid][0]):
                logger.info('subscription "%s" was dropped, disabled or changed', worker.subscription.name)
                if worker.disabled:
                    self._disabled_by[subid] = worker.failure
                self._ending[subid] = self.workers.pop(subid)
                worker.end()
        self._let_go()
        if not self._ending:
            self._collect_consumers()  # a worker that is still ending would leave its position once more
        for subid, (subscription, relations) in wanted.items():
            self._worked_for[subid] = subscription.name
            self._disabled_by.pop(subid, None)
            if subid in self._ending:
                continue
            if subid not in self.workers:
                self.workers[subid] = SubscriptionWorker(
                    subscription, self._target, self._pipeline, self._settings, self._turn, self._on_message
                )
            self.workers[subid].subscription = subscription
            self.workers[subid].relations = relations

    def _let_go(self) -> None:
        """Forget the workers that have ended; whoever waits for that is started at once."""
        for subid, worker in list(self._ending.items()):
            if worker.ended:
                del self._ending[subid]
                self._next_look = 0.0

    def _say_once(self, error: SubscriberError) -> None:
        logger.log(
            logging.DEBUG if self._cannot_look or isinstance(error, TargetUnavailable) else logging.WARNING,
            "the catalog cannot be read now: %s",
            error.message,
        )
        self._cannot_look = True

    def _read_catalog(self) -> dict[int, tuple[Subscription, TableStates]]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            self._subscriptions = catalog.list_subscriptions(connection)
            return {
                subscription.subid: (subscription, self._states.read(connection, subscription))
                for subscription in self._subscriptions
                if subscription.enabled
            }

    def _collect_consumers(self) -> None:
        """Where subscriptions came, went or changed their slots, forget what nobody reads from the journals any more.

        What cannot be reached now is seen to a minute later.
        """
        slots = [(one.subid, one.system_identifier, one.slot_name, one.slot_adopted) for one in self._subscriptions]
        if slots == self._collected and time.monotonic() < self._collect_again:
            return
        try:
            with self._target.reporting(), self._target.engine.connect() as connection:
                identifier = catalog.target_identifier(connection)
                released = [(one.system_identifier, one.slot) for one in catalog.released_slots(connection)]
            removed, complete = collect_consumers(
                self._settings.journal, identifier, self._subscriptions, keep=released
            )
        except SubscriberError as error:
            logger.debug("consumers that nobody needs may be left in the journals: %s", error.message)
            removed, complete = [], False
        self._collected = slots
        self._collect_again = float("inf") if complete else time.monotonic() + _COLLECT_SECONDS
        for file in removed:
            logger.info('forgot consumer "%s": its subscription is gone, or has another slot', file)
