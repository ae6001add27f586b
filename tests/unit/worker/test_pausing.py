"""The part of a worker that obeys a hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from subscriber.base.errors import TargetUnavailable
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog import leases
from subscriber.catalog.apply_pauses import PauseState, bind_pause
from subscriber.catalog.leases import Lease, LeaseKind, find_lease, release, renew
from subscriber.commands.consumers import JournalConsumers
from subscriber.spark.apply_pause import ApplyPause
from subscriber.stream.journal.positions import CachedAnswer
from subscriber.targets import Target
from subscriber.worker import pausing
from subscriber.worker.pausing import Pausing
from subscriber.worker.worker_state import WorkerState
from tests.journals import three_large_transactions
from tests.leases import pause_lease, store_lease
from tests.waits import wait_until

PAUSE = pause_lease()
BOUND = LSN(0x310)


class Scene:
    """A worker whose journal has entries that end at 0/200, 0/300 and 0/400."""

    def __init__(self, state: WorkerState, folder: Path) -> None:
        three_large_transactions(folder)
        self.state = state
        self.target: Target = state.target
        self.pause = ApplyPause()
        self.half = Pausing(state, self.pause)
        self.received = LSN(0x400)
        state.consumers = JournalConsumers(str(folder), "8c1f" * 8, 1, subscription="s", place="sqlite:///t.db")
        state.watched = CachedAnswer(lambda: (self.received, LSN(0x400)), remote=False)

    def insert(self, pause: Lease = PAUSE) -> None:
        with self.target.begin() as connection:
            store_lease(connection, pause)
        self.look()

    def row(self) -> Lease | None:
        with self.target.engine.connect() as connection:
            return find_lease(connection, LeaseKind.PAUSE, 1)

    def look(self) -> None:
        """What the supervisor does after a read of the catalog."""
        self.half.update(self.row())

    def ticks_until(self, condition: Callable[[], object]) -> None:
        def happens() -> object:
            self.half.tick()
            return condition()

        wait_until(happens)

    def ticks(self) -> None:
        for _ in range(20):
            self.half.tick()

    def state_is(self, state: PauseState) -> bool:
        pause = self.half.lease
        return pause is not None and pause.state == state

    def bind(self) -> None:
        self.ticks_until(lambda: self.state_is(PauseState.PAUSED))
        with self.target.begin() as connection:
            assert bind_pause(connection, PAUSE, BOUND)
        self.look()

    def applied(self, lsn: int) -> None:
        with self.target.begin() as connection:
            progress = self.state.subscription.progress
            progress.advance(connection, progress.read(connection), LSN(lsn))
        self.state.applied = LSN(lsn)


@pytest.fixture
def scene(worker_state, tmp_path, monkeypatch) -> Scene:
    monkeypatch.setattr(pausing, "_PAUSE_SECONDS", 0.0)
    return Scene(worker_state(), tmp_path / "journal")


def test_without_a_hold_there_is_no_bound(scene):
    scene.look()
    scene.ticks()
    assert scene.pause.limit is None


def test_nothing_is_applied_from_the_moment_on_that_a_hold_is_read(scene):
    scene.insert()
    assert scene.pause.limit == INVALID_LSN


def test_the_pause_is_acknowledged_when_no_batch_is_in_progress(scene):
    with scene.pause:
        scene.insert()
        scene.ticks()
        assert scene.row() == PAUSE
    scene.ticks_until(lambda: scene.state_is(PauseState.PAUSED))
    assert scene.row() == replace(PAUSE, state=PauseState.PAUSED)
    assert scene.pause.limit == INVALID_LSN


def test_the_bound_is_acknowledged_when_everything_up_to_it_is_received_and_applied(scene, caplog):
    caplog.set_level("INFO")
    scene.applied(0x200)
    scene.insert()
    scene.bind()
    assert scene.pause.limit == BOUND
    scene.ticks()
    assert scene.state_is(PauseState.PAUSED), "the entry that ends at 0/300 is not applied"
    scene.received = LSN(0x300)
    scene.applied(0x300)
    scene.ticks()
    assert scene.state_is(PauseState.PAUSED), "something before the bound may still arrive"
    scene.received = LSN(0x400)
    scene.ticks_until(lambda: scene.state_is(PauseState.HELD))
    assert scene.row() == replace(PAUSE, state=PauseState.HELD, bound=BOUND, reached=BOUND)
    assert scene.pause.limit == INVALID_LSN, "there is nothing to look for any more"
    assert 'the apply of subscription "s" is held at 0/310 by process 4711 on host db1' in caplog.text


def test_a_batch_in_progress_is_waited_for_before_the_bound_is_acknowledged(scene):
    scene.applied(0x300)
    scene.insert()
    scene.bind()
    with scene.pause:
        scene.ticks()
        assert scene.state_is(PauseState.PAUSED)
    scene.ticks_until(lambda: scene.state_is(PauseState.HELD))


def test_a_target_that_is_beyond_the_bound_is_not_acknowledged(scene):
    scene.applied(0x400)
    scene.insert()
    scene.bind()
    scene.ticks()
    assert scene.row() == replace(PAUSE, state=PauseState.PAUSED, bound=BOUND)


@pytest.mark.parametrize(
    ("pause", "bound"),
    [
        (replace(PAUSE, state=PauseState.PAUSED), INVALID_LSN),
        (replace(PAUSE, state=PauseState.PAUSED, bound=BOUND), BOUND),
        (replace(PAUSE, state=PauseState.HELD, bound=BOUND, reached=BOUND), INVALID_LSN),
    ],
    ids=["paused", "bound", "held"],
)
def test_a_worker_that_starts_during_a_hold_obeys_it(scene, pause, bound):
    """any_crash: the run was killed, and is started again."""
    scene.insert(pause)
    assert scene.pause.limit == bound


def test_the_apply_goes_on_when_the_row_is_gone(scene, caplog):
    caplog.set_level("INFO")
    scene.insert()
    with scene.target.begin() as connection:
        release(connection, PAUSE)
    scene.look()
    assert scene.pause.limit is None
    assert 'the apply of subscription "s" goes on' in caplog.text


def test_an_answer_does_not_replace_a_newer_reading_of_the_catalog(scene, monkeypatch):
    """The command may have ended the hold while the answer was on its way."""
    scene.insert()
    answered = scene.half._answer()
    assert answered.lease is not None
    monkeypatch.setattr(scene.half.answering, "_work", lambda: answered)
    scene.half.tick()
    with scene.target.begin() as connection:
        release(connection, PAUSE)
    scene.look()
    scene.ticks_until(lambda: not scene.half._asked)
    assert (scene.half.lease, scene.pause.limit) == (None, None)


def test_a_hold_is_removed_when_its_holder_is_dead(scene, monkeypatch, caplog):
    monkeypatch.setattr(leases, "STALE_SECONDS", -1.0)
    scene.insert()
    scene.ticks_until(lambda: scene.half.lease is None)
    assert (scene.row(), scene.pause.limit) == (None, None)
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "its holder, process 4711 on host db1, has ended, or has not renewed it" in warning.message


def test_a_holder_that_is_alive_after_all_keeps_its_hold(scene, monkeypatch):
    monkeypatch.setattr(leases, "STALE_SECONDS", -1.0)
    scene.insert()
    with scene.target.begin() as connection:
        renew(connection, PAUSE)
    scene.half.tick()
    wait_until(lambda: not scene.half.answering.is_under_way())
    assert scene.row() is not None


def test_an_answer_that_cannot_be_written_is_given_again(scene, monkeypatch):
    failures = []

    def away() -> None:
        failures.append(1)
        raise TargetUnavailable("the target is away")

    with monkeypatch.context() as patched:
        patched.setattr(scene.target, "begin", away)
        scene.half.update(PAUSE)
        scene.ticks_until(lambda: len(failures) > 2)
        assert scene.pause.limit == INVALID_LSN, "a hold that was read is obeyed"
    scene.insert()
    scene.ticks_until(lambda: scene.state_is(PauseState.PAUSED))
