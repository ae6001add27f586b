"""An hour in which nothing fails has few lines of log, by a simulated clock."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from subscriber.apply.applier import ApplyResult
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.table_states import RelationState
from subscriber.cli.options import log_to_stderr
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.stream.receive.walreceiver import ReceiverCounts
from subscriber.targets import Target, open_target
from subscriber.worker import receiving
from subscriber.worker import supervisor as supervisor_module
from subscriber.worker.receiver_process import GO
from subscriber.worker.supervisor import Supervisor
from subscriber.worker.worker_snapshot import WorkerSnapshot
from tests.frames import transaction
from tests.journals import T, insert, publish, writing
from tests.spark_functions import nothing
from tests.subscriptions import create_subscription, set_state

STEPS, STEP_SECONDS = 720, 5.0
NAMES = ("s1", "s2")


class Clock:
    """Time that passes by a step when it is told, and by a moment with each look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seconds = 0.0
        wall, monotonic = time.time(), time.monotonic()
        monkeypatch.setattr(time, "time", lambda: wall + self._look())
        monkeypatch.setattr(time, "monotonic", lambda: monotonic + self._look())

    def _look(self) -> float:
        self._seconds += 0.0001
        return self._seconds

    def tick(self) -> None:
        self._seconds += STEP_SECONDS


class PlayedReceiver:
    """A receiver process that is ready, begins when it is told to go, and then sends beats."""

    pid = 4711
    returncode = 0

    def __init__(self) -> None:
        self.stdin = self.stdout = self
        self._events: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._counts = ReceiverCounts()
        self.send("ready")

    def send(self, name: str, **fields: Any) -> None:
        self._events.put(json.dumps({"event": name, **fields}) + "\n")

    def beat(self, number: int) -> None:
        """Say that one more transaction has arrived."""
        counts = ReceiverCounts(100 * number, number, time.time(), time.time(), 0x300 + number, 0x300 + number)
        self.send("beat", **{**asdict(counts), "first_commit": number})

    def write(self, text: str) -> None:
        if text == GO:
            self.send("streaming", server="host db1, port 5432, PostgreSQL 18.4", start="0/100")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._events.put(None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._events.get, None)

    def poll(self) -> None:
        return None

    def wait(self, _seconds: float | None = None) -> int:
        return 0


class PlayedLoop:
    """An apply loop that applies what it is told."""

    running = True
    batch_began = 0.0
    applied = LSN(0x300)

    def __init__(self, name: str, *_: Any, on_applied: Any, **_others: Any) -> None:
        self.apply = on_applied

    def cancel(self) -> None:
        self.running = False

    stop = cancel


@pytest.fixture
def target(tmp_path) -> Iterator[Target]:
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        ensure_catalog(opened.engine)
        yield opened


@pytest.mark.slow
def test_a_healthy_hour_has_under_a_hundred_lines(target, tmp_path, monkeypatch, capsys, logging_before):
    """Two subscriptions receive and apply. What is logged is about their start alone."""
    receivers: list[PlayedReceiver] = []
    loops: list[PlayedLoop] = []
    found: dict[str, WorkerSnapshot] = {}
    for number, name in enumerate(NAMES, 1):
        create_subscription(target, name, applied=0x300)
        set_state(target, "t", RelationState.READY, subid=number)
        with writing(tmp_path / f"1_{name}", slot=name) as journal:
            publish(journal, 0x300, [*transaction(0x200, T, insert(1)), *transaction(0x300, insert(2))])

    def start_receiver(_fork_server: None) -> PlayedReceiver:
        receivers.append(PlayedReceiver())
        return receivers[-1]

    def start_loop(*arguments: Any, **options: Any) -> PlayedLoop:
        loops.append(PlayedLoop(*arguments, **options))
        return loops[-1]

    monkeypatch.setattr(supervisor_module, "start_receiver", start_receiver)
    monkeypatch.setattr(receiving, "adopt_slot", lambda _target, subscription, _settings: (subscription, LSN(0x300)))
    clock, stop, steps = Clock(monkeypatch), threading.Event(), 0
    log = log_to_stderr()
    capsys.readouterr()  # a log of an earlier test has written its counts as it closed
    supervisor = Supervisor(
        target,
        SparkFunctions(start_loop, nothing),  # type: ignore[arg-type]
        Settings(str(tmp_path)),
        once=False,
        tick_seconds=0.001,
    )

    def step(_supervisor: Supervisor) -> None:
        nonlocal steps
        steps += 1
        for receiver in receivers:
            receiver.beat(steps)
        for loop in loops:
            loop.apply(ApplyResult(LSN(0x300 + steps), 1, 3, commit_timestamp=steps * 1_000_000))
        log.log_counts()
        clock.tick()
        if steps == STEPS:
            found.update({one.subscription.name: one for one in supervisor.snapshots(look=False).values()})
            stop.set()

    supervisor.run(stop, step)
    lines = capsys.readouterr().err.splitlines()
    assert {name: one.state for name, one in found.items()} == dict.fromkeys(NAMES, "streaming")
    assert all(one.transactions > STEPS / 2 for one in found.values())
    starts = [line for line in lines if " starts at " in line or " streams from " in line]
    assert lines == starts
    assert len(starts) == 2 * len(NAMES)
