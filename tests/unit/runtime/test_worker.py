"""A worker's two halves: what is tried again, and what stays stopped."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from typing import ClassVar

import pytest
import sqlalchemy as sa

from subscriber import catalog
from subscriber.apply.conflict import ChangePlace, Conflict
from subscriber.apply.failure import as_conflict
from subscriber.catalog import ConflictKind, RelationState, Subscription
from subscriber.catalog.own_tables import CONFLICT
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.errors import (
    ConflictError,
    JournalGap,
    PipelineError,
    ProgressConflict,
    ProtocolError,
    PublicationsChanged,
    PublisherTablesOutdated,
    PublisherUnavailable,
    SubscriberError,
    TargetUnavailable,
)
from subscriber.lsn import LSN
from subscriber.runtime.apply_half import ApplyHalf
from subscriber.runtime.attempts import Attempts, FailedAttempts
from subscriber.runtime.receiver_half import ReceiverHalf
from subscriber.runtime.worker import SubscriptionWorker
from subscriber.schema.relation_names import parse_names
from subscriber.settings import Settings
from subscriber.targets import open_target
from tests.frames import relation as shape
from tests.frames import transaction
from tests.journals import T, insert, publish, writing

SUBSCRIPTION = Subscription(
    1, "s", "", ("p",), SubscriptionOptions(), enabled=True, slot_name="s", skip_lsn=LSN(0), system_identifier="1"
)


class Ended:
    """A receiver or query that has ended."""

    running = False
    streaming = True
    ready = False
    batch_began = 12.5

    def __init__(self, error: SubscriberError) -> None:
        self._error = error

    def failure(self) -> SubscriberError:
        return self._error

    def stop(self) -> None:
        pass


class NoTarget:
    """A target that is away, so that no error can be recorded either."""

    def begin(self):
        raise TargetUnavailable("the target is not available")


@pytest.fixture
def worker(monkeypatch):
    worker = SubscriptionWorker(SUBSCRIPTION, NoTarget(), None, Settings(""), contextlib.nullcontext())  # type: ignore[arg-type]
    monkeypatch.setattr(ReceiverHalf, "start", lambda self: starts.append("receiver"))
    monkeypatch.setattr(ApplyHalf, "start", lambda self: None)
    starts: list[str] = []
    worker.starts = starts  # type: ignore[attr-defined]
    return worker


LASTING = [ProtocolError("bad message"), JournalGap("gap"), ProgressConflict("moved")]
PASSING = [PublisherUnavailable("away"), TargetUnavailable("away"), ConflictError("duplicate key")]


@pytest.mark.parametrize("half", ["receiver", "query"])
@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_after_a_lasting_failure_neither_half_is_started_again(worker, error, half, caplog):
    """The slot must not move past what could not be read, so nobody may stream from it; the log
    says that it stays so.
    """
    if half == "receiver":
        worker._receiving.process = Ended(error)
    else:
        worker._applying.query = Ended(error)
    for _ in range(3):
        worker.tick()
    assert worker.snapshot().stopped
    assert worker.snapshot().state == "stopped"
    assert worker.snapshot().failure is error
    assert worker.starts == []
    assert "stays stopped until" in caplog.text


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_a_passing_failure_is_tried_again_after_a_while(worker, error):
    """C35: the wait doubles up to wal_retrieve_retry_interval"""
    worker._receiving.process = Ended(error)
    worker.tick()
    assert not worker.snapshot().stopped
    assert worker.starts == []
    assert worker.snapshot().state == "retrying"
    worker._receiving.attempts.wait(0.0)
    worker.tick()
    assert worker.starts == ["receiver"]


def test_the_wait_doubles_up_to_the_longest(worker):
    waits = [worker._receiving.attempts.note_failure(PASSING[0], 5.0) for _ in range(6)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_change_that_cannot_be_applied_tells_when_its_batch_began(worker):
    """C35: so that one who waits knows whether a change of the target's came before it or after"""
    assert (worker.snapshot().stuck_since, worker.snapshot().failed_attempts) == (None, (0, 0, 0))
    worker._applying.query = Ended(ConflictError("conflict"))
    worker.tick()
    assert (worker.snapshot().stuck_since, worker.snapshot().failed_attempts) == (12.5, (0, 1, 0))
    worker._applying.attempts.works()
    assert (worker.snapshot().stuck_since, worker.snapshot().failed_attempts) == (None, (0, 1, 0))


def test_a_change_that_cannot_be_applied_is_told_of_when_its_failure_has_been_recorded(worker, monkeypatch):
    """Whoever waits for it looks at the statistics next"""
    worker._applying.query = Ended(ConflictError("conflict"))
    worker.tick()
    told = []
    monkeypatch.setattr("subscriber.runtime.failures.record", lambda *_: told.append(worker.snapshot().stuck_since))
    worker._applying.query = Ended(ConflictError("another"))
    worker._applying.query.batch_began = 20.0
    worker.tick()
    assert (told, worker.snapshot().stuck_since) == ([12.5], 20.0)


def test_a_target_that_is_away_is_no_change_that_cannot_be_applied(worker):
    worker._applying.query = Ended(TargetUnavailable("the target is not available"))
    worker.tick()
    assert (worker.snapshot().stuck_since, worker.snapshot().failed_attempts) == (None, (0, 1, 0))


# disable_on_error, two-phase, what restarts a worker ----------------------------------------------


@pytest.fixture
def stored(tmp_path):
    """A target with subscription s, and a function that makes a worker for it as it is then."""
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        catalog.ensure_catalog(target.engine)

        def make(**options) -> SubscriptionWorker:
            with target.begin() as connection:
                subscription = catalog.insert_subscription(
                    connection, "s", "", ["p"], SubscriptionOptions(slot_name="s", **options), "1"
                )
                subscription.progress.create(connection, LSN(50))
            return SubscriptionWorker(subscription, target, None, Settings(""), contextlib.nullcontext())  # type: ignore[arg-type]

        yield make


def current(worker) -> Subscription:
    with worker._state.target.engine.connect() as connection:
        return catalog.get_subscription(connection, "s")


def test_every_attempt_that_meets_a_conflict_is_counted_and_one_row_is_kept(stored):
    """C22, C35: apply_error_count and the kind's counter go up together, as in PostgreSQL"""
    worker = stored()
    for attempt in range(3):
        conflict = Conflict(ConflictKind.INSERT_EXISTS, "public.t", ChangePlace(731, LSN(0x100), attempt))
        error = as_conflict(ConflictError("duplicate key", lsn=100), conflict)
        worker._failed(worker._applying.attempts, error)
    with worker._state.target.begin() as connection:
        statistics = catalog.statistics_of(connection, 1)
        rows = connection.execute(sa.select(CONFLICT)).all()
    assert (statistics["apply_error_count"], statistics["confl_insert_exists"]) == (3, 3)
    assert [(row.subname, row.relation, row.attempts, row.remote_commit_lsn) for row in rows] == [
        ("s", "public.t", 3, "0/100")
    ]


@pytest.mark.parametrize("error", [ConflictError("duplicate key"), ProtocolError("bad message")], ids=repr)
def test_a_subscription_is_disabled_by_an_error_when_it_asks_for_that(stored, error, caplog):
    """C35"""
    worker = stored(disable_on_error=True)
    worker._applying.query = Ended(error)
    worker.tick()
    assert worker.snapshot().stopped
    assert worker.snapshot().disabled
    assert not current(worker).enabled
    assert 'subscription "s" has been disabled because of an error' in caplog.text


def test_a_target_that_is_away_does_not_keep_a_worker_from_going_on_when_it_is_to_disable_its_subscription(
    worker, caplog
):
    worker._state.subscription = replace(SUBSCRIPTION, options=SubscriptionOptions(disable_on_error=True))
    worker._applying.query = Ended(ConflictError("duplicate key"))
    worker.tick()
    assert not worker.snapshot().stopped
    assert worker.snapshot().failed_attempts == (0, 1, 0)
    assert "cannot be disabled now: the target is not available" in caplog.text


def test_a_batch_that_fails_is_logged_recorded_and_counted_in_its_place(stored, caplog):
    """C35: as where its query had ended, only that it has not"""
    worker = stored()
    waits = [worker._applying.batch_failed(ConflictError("duplicate key"), 7.0 + attempt) for attempt in range(6)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert (worker.snapshot().stuck_since, worker.snapshot().failed_attempts, worker.snapshot().given_up) == (
        12.0,
        (0, 6, 0),
        True,
    )
    with worker._state.target.begin() as connection:
        assert catalog.statistics_of(connection, 1)["apply_error_count"] == 6
    assert caplog.text.count("ERROR:  duplicate key") == 6


@pytest.mark.parametrize(
    "error",
    [*LASTING, PublicationsChanged("changed"), PublisherTablesOutdated("changed"), PipelineError("Spark")],
    ids=lambda error: type(error).__name__,
)
def test_a_batch_is_not_tried_again_where_that_would_not_help(stored, error, caplog):
    """Its query ends; what is to be done then is said and done by the worker, once."""
    worker = stored()
    assert worker._applying.batch_failed(error, 7.0) is None
    assert worker.snapshot().failed_attempts == (0, 0, 0)
    assert not caplog.text


def test_a_conflict_ends_the_query_of_a_subscription_that_it_disables(stored):
    """C35"""
    worker = stored(disable_on_error=True)
    assert worker._applying.batch_failed(ConflictError("duplicate key"), 7.0) is None
    assert worker._applying.batch_failed(TargetUnavailable("away"), 7.0) == 0.5


def test_a_lost_connection_does_not_disable_a_subscription(stored):
    worker = stored(disable_on_error=True)
    worker._receiving.process = Ended(PublisherUnavailable("away"))
    worker.tick()
    assert not worker.snapshot().stopped
    assert current(worker).enabled


def test_a_failed_copy_disables_a_subscription_that_asks_for_that(stored):
    """C35: in tablesync too"""
    worker = stored(disable_on_error=True)
    worker._synchronizing.copy_failed(ConflictError("duplicate key"), None)
    assert not current(worker).enabled
    assert worker.snapshot().disabled


def test_a_failed_copy_is_counted_apart_and_kept_with_its_table(stored):
    worker = stored()
    with worker._state.target.begin() as connection:
        catalog.set_relation_state(connection, 1, "public", "t", RelationState.DATASYNC)
        (relation,) = catalog.relations_of(connection, 1)
    worker._synchronizing.copy_failed(ConflictError("duplicate key"), relation)
    with worker._state.target.begin() as connection:
        statistics = catalog.statistics_of(connection, 1)
        (relation,) = catalog.relations_of(connection, 1)
    assert (statistics["apply_error_count"], statistics["sync_error_count"]) == (0, 1)
    assert relation.error == "ERROR:  duplicate key"
    assert worker.snapshot().failure is not None


@pytest.mark.parametrize(
    ("option", "value", "restarts"),
    [
        ("disable_on_error", True, False),
        ("synchronous_commit", "local", False),
        ("run_as_owner", True, False),
        ("log_conflict_values", True, False),
        ("binary", True, True),
        ("streaming", "off", True),
        ("origin", "none", True),
        ("map", parse_names("a.* => b.*"), True),
    ],
)
def test_some_options_are_taken_up_without_a_restart(worker, option, value, restarts):
    """C39"""
    changed = replace(SUBSCRIPTION, options=replace(SUBSCRIPTION.options, **{option: value}))
    assert worker.needs_restart(changed) == restarts


def test_a_skip_lsn_needs_no_restart_and_a_publication_does(worker):
    """C39"""
    assert not worker.needs_restart(replace(SUBSCRIPTION, skip_lsn=LSN(9)))
    assert worker.needs_restart(replace(SUBSCRIPTION, publications=("p", "q")))
    assert worker.needs_restart(replace(SUBSCRIPTION, name="t"))


@pytest.fixture
def tables(stored):
    """A worker whose journal has received up to 400, with nothing to apply after 50; and a way to
    give it tables.
    """
    worker = stored(two_phase=True)
    worker._state.positions = LSN(400), LSN(50)
    worker._state.applied = LSN(50)

    def give(**states: tuple[RelationState, int | None]):
        with worker._state.target.begin() as connection:
            for name, (state, lsn) in states.items():
                catalog.set_relation_state(connection, 1, "public", name, state, None if lsn is None else LSN(lsn))
        worker._state.read_relations()
        return worker

    return give


def test_a_table_is_ready_when_the_position_has_passed_its_own(tables):
    """D5: with nothing to apply, the position is how far the journal has received"""
    worker = tables(a=(RelationState.SYNCDONE, 300), b=(RelationState.SYNCDONE, 500))
    worker._synchronizing.make_ready()
    assert [(one.state.value, one.lsn) for one in worker.snapshot().relations] == [("r", 300), ("s", 500)]


def test_a_table_is_not_ready_while_changes_before_its_position_wait(tables):
    """D5"""
    worker = tables(a=(RelationState.SYNCDONE, 300))
    worker._state.positions = LSN(400), LSN(200)
    worker._synchronizing.make_ready()
    assert worker.snapshot().relations[0].state is RelationState.SYNCDONE


def test_two_phase_begins_when_every_table_is_ready_and_there_is_one(tables):
    """C48"""
    worker = tables()
    worker._receiving.process = receiver = Ended(PublisherUnavailable("away"))
    worker._synchronizing.enable_two_phase()
    assert current(worker).two_phase_state == "p"
    tables(a=(RelationState.READY, None), b=(RelationState.SYNCDONE, 300))
    worker._synchronizing.enable_two_phase()
    assert current(worker).two_phase_state == "p"
    tables(b=(RelationState.READY, 300))
    worker._synchronizing.enable_two_phase()
    assert current(worker).two_phase_state == worker.snapshot().subscription.two_phase_state == "e"
    assert worker._receiving.process is None
    assert receiver.failure()


def test_changes_count_from_the_position_where_a_table_joined(tables):
    """C4, D5: looked up in the batch's own transaction"""
    worker = tables(
        ready=(RelationState.READY, 300), joined=(RelationState.SYNCDONE, 300), copied=(RelationState.FINISHEDCOPY, 10)
    )
    with worker._state.target.engine.connect() as connection:
        rules = worker._applying.rules(connection)
    wanted = {
        name: [lsn for lsn in (299, 300, 301) if rules.should_apply(shape(f"public.{name}", {"a": "int4"}), LSN(lsn))]
        for name in ("ready", "joined", "copied", "unknown")
    }
    assert wanted == {"ready": [299, 300, 301], "joined": [300, 301], "copied": [], "unknown": []}


def test_the_catalogs_skip_lsn_is_cleared_in_the_batchs_transaction(stored):
    """C41"""
    worker = stored(synchronous_commit="local")
    with worker._state.target.begin() as connection:
        catalog.set_skip_lsn(connection, 1, LSN(7))
        rules = worker._applying.rules(connection)
        assert (rules.skip_lsn, rules.synchronous_commit) == (7, "local")
        rules.clear_skip(connection)
    assert current(worker).skip_lsn == 0


def test_a_target_that_goes_away_before_the_consumers_are_known_is_waited_for(stored, tmp_path, monkeypatch):
    """The journal may be there and hold changes: nothing is applied from it by a worker that could
    not say how far it is.
    """
    worker = stored()
    worker._receiving._settings = Settings(str(tmp_path / "journals"))
    with writing(tmp_path / "journals" / "1_s") as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))

    def away(_connection):
        raise TargetUnavailable("the target is not available")

    monkeypatch.setattr(catalog, "target_identifier", away)
    for _ in range(1000):
        worker.tick()
        if worker.snapshot().failure is not None:
            break
        time.sleep(0.01)  # where the subscription begins is found out beside the supervisor's thread
    assert isinstance(worker.snapshot().failure, TargetUnavailable)
    now = worker.snapshot()
    assert (now.stopped, now.received, now.last_entry) == (False, 0, 0)


def test_a_worker_that_has_ended_still_tells_that_it_had_given_up(tables):
    """`run --once` used to ask when the table synchronization, which knew it, was forgotten."""
    worker = tables(a=(RelationState.DATASYNC, None))

    class Failing:
        attempts = Attempts()
        failed_tables: ClassVar = {("public", "a"): FailedAttempts(in_a_row=2)}
        copies = ()
        loads_since = None

        def cancel(self):
            pass

        def stop(self):
            pass

    worker._synchronizing.sync = Failing()
    assert worker.snapshot().given_up
    worker.stop()
    assert worker.snapshot().given_up


def test_what_a_worker_waits_for_is_told(stored, monkeypatch):
    answered = threading.Event()
    monkeypatch.setattr("subscriber.runtime.receiver_half.adopt_slot", lambda *_: answered.wait(10) and None)
    worker = stored()
    assert worker.snapshot().waiting_for == ()
    worker.tick()
    assert worker.snapshot().waiting_for == ("slot of s",)
    answered.set()
