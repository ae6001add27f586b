"""``subscriber run`` for one target, in a thread, for a session that waits for it.

Before a statement reads rows, a session waits until every enabled subscription has *settled*. The
engine finds this out from the workers' snapshots only. A subscription has settled when one of these
conditions holds:

- Its target has everything up to a position that was written to its publisher when the waiting
  began, and every table is ready, or an attempt to copy it that began later has failed.
- It is stuck: a change could not be applied in a batch that began after the session's last change
  of the target, and no table is being copied.
- Receiving, applying, or copying as a whole has failed twice since the waiting began, for another
  reason. The first attempt may have begun before the statement that removed its cause.
- It has stopped permanently. A disabled subscription is not waited for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from subscriber.base.errors import StatementTimeout, SubscriberError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import Subscription, list_subscriptions
from subscriber.catalog.table_states import RelationState, TableStates, read_states
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.targets import Target
from subscriber.worker.once import write_once_target
from subscriber.worker.supervisor import Supervisor
from subscriber.worker.worker_snapshot import WorkerSnapshot

_TICK_SECONDS: Final = 0.02
_CATALOG_SECONDS: Final = 0.05
_POLL_SECONDS: Final = 0.02
_MARK_SECONDS: Final = 0.2
"""Seconds between two attempts to connect to a publisher that cannot be reached."""
_FAILURES: Final = 2


class Engine:
    def __init__(self, name: str, target: Target, spark: SparkFunctions, settings: Settings) -> None:
        self._name = name
        self._target = target
        self._spark = replace(spark, warm_up=lambda: True)
        self._settings = settings
        self._writer_lock = threading.Lock()
        self._changed = 0.0
        self._stop = threading.Event()
        self._supervisor: Supervisor | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Start the thread that runs the enabled subscriptions, unless it runs already."""
        while self._works() and self._has_nothing_left():
            time.sleep(_POLL_SECONDS)  # it will end soon, or read the catalog again and continue
        if self._works() or not any(one.enabled for one in self._subscriptions()):
            return
        self._failure = None
        self._stop.clear()
        self._supervisor = Supervisor(
            self._target,
            self._spark,
            self._settings,
            once=False,
            writer_lock=self._writer_lock,
            tick_seconds=_TICK_SECONDS,
            catalog_seconds=_CATALOG_SECONDS,
        )
        self._thread = threading.Thread(
            target=self._work, args=(self._supervisor,), name=f"engine of {self._name}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @contextlib.contextmanager
    def at_rest(self, patience: float) -> Iterator[None]:
        """Nothing is applied here. StatementTimeout: a batch takes longer than ``patience``
        seconds.
        """
        if not self._writer_lock.acquire(timeout=patience):
            raise StatementTimeout(
                f'a batch of changes for node "{self._name}" did not end within {patience:g} s', detail=self.state()
            )
        try:
            yield
        finally:
            self._writer_lock.release()

    def change_version(self) -> None:
        """Note that the session has changed the target: what failed before may work now."""
        self._changed = time.monotonic()

    def received(self) -> dict[int, LSN]:
        """The received LSN by the subscription's number, unless its worker has stopped for good."""
        return {subid: worker.received for subid, worker in self._workers().items() if not worker.stopped}

    def settle(self, patience: float) -> None:
        """Wait until every enabled subscription has settled, else StatementTimeout."""
        deadline = time.monotonic() + patience
        waits: _Waits = {}
        while True:
            began = time.monotonic()
            if self._all_settled(waits):
                return
            if began > deadline:
                raise StatementTimeout(
                    f'the subscriptions of node "{self._name}" did not settle within {patience:g} s',
                    detail=self.state(),
                )
            # The check can be expensive (DuckDB opens its file each time). The pause leaves most of
            # the processor time to the subscriptions.
            time.sleep(max(_POLL_SECONDS, 3 * (time.monotonic() - began)))

    def state(self) -> str:
        """The subscriptions as people read them, one per line, without values of rows."""
        workers = self._workers()
        return "\n".join(_describe(one, workers.get(one.subid)) for one in self._subscriptions()) or "no subscription"

    # The supervisor -------------------------------------------------------------------------------

    def _work(self, supervisor: Supervisor) -> None:
        try:
            with self._target.running():
                supervisor.run(self._stop)
        except BaseException as error:  # the thread that waits raises it
            self._failure = error

    def _works(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _has_nothing_left(self) -> bool:
        workers = self._workers().values()
        return bool(workers) and all(worker.stopped and not worker.disabled for worker in workers)

    def _workers(self) -> dict[int, WorkerSnapshot]:
        return {} if self._supervisor is None else self._supervisor.snapshots()

    def _relations(self, subid: int) -> TableStates:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return read_states(connection, subid)

    def _subscriptions(self) -> list[Subscription]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return list_subscriptions(connection)

    # Waiting --------------------------------------------------------------------------------------

    def _all_settled(self, waits: _Waits) -> bool:
        wanted = {one.subid: one for one in self._subscriptions() if one.enabled}
        workers = self._workers()
        if not self._works():
            if wanted and self._failure is not None:
                raise self._failure
            # There is no enabled subscription, or all have stopped permanently.
            return wanted.keys() <= workers.keys() and all(workers[subid].stopped for subid in wanted)
        for subid, worker in workers.items():
            if (subid, worker.began) not in waits:
                waits[subid, worker.began] = _Wait(worker, self._relations)
        if {subid: worker.subscription for subid, worker in workers.items()} != wanted:
            return False  # the supervisor has not read the catalog yet
        # The list is complete, not lazy, so that the marks of all workers are written now.
        over = [waits[subid, worker.began].is_over(worker, self._changed) for subid, worker in workers.items()]
        return all(over)


class _Wait:
    def __init__(self, worker: WorkerSnapshot, relations: Callable[[int], TableStates]) -> None:
        self._relations = relations
        self._failed_before = worker.failed_attempts
        self._mark: LSN | None = None
        self._next_attempt = 0.0
        self._began = time.monotonic()

    def is_over(self, worker: WorkerSnapshot, target_changed: float) -> bool:
        if worker.stuck_since is not None and worker.stuck_since > target_changed and not worker.copies:
            return True
        failed = zip(worker.failed_attempts, self._failed_before, strict=True)
        if worker.stopped or any(now - before >= _FAILURES for now, before in failed):
            return True
        if not self._has_applied_once_target(worker):
            return False
        try:
            relations = self._relations(worker.subscription.subid)
        except SubscriberError:
            return False
        # A copy that has failed may also succeed after a change at the publisher.
        settled = worker.copies_settled(relations, max(target_changed, self._began))
        return settled and not _starts_again(worker, relations)

    def _has_applied_once_target(self, worker: WorkerSnapshot) -> bool:
        if self._mark is None and time.monotonic() >= self._next_attempt:
            self._next_attempt = time.monotonic() + _MARK_SECONDS
            # If the publisher cannot be reached, the waiting ends with the failures of the
            # receiver.
            with contextlib.suppress(SubscriberError):
                self._mark = write_once_target(worker.subscription)
        return self._mark is not None and worker.has_applied(self._mark)


_Waits = dict[tuple[int, float], _Wait]
"""The waits, by number of the subscription and start of its worker: a restart begins a new one."""


def _starts_again(worker: WorkerSnapshot, relations: TableStates) -> bool:
    """Whether a worker is starting, or will restart soon to stream with two_phase (C48)."""
    pending = worker.subscription.two_phase_state == "p"
    enables = pending and bool(relations) and all(one.state is RelationState.READY for one in relations)
    return enables or worker.state == "starting"


def _describe(subscription: Subscription, worker: WorkerSnapshot | None) -> str:
    name = f'subscription "{subscription.name}"'
    if not subscription.enabled:
        return f"{name}: disabled"
    if worker is None:
        return f"{name}: enabled, no worker"
    parts = [
        worker.state,
        f"received {format_lsn(worker.received)}",
        f"last change {format_lsn(worker.last_entry)}",
        f"applied {format_lsn(worker.applied)}",
    ]
    if worker.failure is not None:
        parts.append(worker.failure.message)
    parts += [f"waiting for {question}" for question in worker.waiting_for]
    return f"{name}: {', '.join(parts)}"
