"""The part of a worker that has tables copied, and what follows when they are ready."""

from __future__ import annotations

import contextlib

import pytest

from subscriber.base.errors import ConflictError, PublisherTablesOutdated, PublisherUnavailable
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.table_states import RelationState
from subscriber.commands.consumers import JournalConsumers
from subscriber.spark.apply_pause import ApplyPause
from subscriber.worker.copying import Copying, SyncSnapshot
from subscriber.worker.failures import FailureLog
from subscriber.worker.receiving import Receiving, start_receiver
from subscriber.worker.worker_state import WorkerState
from tests.spark_functions import unused_functions
from tests.subscriptions import set_state, stored_states, stored_statistics, stored_subscription

READY, SYNCED, DATASYNC = RelationState.READY, RelationState.SYNCDONE, RelationState.DATASYNC


class Receiver:
    """A receiver that streams until it is stopped."""

    running = streaming = True
    ready = False
    pid = None

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


def half_of(state: WorkerState) -> Copying:
    """The part of a worker whose journal has received up to 400, with nothing to apply after 50."""
    state.positions, state.applied = (LSN(400), LSN(50)), LSN(50)
    settings, pause = Settings(""), ApplyPause()
    return Copying(
        state,
        Receiving(state, settings, start_receiver, messages=False),
        pause,
        contextlib.nullcontext(),
        spark=unused_functions(),
        settings=settings,
        failures=FailureLog(state, settings),
    )


@pytest.fixture
def half(worker_state) -> Copying:
    return half_of(worker_state(two_phase=True))


def read_relations(half: Copying) -> None:
    half._state.read_relations()


# Ready tables -------------------------------------------------------------------------------------


def test_a_table_is_ready_when_the_position_has_passed_its_own(half, target):
    """D5: with nothing to apply, the position is the LSN up to which the journal has received."""
    set_state(target, "a", SYNCED, 300)
    set_state(target, "b", SYNCED, 500)
    read_relations(half)
    half.make_ready()
    assert stored_states(target) == {"a": ("r", 300), "b": ("s", 500)}
    assert [one.name for one in half._state.relations.unfinished] == ["b"]


def test_a_table_is_not_ready_while_changes_before_its_position_wait(half, target):
    """D5"""
    set_state(target, "a", SYNCED, 300)
    read_relations(half)
    half._state.positions = LSN(400), LSN(200)
    half.make_ready()
    assert stored_states(target) == {"a": ("s", 300)}
    half._state.applied = LSN(300)
    half.make_ready()
    assert stored_states(target) == {"a": ("r", 300)}


@pytest.mark.parametrize("state", [state for state in RelationState if state not in {SYNCED, READY}])
def test_a_table_that_is_not_synchronized_does_not_become_ready(half, target, state):
    set_state(target, "a", state, 40)
    read_relations(half)
    half.make_ready()
    assert stored_states(target) == {"a": (state.value, 40)}


def test_the_states_that_are_stored_now_decide(half, target):
    """A command may have changed them since the catalog was last read."""
    set_state(target, "a", SYNCED, 300)
    read_relations(half)
    set_state(target, "a", RelationState.INIT)
    half.make_ready()
    assert stored_states(target) == {"a": ("i", None)}


def test_the_error_of_a_copy_is_forgotten_when_every_table_is_ready(half, target):
    set_state(target, "a", SYNCED, 300)
    read_relations(half)
    half.error = ConflictError("duplicate key")
    half.make_ready()
    assert half.error is None


def test_the_error_of_a_copy_is_kept_while_a_table_is_not_ready(half, target):
    set_state(target, "a", SYNCED, 300)
    set_state(target, "b", DATASYNC)
    read_relations(half)
    half.error = ConflictError("duplicate key")
    half.make_ready()
    assert half.error is not None


# Two-phase commit ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "enabled"),
    [({}, False), ({"a": READY, "b": SYNCED}, False), ({"a": READY, "b": READY}, True)],
    ids=["no tables", "one is not ready", "all are ready"],
)
def test_two_phase_is_enabled_when_every_table_is_ready_and_there_is_one(half, target, states, enabled):
    """C48"""
    half._receiver.process = receiver = Receiver()
    for name, state in states.items():
        set_state(target, name, state, 300)
    read_relations(half)
    half.enable_two_phase()
    letter = "e" if enabled else "p"
    assert stored_subscription(target).two_phase_state == half._state.subscription.two_phase_state == letter
    assert (half._receiver.process is None, receiver.stopped) == (enabled, enabled)


def test_a_subscription_without_two_phase_does_not_get_it(worker_state, target):
    half = half_of(worker_state(two_phase=False))
    set_state(target, "a", READY, 300)
    read_relations(half)
    half.enable_two_phase()
    assert stored_subscription(target).two_phase_state == "d"


# Copies -------------------------------------------------------------------------------------------


def test_before_the_first_round_nothing_is_copied(half):
    assert half.picture() == SyncSnapshot()


def test_with_every_table_ready_two_phase_is_enabled_without_a_round(half, target, tmp_path):
    half._state.consumers = JournalConsumers(str(tmp_path), "8c1f" * 8, 1, subscription="s", place="sqlite:///t.db")
    set_state(target, "a", SYNCED, 300)
    read_relations(half)
    half.attempts.record_failure(PublisherUnavailable("away"), 5.0)
    half.synchronize()
    assert stored_states(target) == {"a": ("r", 300)}
    assert stored_subscription(target).two_phase_state == "e"
    assert half.attempts.error is None
    assert half.picture() == SyncSnapshot()


def test_tables_become_ready_between_two_rounds(half, target, monkeypatch, tmp_path):
    """With thousands of tables there are many rounds."""
    half._state.consumers = JournalConsumers(str(tmp_path), "8c1f" * 8, 1, subscription="s", place="")
    half.synchronize()
    set_state(target, "a", SYNCED, 300)
    set_state(target, "b", RelationState.INIT)
    read_relations(half)
    begun: list[dict[str, tuple[str, int | None]]] = []
    monkeypatch.setattr(half.sync, "tick", lambda _relations: begun.append(stored_states(target)))
    half.synchronize()
    assert begun == [{"a": ("r", 300), "b": ("i", None)}]


def test_no_table_becomes_ready_while_the_apply_is_held(half, target, tmp_path):
    """Its rows may be from after the LSN of the hold."""
    half._state.consumers = JournalConsumers(str(tmp_path), "8c1f" * 8, 1, subscription="s", place="")
    set_state(target, "a", SYNCED, 300)
    read_relations(half)
    half._pause.limit = LSN(0)
    half.synchronize()
    assert stored_states(target) == {"a": ("s", 300)}
    half._pause.limit = None
    half.synchronize()
    assert stored_states(target) == {"a": ("r", 300)}


def test_after_a_round_the_states_that_it_has_stored_are_read_at_once(half, target, tmp_path):
    """The catalog is read a few times a second otherwise, and the table is ready only then."""
    woken: list[int] = []
    half._state.wake = lambda: woken.append(1)
    half._state.consumers = JournalConsumers(str(tmp_path), "t" * 32, 1, subscription="s", place="sqlite:///t.db")
    half.synchronize()
    set_state(target, "a", SYNCED, 300)
    half._round_ended()
    assert woken == [1]
    half.synchronize()
    assert stored_states(target) == {"a": ("r", 300)}


def test_a_failed_copy_is_recorded_and_does_not_stop_the_worker(half, target):
    set_state(target, "a", DATASYNC)
    read_relations(half)
    (relation,) = half._state.relations
    error = ConflictError("duplicate key")
    half.copy_failed(error, relation)
    assert half.error is error
    assert stored_statistics(target)["sync_error_count"] == 1
    assert stored_subscription(target).enabled
    assert not half._state.stopped


def test_a_failed_copy_disables_a_subscription_that_asks_for_that(worker_state, target):
    """C35: in tablesync too."""
    half = half_of(worker_state(disable_on_error=True))
    half.copy_failed(PublisherUnavailable("away"), None)
    assert stored_subscription(target).enabled
    half.copy_failed(ConflictError("duplicate key"), None)
    assert not stored_subscription(target).enabled
    assert half._state.disabled


def test_a_copy_fails_if_the_publishers_tables_cannot_be_read_again(target, emulated):
    half = half_of(WorkerState(target, emulated))
    half.copy_failed(PublisherTablesOutdated("the publisher's tables have changed"), None)
    assert isinstance(half.error, PublisherUnavailable)
    assert stored_statistics(target)["sync_error_count"] == 1
