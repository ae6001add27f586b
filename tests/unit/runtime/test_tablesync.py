"""subscription.tablesync: the states of a table from i to s, whatever happens on the way (D1-D6,
D15).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber import catalog, failpoints
from subscriber.catalog import OriginProgress, RelationState, SubscriptionRelation
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.errors import (
    ConflictError,
    JournalGap,
    PublisherNotReady,
    PublisherUnavailable,
    SubscriberError,
    TargetRelationError,
)
from subscriber.journal.retention import read_consumer
from subscriber.journal.storage import open_storage
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.pipeline.copy import CopyProgress
from subscriber.pipeline.on_spark import Pipeline
from subscriber.pipeline.sink import end_query
from subscriber.positions.consumers import JournalConsumers, sync_consumer
from subscriber.publisher.snapshot import Snapshot
from subscriber.runtime import tablesync
from subscriber.runtime.gate import Gate
from subscriber.runtime.tablesync import TableSync
from subscriber.settings import Settings
from subscriber.targets import open_target

SOON = 10.0
INIT, DATASYNC, FINISHED, SYNCED = (
    RelationState.INIT,
    RelationState.DATASYNC,
    RelationState.FINISHEDCOPY,
    RelationState.SYNCDONE,
)


TARGET = "8c1f" * 8


class Scene:
    """A subscription to tables a and b in SQLite, with a publisher and Spark that are played."""

    def __init__(self, folder, monkeypatch) -> None:
        self.target = open_target(f"sqlite:///{folder / 'target.db'}")
        catalog.ensure_catalog(self.target.engine)
        with self.target.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE a (id INTEGER PRIMARY KEY)")
            connection.exec_driver_sql("CREATE TABLE b (id INTEGER PRIMARY KEY)")
            self.subscription = catalog.insert_subscription(
                connection, "s", "dbname=none", ["p"], SubscriptionOptions(), "7"
            )
            OriginProgress(1).create(connection, LSN(50))
        (folder / "journal").mkdir()
        self.journal = str(folder / "journal")
        self.snapshot_lsn = 100
        self.events: list[str] = []
        self.errors: list[tuple[str, str | None]] = []
        self.copy: Callable[[str], None] = lambda _table: None
        self.catch_up: Callable[[CatchUp], None] = lambda query: query.go_to(LSN(10_000))
        self.gate = Gate(contextlib.nullcontext())
        self.sync = self.new_sync()
        monkeypatch.setattr(tablesync, "connect_publisher", lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(tablesync, "table_files", lambda _connection, tables: dict.fromkeys(tables, ()))
        monkeypatch.setattr(tablesync, "exported_snapshot", self._snapshot)

    def new_sync(self) -> TableSync:
        return TableSync(
            self.subscription,
            self.target,
            JournalConsumers(self.journal, TARGET, 1, subscription="s", place="sqlite:///t.db"),
            gate=self.gate,
            turn=threading.Lock(),
            pipeline=Pipeline(self._start_query, self._copy_table),
            settings=Settings(self.journal, wal_retrieve_retry_interval=0.2),
            on_error=lambda error, relation: self.errors.append((error.message, relation.name if relation else None)),
        )

    # What is played -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _snapshot(self, *_):
        self.events.append("snapshot")
        yield Snapshot("00000003-1", LSN(self.snapshot_lsn))
        self.events.append("snapshot ends")

    def _copy_table(self, source, target, begin, _settings, *, on_progress, stop):
        assert target is self.target
        self.events.append(f"copy {source.table} from {source.snapshot}")
        with begin() as connection:
            connection.exec_driver_sql(f"INSERT INTO {source.table} VALUES (1)")
            on_progress(CopyProgress(1, 10, 2, 20))
            self.copied = connection
            self.copy(source.table)
            if stop.is_set():
                raise PublisherUnavailable("the copy was stopped")
        return CopyProgress(1, 10, 1, 10)

    def _start_query(self, name, stream, applier, _settings, *, on_applied, turn, on_failure=end_query):
        self.events.append(f"catch up {name} from {stream.applied}")
        query = CatchUp(self, applier, stream.applied)
        self.catch_up(query)
        return query

    # What is asked --------------------------------------------------------------------------------

    def table(self, name: str, state: RelationState = INIT, lsn: int | None = None) -> None:
        with self.target.begin() as connection:
            catalog.set_relation_state(connection, 1, "public", name, state, None if lsn is None else LSN(lsn))

    def relations(self) -> list[SubscriptionRelation]:
        with self.target.engine.connect() as connection:
            return catalog.relations_of(connection, 1)

    def states(self) -> dict[str, tuple[str, int | None]]:
        return {one.name: (one.state.value, one.lsn) for one in self.relations()}

    def rows(self, table: str) -> list[Any]:
        with self.target.engine.connect() as connection:
            return [row[0] for row in connection.exec_driver_sql(f"SELECT id FROM {table} ORDER BY id")]

    def applied(self, lsn: int) -> None:
        with self.target.begin() as connection:
            OriginProgress(1).advance(connection, OriginProgress(1).read(connection), LSN(lsn))

    def round(self) -> None:
        """One round, to its end."""
        self.sync.tick(self.relations())
        wait_until(lambda: not self.sync.running)

    def insert(self, table: str, key: int) -> None:
        with self.target.begin() as connection:
            connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({key})")

    def retry(self, table: str) -> None:
        """A round for a table that has failed, without waiting for its time."""
        key = ("public", table)
        self.sync._failed_tables[key] = replace(self.sync._failed_tables[key], not_before=0.0)
        self.round()

    def kept_from(self) -> LSN:
        return read_consumer(open_storage(self.journal), sync_consumer(TARGET, 1))


class CatchUp:
    """The query of a catch-up."""

    def __init__(self, scene: Scene, applier: Any, applied: LSN) -> None:
        self._scene = scene
        self._applier = applier
        self.applied = applied
        self.running = True
        self.error: SubscriberError | None = None

    def go_to(self, lsn: LSN) -> None:
        with self._scene.target.begin() as connection:
            self._applier._progress.advance(connection, self.applied, lsn)
        self.applied = lsn

    def failure(self) -> SubscriberError | None:
        return self.error

    def stop(self) -> None:
        self.running = False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def scene(tmp_path, monkeypatch):
    played = Scene(tmp_path, monkeypatch)
    yield played
    played.sync.stop()
    played.target.close()


# Copy ---------------------------------------------------------------------------------------------


def test_one_snapshot_serves_all_tables_and_each_is_handed_over_at_its_lsn(scene):
    """D1, D2, D5: the apply worker is behind the snapshot, so there is nothing to catch up"""
    scene.table("a")
    scene.table("b")
    scene.round()
    assert scene.events == [
        "snapshot",
        "copy a from 00000003-1",
        "copy b from 00000003-1",
        "snapshot ends",
    ]
    assert scene.states() == {"a": ("s", 100), "b": ("s", 100)}
    assert scene.rows("a") == [1]
    assert scene.errors == []


def test_what_is_ready_is_left_alone(scene):
    """D11"""
    scene.table("a", RelationState.READY)
    scene.sync.tick(scene.relations())
    assert not scene.sync.running
    assert scene.events == []


def test_rows_and_state_are_committed_together(scene, monkeypatch):
    """progress_with_data, any_crash"""
    seen = []
    monkeypatch.setattr(failpoints, "hit", lambda name: seen.append((name, scene.states()["a"], scene.rows("a"))))
    scene.table("a")
    scene.round()
    assert seen == [
        ("copy.begin.before", ("i", None), []),
        ("copy.begin.after", ("d", None), []),
        ("copy.commit.before", ("d", None), []),
        ("copy.commit.after", ("f", 100), [1]),
        ("handover.before", ("f", 100), [1]),
        ("handover.after", ("s", 100), [1]),
    ]


def test_a_table_that_fails_stays_in_d_with_its_rows_taken_back_and_the_others_go_on(scene):
    """D3, D15"""

    def fail_a(table):
        if table == "a":
            raise ConflictError("duplicate key value violates unique constraint")

    scene.copy = fail_a
    scene.table("a")
    scene.table("b")
    began = time.monotonic()
    scene.round()
    assert scene.states() == {"a": ("d", None), "b": ("s", 100)}
    assert scene.rows("a") == []
    assert scene.errors == [("duplicate key value violates unique constraint", "a")]
    assert list(scene.sync.failed_tables) == [("public", "a")]
    failed = scene.sync.failed_tables["public", "a"]
    assert (failed.in_a_row, type(failed.error)) == (1, ConflictError)
    assert began < failed.began < time.monotonic()


def test_a_table_that_failed_is_copied_again_with_a_new_snapshot_when_its_time_has_come(scene):
    """D3, D15"""
    scene.table("a")
    scene.copy = _raising(TargetRelationError("no such table"))
    scene.round()
    failure = scene.sync._failed_tables["public", "a"]
    assert failure.not_before - failure.began >= 0.2
    scene.sync._failed_tables["public", "a"] = replace(failure, not_before=time.monotonic() + 60)
    scene.sync.tick(scene.relations())
    assert not scene.sync.running
    scene.copy = lambda _table: None
    scene.snapshot_lsn = 300
    scene.retry("a")
    assert scene.states() == {"a": ("s", 300)}
    assert scene.rows("a") == [1]
    assert scene.sync.failed_tables == {}


def test_a_publisher_that_goes_away_ends_the_round_and_blames_no_table(scene):
    scene.table("a")
    scene.table("b")
    scene.copy = _raising(PublisherUnavailable("the connection was lost"))
    scene.round()
    assert scene.errors == [("the connection was lost", None)]
    assert scene.events[-1] == "copy a from 00000003-1"
    assert scene.states() == {"a": ("d", None), "b": ("i", None)}
    assert scene.sync.attempts.failed.in_all == 1


def test_what_nobody_has_foreseen_is_said_and_tried_again_later(scene):
    def fail(_table):
        raise ZeroDivisionError("a row's value")

    scene.copy = fail
    scene.table("a")
    scene.round()
    assert scene.errors == [("the table synchronization failed", None)]
    scene.sync.tick(scene.relations())
    assert not scene.sync.running


def test_a_table_that_cannot_be_read_is_a_failure_of_its_own(scene):
    """D10"""
    scene.table("a")
    scene.copy = _raising(PublisherNotReady('table "public.a" not found on publisher'))
    scene.round()
    assert scene.errors == [('table "public.a" not found on publisher', "a")]


def test_a_table_that_a_command_removes_meanwhile_is_neither_kept_nor_an_error(scene):
    """D11"""

    def remove(_table):
        # A second connection would wait for the copy's lock; the command is first in the same
        # transaction.
        scene.removed = True

    scene.table("a")
    advance = catalog.advance_relation

    def advance_after_removal(connection, subid, relation, state, lsn=None):
        if state is FINISHED:
            catalog.delete_relations(connection, subid, [(relation.schema, relation.name)])
        return advance(connection, subid, relation, state, lsn)

    scene.copy = remove
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "advance_relation", advance_after_removal)
        scene.round()
    assert scene.errors == []
    assert scene.rows("a") == []


def test_a_map_that_changes_during_a_copy_has_the_table_copied_again(scene):
    """Its rows would be in the table of the old name, and its changes in that of the new one."""
    scene.table("a")

    def change(_table):
        # In the copy's own transaction: SQLite has one writer.
        scene.copied.execute(sa.update(catalog.SUBSCRIPTION).values(submap="public.a => public.b"))

    scene.copy = change
    scene.round()
    assert (scene.states(), scene.rows("a"), scene.errors) == ({"a": ("d", None)}, [], [])


def test_stopping_ends_a_copy_without_an_error(scene):
    copying = threading.Event()

    def wait(_table):
        copying.set()
        scene.sync._stop.wait(SOON)

    scene.copy = wait
    scene.table("a")
    scene.sync.tick(scene.relations())
    assert copying.wait(SOON)
    scene.sync.stop()
    assert not scene.sync.running
    assert scene.errors == []
    assert scene.rows("a") == []


def test_while_a_table_is_copied_its_figures_can_be_seen_and_then_no_more(scene):
    seen = []
    scene.copy = lambda _table: seen.extend(scene.sync.copies)
    scene.table("a")
    scene.round()
    (status,) = seen
    assert (status.schema, status.name, status.rows, status.bytes) == ("public", "a", 1, 10)
    assert (status.estimated_rows, status.estimated_bytes) == (2, 20)
    assert scene.sync.copies == []


# Journal ------------------------------------------------------------------------------------------


def test_the_journal_is_kept_from_the_snapshot_on_until_all_have_joined(scene):
    kept = []
    scene.copy = lambda _table: kept.append(scene.kept_from())
    scene.table("a")
    scene.round()
    assert kept == [100]
    assert scene.kept_from() == INVALID_LSN


def test_the_journal_is_kept_for_a_table_that_cannot_catch_up(scene):
    scene.table("a", FINISHED, 70)
    scene.applied(200)
    scene.catch_up = _failing(ConflictError("conflict"))
    scene.round()
    assert scene.errors == [("conflict", "a")]
    assert scene.states() == {"a": ("f", 70)}
    assert scene.kept_from() == 70


def test_a_journal_that_is_kept_for_a_table_is_let_go_when_no_table_is_left(scene):
    """D3, D11: a REFRESH has removed the table that could not catch up, or a round was killed
    before it could let go
    """
    scene.table("a", FINISHED, 70)
    scene.applied(200)
    scene.catch_up = _failing(ConflictError("conflict"))
    scene.round()
    assert scene.kept_from() == 70
    with scene.target.begin() as connection:
        catalog.delete_relations(connection, 1, [("public", "a")])
    scene.round()
    assert scene.kept_from() == INVALID_LSN


# Hand-over ----------------------------------------------------------------------------------------


def test_a_table_catches_up_when_the_stream_went_on_during_its_copy(scene):
    """D4"""
    scene.copy = lambda _table: None
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    scene.round()
    assert scene.events == ["catch up table sync 1: public.a from 100"]
    assert scene.states() == {"a": ("s", 10_000)}


def test_the_apply_worker_stands_still_for_the_last_stretch_only(scene):
    """D4: it moves while the catch-up runs, and not between the last look and the new state"""
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    observed = []

    def play(query):
        def follow():
            query.go_to(LSN(300))
            wait_until(lambda: not scene.gate._closings)
            scene.applied(500)  # the stream goes on
            query.go_to(LSN(400))
            wait_until(lambda: bool(scene.gate._closings))
            observed.append(scene.states()["a"])
            query.go_to(LSN(500))

        threading.Thread(target=follow, daemon=True).start()

    scene.catch_up = play
    scene.round()
    assert observed == [("f", 400)]
    assert scene.states() == {"a": ("s", 500)}
    assert scene.gate._closings == 0


def test_a_table_that_was_copied_before_a_crash_is_not_copied_again(scene):
    """D3"""
    scene.table("a", FINISHED, 100)
    scene.round()
    assert scene.events == []
    assert scene.states() == {"a": ("s", 100)}


def test_a_table_whose_changes_the_journal_has_lost_is_copied_again_when_it_is_empty(scene):
    """A power failure may let the journal be trimmed past it. Its first copy's rows are there: no
    silent duplicate, and no gap.
    """
    scene.table("a", FINISHED, 100)
    scene.insert("a", 1)
    scene.insert("a", 7)
    scene.applied(400)
    scene.catch_up = _failing(JournalGap("changes after 0/64 were asked for, but the journal begins at 0/200"))
    scene.round()
    message = 'table "public.a" cannot catch up: the journal no longer has its changes after 0/64'
    assert scene.errors == [(message, "a")]
    assert scene.states() == {"a": ("i", 100)}
    assert scene.kept_from() == INVALID_LSN
    scene.events.clear()
    scene.retry("a")
    assert scene.errors == [(message, "a")] * 2
    assert (scene.events, scene.rows("a"), scene.states()) == ([], [1, 7], {"a": ("i", 100)})
    with scene.target.begin() as connection:
        connection.exec_driver_sql("DELETE FROM a")
    scene.snapshot_lsn = 500
    scene.retry("a")
    assert scene.states() == {"a": ("s", 500)}
    assert scene.rows("a") == [1]
    assert len(scene.errors) == 2


def test_what_to_do_with_a_table_that_cannot_catch_up_is_said(scene):
    scene.table("a", FINISHED, 100)
    scene.insert("a", 1)
    scene.applied(400)
    scene.catch_up = _failing(JournalGap("gone"))
    reports = []
    scene.sync._on_error = lambda error, _relation: reports.append(error.report())
    scene.round()
    assert "HINT:  Run TRUNCATE on it at the subscriber; it is then copied again." in reports[0]


def test_a_table_left_in_d_by_a_crash_is_copied_anew(scene):
    """D3"""
    scene.table("a", DATASYNC)
    scene.round()
    assert scene.states() == {"a": ("s", 100)}


def test_the_apply_worker_waits_for_the_first_tables_and_not_for_later_ones(scene):
    """What is copied by then needs no catch-up"""
    closed = []
    scene.copy = lambda _table: closed.append(scene.gate._closings)
    scene.table("a")
    scene.round()
    scene.table("b")
    scene.round()
    assert closed == [1, 0]
    assert scene.gate._closings == 0


def test_the_apply_worker_does_not_wait_for_long_copies(scene, monkeypatch):
    monkeypatch.setattr(tablesync, "_HOLD_SECONDS", 0.0)
    closed = []
    scene.copy = lambda _table: closed.append(scene.gate._closings)
    scene.table("a")
    scene.round()
    assert closed == [0]


def _raising(error: SubscriberError) -> Callable[[str], None]:
    def fail(_table: str) -> None:
        raise error

    return fail


def _failing(error: SubscriberError) -> Callable[[CatchUp], None]:
    def fail(query: CatchUp) -> None:
        query.error, query.running = error, False

    return fail
