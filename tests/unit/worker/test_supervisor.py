"""The supervisor: nothing that happens to one subscription ends or delays another
(one_does_not_end_another).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from subscriber.base.errors import JournalUnavailable, TargetError, UsageError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.apply_pauses import PauseState
from subscriber.catalog.statistics import statistics_of
from subscriber.catalog.subscriptions import Subscription, set_enabled
from subscriber.stream.journal.positions import CachedAnswer
from subscriber.targets import Target
from subscriber.worker import receiving
from subscriber.worker.applying import Applying
from subscriber.worker.catalog_watch import CatalogWatch
from subscriber.worker.receiving import Receiving
from subscriber.worker.supervisor import Supervisor
from subscriber.worker.worker import SubscriptionWorker
from subscriber.worker.worker_snapshot import WorkerSnapshot
from tests.leases import pause_lease, store_lease
from tests.spark_functions import nothing, unused_functions
from tests.subscriptions import create_subscription

SOON = 10.0


@pytest.fixture
def target(target: Target) -> Target:
    """A target with subscriptions s1 and s2."""
    for name in ("s1", "s2"):
        create_subscription(target, name)
    return target


def name_of(one: SubscriptionWorker) -> str:
    return one.snapshot(look=False).subscription.name


class Run:
    """A supervisor that runs until what is asked for has happened; receivers and queries are
    played.

    ``at_tick`` is called by each worker's tick, with its name.
    """

    def __init__(self, target: Target, monkeypatch: pytest.MonkeyPatch, **pipeline: Any) -> None:
        self.ticks: dict[str, int] = {"s1": 0, "s2": 0}
        self.at_tick: Callable[[SubscriptionWorker], None] = lambda _worker: None
        self.stop = threading.Event()
        self.supervisor = Supervisor(
            target,
            unused_functions(**pipeline),
            Settings("", wal_retrieve_retry_interval=0.01),
            once=False,
            tick_seconds=0.001,
            catalog_seconds=0.001,
        )
        monkeypatch.setattr(Receiving, "start", lambda _worker: None)
        real = SubscriptionWorker.tick

        def tick(one: SubscriptionWorker) -> None:
            self.ticks[name_of(one)] += 1
            self.at_tick(one)
            real(one)

        monkeypatch.setattr(SubscriptionWorker, "tick", tick)

    def until(self, condition: Callable[[], bool], ticks: int = 100_000) -> bool:
        """Run; tells what the run has told."""
        left = iter(range(ticks))

        def look(_supervisor: Supervisor) -> None:
            assert next(left, None) is not None, "it has not happened"
            if condition():
                self.stop.set()

        return self.supervisor.run(self.stop, look)


@pytest.fixture
def run(target, monkeypatch) -> Run:
    return Run(target, monkeypatch)


def errors_of(target: Target) -> dict[int, str]:
    with target.engine.connect() as connection:
        return {subid: statistics_of(connection, subid).get("last_error", "") for subid in (1, 2)}


def test_a_fault_of_the_program_interrupts_only_the_subscription_that_it_concerns(run, target, caplog):
    def fault(one: SubscriptionWorker) -> None:
        if name_of(one) == "s1" and one.snapshot().failure is None:
            raise ValueError("customer 17 has a secret")

    run.at_tick = fault
    assert run.until(lambda: run.ticks["s2"] > 20)
    first, second = run.supervisor.workers.values()
    assert (first.snapshot().state, second.snapshot().failure) == ("retrying", None)
    assert "This is a fault of the program" in errors_of(target)[1]
    assert errors_of(target)[2] is None or not errors_of(target)[2]
    assert "ValueError at test_supervisor.py:" in caplog.text
    assert "secret" not in caplog.text + errors_of(target)[1]


def test_a_run_raises_the_error_that_it_met_if_spark_has_ended(target, monkeypatch):
    run = Run(target, monkeypatch, has_ended=lambda: True)

    def lost(_worker: SubscriptionWorker) -> None:
        raise ConnectionRefusedError

    run.at_tick = lost
    with pytest.raises(ConnectionRefusedError):
        run.until(lambda: False)


def test_a_run_whose_spark_cannot_be_started_ends_with_the_error_and_notes_it_for_no_subscription(target, monkeypatch):
    run = Run(target, monkeypatch, check=refuse)
    with pytest.raises(UsageError, match="could not start Spark"):
        run.until(lambda: False)
    assert not any(errors_of(target).values())


def refuse() -> None:
    raise UsageError("could not start Spark")


def test_spark_is_not_warmed_up_while_a_worker_has_work(target, monkeypatch):
    run = Run(target, monkeypatch, warm_up=nothing)  # no receiver has started, so nothing is applied
    run.until(lambda: run.ticks["s2"] > 20)


def test_spark_is_warmed_up_once_when_all_workers_are_idle(target, monkeypatch):
    begun: list[int] = []

    def begin() -> bool:
        begun.append(1)
        return len(begun) == 2  # at first, Spark has not started yet

    real = SubscriptionWorker.snapshot

    def idle(one: SubscriptionWorker, *, look: bool = True) -> WorkerSnapshot:
        return replace(real(one, look=look), applies=True)

    monkeypatch.setattr(SubscriptionWorker, "snapshot", idle)
    run = Run(target, monkeypatch, warm_up=begin)
    run.until(lambda: run.ticks["s2"] > 20)
    assert len(begun) == 2


def test_a_supervisor_that_is_woken_does_not_wait_for_its_next_tick(target, monkeypatch):
    run = Run(target, monkeypatch)
    run.supervisor._tick_seconds = 3600.0
    run.supervisor.catalog_watch._seconds = 3600.0
    monkeypatch.setattr("subscriber.worker.catalog_watch._LEAST_SECONDS", 3600.0)
    run.at_tick = lambda one: one._state.wake()
    run.until(lambda: run.ticks["s2"] > 5)


def test_ticks_are_rarer_only_while_all_workers_are_settled(target, monkeypatch):
    real = SubscriptionWorker.snapshot
    works = {"s1": False, "s2": True}

    def snapshot(one: SubscriptionWorker, *, look: bool = True) -> WorkerSnapshot:
        now = real(one, look=look)
        return replace(now, receives=True, applies=works[now.subscription.name])

    monkeypatch.setattr(SubscriptionWorker, "snapshot", snapshot)
    run = Run(target, monkeypatch)
    run.until(lambda: run.ticks["s2"] > 5)
    assert not run.supervisor._is_settled()
    works["s1"] = True
    assert run.supervisor._is_settled()
    held = pause_lease(1, PauseState.HELD, bound=LSN(50), reached=LSN(50))
    for one in run.supervisor.workers.values():
        one._pausing.update(held)
    assert not run.supervisor._is_settled(), "the holder may end at any time"


def test_a_pause_is_obeyed_from_the_first_tick_of_a_worker_on_and_only_by_its_subscription(target, monkeypatch):
    """any_crash: the run that was held before may have been killed."""
    with target.begin() as connection:
        store_lease(connection, pause_lease(1, PauseState.HELD, bound=LSN(50), reached=LSN(50)))
    run, bounds = Run(target, monkeypatch), set()
    run.at_tick = lambda one: bounds.add((name_of(one), one._pause.limit))
    run.until(lambda: run.ticks["s2"] > 5)
    assert bounds == {("s1", LSN(0)), ("s2", None)}


def test_a_hold_does_not_grow_old_while_the_catalog_cannot_be_read(target, monkeypatch):
    run, lost = Run(target, monkeypatch), []
    monkeypatch.setattr(SubscriptionWorker, "catalog_unreachable", lambda one: lost.append(name_of(one)))
    watch = run.supervisor.catalog_watch

    def at_tick(_one: SubscriptionWorker) -> None:
        watch.failed_polls = 1

    run.at_tick = at_tick
    monkeypatch.setattr(watch, "is_due", lambda: not watch.polls)
    run.until(lambda: run.ticks["s2"] > 5)
    assert {"s1", "s2"} == set(lost)


def watched(ask: Callable[[], tuple[LSN, LSN]]) -> CachedAnswer[tuple[LSN, LSN]]:
    """The positions of a journal as a worker asks for them."""
    return CachedAnswer(ask, remote=False)


def test_a_journal_that_cannot_be_read_is_tried_again_and_the_other_subscription_goes_on(run, target, monkeypatch):
    """One transient error of a remote journal used to end all subscriptions."""
    asked: list[str] = []

    def positions(url: str) -> tuple[LSN, LSN]:
        asked.append(url)
        if url == "far away" and asked.count(url) < 4:
            raise JournalUnavailable("the journal cannot be read now")
        return LSN(50), LSN(50)

    started: list[str] = []
    monkeypatch.setattr(Applying, "_start_loop", lambda one: started.append(one._state.subscription.name))

    def at_tick(one: SubscriptionWorker) -> None:
        one._state.watched = watched(partial(positions, "far away" if name_of(one) == "s1" else "near"))

    run.at_tick = at_tick
    assert run.until(lambda: "s1" in started)
    assert started[0] == "s2"
    first, second = run.supervisor.workers.values()
    assert first.snapshot().failed_attempts[1] == 3
    assert second.snapshot().failed_attempts[1] == 0
    assert "the journal cannot be read now" in errors_of(target)[1]


def test_other_subscriptions_do_not_wait_for_a_publisher_that_does_not_answer(target, monkeypatch):
    """Where a slot's changes begin is asked of the publisher, and connecting may take as long as
    its timeout.
    """
    start = Receiving.start
    run = Run(target, monkeypatch)
    monkeypatch.setattr(Receiving, "start", start)
    answers = threading.Event()
    began: list[str] = []

    def adopt(_target: Target, subscription: Subscription, _settings: Settings) -> Any:
        if subscription.name == "s1":
            answers.wait(60)
        return subscription, LSN(50)

    monkeypatch.setattr(receiving, "adopt_slot", adopt)
    monkeypatch.setattr(Receiving, "_open_consumers", lambda one, _journal: began.append(one._state.subscription.name))
    monkeypatch.setattr(receiving, "ReceiverProcess", nothing)
    try:
        run.until(lambda: set(began) == {"s2"} and run.ticks["s1"] > 20)
    finally:
        answers.set()


def test_a_snapshot_of_a_worker_does_not_need_the_journal(run):
    """The live table, and `run --once`, ask at every tick."""
    run.until(lambda: True)
    (one, _) = run.supervisor.workers.values()
    one._state.watched = watched(lambda: (LSN(70), LSN(60)))
    assert (one.snapshot().received, one.snapshot().last_entry) == (70, 60)

    def unavailable() -> Any:
        raise JournalUnavailable("the journal cannot be read now")

    one._state.watched = watched(unavailable)
    assert (one.snapshot().received, one.snapshot().last_entry) == (70, 60)
    assert "received 0/46" in one.snapshot().summary()
    assert not one.snapshot().caught_up


def test_a_run_survives_a_catalog_that_cannot_be_read_for_a_while(run, caplog, monkeypatch):
    real = CatalogWatch._read
    looks = iter(range(1_000_000))

    def read(watch: CatalogWatch) -> Any:
        if 3 <= next(looks) < 6:
            raise TargetError("the database says no")
        return real(watch)

    monkeypatch.setattr(CatalogWatch, "_read", read)
    with caplog.at_level(logging.WARNING):
        assert run.until(lambda: next(looks) > 40)
    assert caplog.text.count("the catalog cannot be read now: the database says no") == 1
    assert len(run.supervisor.workers) == 2


class SlowHalf:
    """A query whose end takes as long as it is told to take."""

    running = True
    streaming = False

    def __init__(self) -> None:
        self.cancelled = False
        self.may_end = threading.Event()

    def cancel(self) -> None:
        self.cancelled = True

    def stop(self) -> None:
        self.may_end.wait(SOON)


def test_a_worker_that_takes_long_to_end_delays_no_other_and_its_successor_waits_for_it(run, target):
    """DISABLE, then ENABLE, while a large batch is rolled back"""
    half = SlowHalf()
    first: list[SubscriptionWorker] = []

    def at_tick(one: SubscriptionWorker) -> None:
        if name_of(one) == "s1" and not first:
            first.append(one)
            one._applying.loop = half  # type: ignore[assignment]
            with target.begin() as connection:
                set_enabled(connection, "s1", enabled=False)

    run.at_tick = at_tick
    seen: list[int] = []

    def ended() -> bool:
        workers = run.supervisor.workers
        if half.cancelled and not seen and 1 not in workers:
            with target.begin() as connection:
                set_enabled(connection, "s1", enabled=True)
            seen.append(run.ticks["s2"])
        if seen and run.ticks["s2"] > seen[0] + 50 and not half.may_end.is_set():
            assert 1 not in workers, "two workers for one subscription"
            half.may_end.set()
        return half.may_end.is_set() and 1 in workers

    assert run.until(ended)
    assert run.supervisor.workers[1] is not first[0]
    assert first[0].ended
