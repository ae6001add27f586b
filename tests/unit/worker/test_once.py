"""``run --once``: it went well only when everything is done; whatever is not is named with its
reason (the issue's first fault).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

from subscriber.base.errors import ConflictError, PublisherUnavailable, TargetUnavailable
from subscriber.base.lsn import LSN
from subscriber.base.retry import FailedAttempts, RetryState
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import Subscription, delete_subscription, set_enabled
from subscriber.catalog.table_states import RelationState, SubscriptionRelation, record_relation_error
from subscriber.targets import Target
from subscriber.worker import once
from subscriber.worker.catalog_watch import CatalogWatch
from subscriber.worker.supervisor import Supervisor
from subscriber.worker.worker import SubscriptionWorker
from tests.spark_functions import unused_functions
from tests.subscriptions import create_subscription, set_state

MARK = LSN(80)


@pytest.fixture
def target(target: Target) -> Target:
    """A target with subscriptions s1 and s2, which have a table t each that is ready."""
    for name in ("s1", "s2"):
        created = create_subscription(target, name)
        set_state(target, "t", RelationState.READY, subid=created.subid)
    return target


class Half:
    """A receiver, a query or a round of copies that works."""

    running = streaming = True
    ready = killed = False
    skipped = server = pid = None
    heard_at = math.inf
    attempts = RetryState()
    applied = LSN(0)
    copies = ()
    loads_since = None

    def __init__(self, *failing: str) -> None:
        self.failed_tables = {("public", table): FailedAttempts(in_a_row=2) for table in failing}

    def cancel(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def tick(self, _relations: object) -> None:
        pass


class Run:
    """``run --once`` whose workers have received up to 100 and applied it; ``at_tick`` may say
    otherwise, at each worker's tick.
    """

    def __init__(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        self.target = target
        self.stop = threading.Event()
        self.ticks = 0
        self.at_tick: Callable[[SubscriptionWorker], None] = lambda _worker: None
        self.warned: list[str] = []
        self.supervisor = Supervisor(
            target,
            unused_functions(),
            Settings("", wal_retrieve_retry_interval=0.001),
            once=True,
            tick_seconds=0.001,
            catalog_seconds=60.0,
        )

        def tick(worker: SubscriptionWorker) -> None:
            self.ticks += 1
            assert self.ticks < 10_000, "it does not end"
            if not worker.snapshot().stopped and worker._receiving.process is None:
                worker._receiving.process = worker._applying.loop = Half()  # type: ignore[assignment]
                worker._state.applied = LSN(100)
                worker._state.positions = LSN(100), LSN(100)
            self.at_tick(worker)

        monkeypatch.setattr(SubscriptionWorker, "tick", tick)
        monkeypatch.setattr(once, "write_once_target", lambda _subscription: MARK)
        monkeypatch.setattr(
            once, "warn_of_unknown_tables", lambda _target, subscription, _known: self.warned.append(subscription.name)
        )

    def went_well(self) -> bool:
        return self.supervisor.run(self.stop)

    def set_state(self, subid: int, state: RelationState, table: str = "t", error: str | None = None) -> None:
        set_state(self.target, table, state, subid=subid)
        if error:
            with self.target.begin() as connection:
                record_relation_error(connection, subid, "public", table, error)

    def change(self, what: Callable[[Any], None]) -> None:
        with self.target.begin() as connection:
            what(connection)


@pytest.fixture
def run(target, monkeypatch) -> Run:
    return Run(target, monkeypatch)


def test_a_run_succeeds_if_every_table_is_ready_and_everything_is_applied(run, caplog):
    assert run.went_well()
    assert (run.warned, [record for record in caplog.records if record.levelname == "ERROR"]) == (["s1", "s2"], [])


def test_a_table_whose_copy_fails_again_and_again_is_named_with_its_state_its_reason_and_what_to_do(run, caplog):
    """Supervisor.run used to ask whether a worker had given up when that had forgotten its table
    synchronization.
    """
    report = "ERROR:  column own must not be null\nDETAIL:  It is the target's own.\nHINT:  Give it a default."
    run.set_state(1, RelationState.DATASYNC, error=report)

    def failing(worker: SubscriptionWorker) -> None:
        if worker.snapshot().subscription.name == "s1":
            worker._synchronizing.sync = Half("t")  # type: ignore[assignment]

    run.at_tick = failing
    assert not run.went_well()
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said == (
        'table "public.t" of subscription "s1" is not ready (state "d", being copied): column own must not be null\n'
        "HINT:  Give it a default."
    )


@pytest.mark.parametrize("state", [state for state in RelationState if state is not RelationState.READY])
def test_a_run_fails_if_a_table_is_not_ready(run, state, caplog):
    run.set_state(2, state)

    def end(worker: SubscriptionWorker) -> None:
        if run.ticks > 20:
            run.stop.set()

    run.at_tick = end
    assert not run.went_well()
    assert f'table "public.t" of subscription "s2" is not ready (state "{state.value}", ' in caplog.text


def test_a_failing_table_does_not_end_the_copies_of_others(run):
    """They may take hours; what fails is said when they are done."""
    run.set_state(1, RelationState.DATASYNC, "broken")
    run.set_state(1, RelationState.DATASYNC, "large")
    seen: list[int] = []

    def one_fails(worker: SubscriptionWorker) -> None:
        if worker.snapshot().subscription.name != "s1":
            return
        worker._synchronizing.sync = Half("broken")  # type: ignore[assignment]
        seen.append(1)
        if len(seen) == 50:
            run.set_state(1, RelationState.READY, "large")
            worker._state.read_relations()

    run.at_tick = one_fails
    assert not run.went_well()
    assert len(seen) >= 50


def test_an_interrupted_run_fails(run, caplog):
    def behind(worker: SubscriptionWorker) -> None:
        worker._applying.loop = None
        run.stop.set()

    run.at_tick = behind
    assert not run.went_well()
    assert "the run was stopped before every subscription had caught up" in caplog.text
    assert 'subscription "s1" has not caught up: it has applied changes up to 0/64' in caplog.text


@pytest.mark.parametrize("disabled", [True, False])
def test_a_run_fails_if_no_subscription_is_enabled(run, caplog, disabled):
    def remove(connection: Any) -> None:
        for name in ("s1", "s2"):
            if disabled:
                set_enabled(connection, name, enabled=False)
            else:
                delete_subscription(connection, name)

    run.change(remove)
    assert not run.went_well()
    assert "no subscription is enabled in this target" in caplog.text
    assert ('disabled: "s1", "s2"' in caplog.text) == disabled


def test_a_disabled_subscription_is_named_beside_one_that_has_caught_up(run, caplog):
    run.change(lambda connection: set_enabled(connection, "s2", enabled=False))
    assert run.went_well()
    assert 'disabled subscriptions are not run, and whether they have caught up is not known: "s2"' in caplog.text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: set_enabled(one, "s1", enabled=False), 'subscription "s1" was disabled before it had'),
        (lambda one: delete_subscription(one, "s1"), 'subscription "s1" was dropped before it had caught up'),
    ],
)
def test_a_run_fails_if_a_command_drops_or_disables_its_subscription(run, caplog, change, said):
    run.at_tick = lambda _worker: run.change(change) if run.ticks == 1 else None
    assert not run.went_well()
    assert said in caplog.text


def test_a_run_fails_if_an_error_disables_its_subscription(run, caplog):
    def fail(worker: SubscriptionWorker) -> None:
        if worker.snapshot().subscription.name == "s1" and not worker.snapshot().stopped:
            worker._applying.attempts.record_failure(ConflictError("duplicate key"), 5.0)
            worker._failures.disable()

    run.at_tick = fail
    assert not run.went_well()
    assert 'subscription "s1" was disabled because of an error: duplicate key' in caplog.text
    assert "ALTER SUBSCRIPTION s1 ENABLE;" in caplog.text


def test_a_run_waits_for_a_table_that_a_command_adds_at_the_last_moment(run):
    """The catalog is read once a second, and once more before the end."""
    added: list[int] = []

    def add(worker: SubscriptionWorker) -> None:
        if not added:
            run.set_state(1, RelationState.INIT, "late")
            added.append(run.ticks)
        elif run.ticks == 100:
            run.set_state(1, RelationState.READY, "late")
            run.supervisor.catalog_watch.poll_soon()

    run.at_tick = add
    assert run.went_well()
    assert run.ticks > 100


def test_a_run_fails_if_the_catalog_cannot_be_read_at_the_end(run, monkeypatch, caplog):
    """With no worker left because a command had changed its subscription, nothing was left to be
    done either.
    """
    real = CatalogWatch._read
    looks = iter(range(1_000))

    def read(watch: CatalogWatch) -> Any:
        if next(looks) == 0:
            return real(watch)
        run.supervisor.workers.clear()
        raise TargetUnavailable("the target is away")

    monkeypatch.setattr(CatalogWatch, "_read", read)
    run.supervisor.catalog_watch._seconds = 0.001
    assert not run.went_well()
    assert "the catalog cannot be read" in caplog.text


def test_a_run_gives_up_if_the_publisher_cannot_be_asked_for_its_position(run, monkeypatch, caplog):
    """A role without the right to write a logical message used to be waited for without end, and
    without a word.
    """

    def refuse(_subscription: Subscription) -> LSN:
        raise PublisherUnavailable("permission denied for function pg_logical_emit_message")

    def play(worker: SubscriptionWorker) -> None:
        worker._receiving.process = worker._applying.loop = Half()  # type: ignore[assignment]

    monkeypatch.setattr(once, "write_once_target", refuse)
    monkeypatch.setattr(SubscriptionWorker, "tick", play)
    assert not run.went_well()
    assert 'subscription "s2" has not caught up: permission denied for function pg_logical_emit_message' in caplog.text
    assert "the publisher's WAL position has not been read" in caplog.text


def test_a_sequence_that_is_not_set_is_named():
    relation = SubscriptionRelation("public", "q", RelationState.INIT, None, is_sequence=True)
    assert once.table_not_ready("s1", relation).message == (
        'sequence "public.q" of subscription "s1" is not ready (state "i", to be synchronized): its value has not been set'
    )
