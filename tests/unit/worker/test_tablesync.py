"""subscription.tablesync: the states of a table from i to s, whatever happens on the way (D1-D6,
D15).
"""

from __future__ import annotations

import threading
import time

import pytest
import sqlalchemy as sa

from subscriber.base import failpoints
from subscriber.base.errors import (
    ConflictError,
    JournalCorrupt,
    PublisherNotReady,
    PublisherUnavailable,
    TargetRelationError,
)
from subscriber.base.lsn import INVALID_LSN
from subscriber.catalog.own_tables import SUBSCRIPTION
from subscriber.catalog.table_states import RelationState, advance_relation, delete_relations, replace_relations
from subscriber.worker import tablesync
from tests.table_syncs import DATASYNC, FINISHED, SOON, failing, raising
from tests.waits import wait_until

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


def test_the_targets_tables_are_read_together_before_their_copies(scene, monkeypatch):
    """Not with a search of the target's catalog for each of them."""
    for name in "abcde":
        scene.table(name)
    reads: list[int] = []
    reflect_all = scene.target.shapes.reflect_all

    def reading(connection, tables):
        reads.append(len(tables))
        return reflect_all(connection, tables)

    monkeypatch.setattr("subscriber.worker.tablesync._READ_TOGETHER", 3)
    monkeypatch.setattr(scene.target.shapes, "reflect_all", reading)
    scene.round()
    assert reads == [3, 2]


def test_tables_that_are_behind_catch_up_in_one_pass_after_the_last_copy_of_the_round(scene, monkeypatch):
    """D4: a table costs its own rows, and not the journal."""
    monkeypatch.setattr(tablesync, "_HOLD_SECONDS", 0.0)
    scene.table("c", RelationState.READY)
    scene.table("a")
    scene.table("b")
    scene.copy = scene.stream_goes_on
    scene.round()
    assert scene.events == [
        "snapshot",
        "copy a from 00000003-1",
        "copy b from 00000003-1",
        "snapshot ends",
        "catch up a, b from 100",
    ]
    assert {name: state for name, (state, _) in scene.states().items()} == {"a": "s", "b": "s", "c": "r"}


def test_a_round_takes_no_further_table_after_its_time_and_the_next_one_has_a_new_snapshot(scene, monkeypatch):
    """Each catch-up reads only what was written during its round."""
    monkeypatch.setattr(tablesync, "_ROUND_SECONDS", 0.0)
    scene.table("a")
    scene.table("b")
    scene.round()
    assert scene.states() == {"a": ("s", 100), "b": ("i", None)}
    scene.snapshot_lsn = 200
    scene.round()
    assert scene.states() == {"a": ("s", 100), "b": ("s", 200)}
    assert scene.events.count("snapshot") == 2


def test_copied_tables_do_not_wait_for_the_copy_of_a_large_one(scene):
    def look(table: str) -> None:
        if table == "b":
            seen.append(scene.committed_states())

    seen: list[dict[str, str]] = []
    scene.table("a")
    scene.table("b")
    scene.estimated_bytes = tablesync._LARGE_BYTES
    scene.copy = look
    scene.round()
    assert seen == [{"a": "s", "b": "d"}]
    assert scene.states() == {"a": ("s", 100), "b": ("s", 100)}


def test_tables_that_were_left_at_one_position_are_handed_over_together(scene):
    """A run was killed during their catch-up."""
    scene.table("a", FINISHED, 70)
    scene.table("b", FINISHED, 70)
    scene.applied(200)
    scene.round()
    assert scene.events == ["catch up a, b from 70"]
    assert scene.states() == {"a": ("s", 10_000), "b": ("s", 10_000)}


def test_an_error_that_names_no_table_is_recorded_with_each_of_them_and_further_tables_are_copied(scene):
    scene.table("a", FINISHED, 70)
    scene.applied(200)
    scene.catch_up = failing(JournalCorrupt("damaged"))
    scene.table("b")
    scene.snapshot_lsn = 300
    scene.round()
    assert scene.errors == [("damaged", "a")]
    assert scene.states() == {"a": ("f", 70), "b": ("s", 300)}


def test_a_ready_table_is_not_copied(scene):
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


def test_the_rows_of_a_failing_table_are_rolled_back_it_stays_in_d_and_the_others_go_on(scene):
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
    scene.copy = raising(TargetRelationError("no such table"))
    scene.round()
    attempts = scene.sync._failed_tables["public", "a"]
    assert attempts.failed.not_before - attempts.failed.began >= 0.2
    attempts.wait(60)
    scene.sync.tick(scene.relations())
    assert not scene.sync.running
    scene.copy = lambda _table: None
    scene.snapshot_lsn = 300
    scene.retry("a")
    assert scene.states() == {"a": ("s", 300)}
    assert scene.rows("a") == [1]
    assert scene.sync.failed_tables == {}


def test_a_publisher_that_goes_away_ends_the_round_without_an_error_of_a_table(scene):
    scene.table("a")
    scene.table("b")
    scene.copy = raising(PublisherUnavailable("the connection was lost"))
    scene.round()
    assert scene.errors == [("the connection was lost", None)]
    assert scene.events[-1] == "copy a from 00000003-1"
    assert scene.states() == {"a": ("d", None), "b": ("i", None)}
    assert scene.sync.attempts.failed.in_all == 1


def test_an_unexpected_error_is_logged_and_the_round_is_tried_again_later(scene):
    def fail(_table):
        raise ZeroDivisionError("a row's value")

    scene.copy = fail
    scene.table("a")
    scene.round()
    assert scene.errors == [("the table synchronization failed", None)]
    scene.sync.tick(scene.relations())
    assert not scene.sync.running


def test_the_end_of_spark_is_no_fault_of_the_table_synchronization(scene):
    """The chaos test found it: Spark's Java process was killed during a copy, and the log had a
    fault of the program.
    """

    def fail(_table):
        raise ConnectionRefusedError

    scene.copy = fail
    scene.sync._has_spark_ended = lambda: True
    scene.table("a")
    scene.round()
    assert scene.errors == []
    scene.sync.tick(scene.relations())
    assert not scene.sync.running


def test_a_table_that_cannot_be_read_fails_alone(scene):
    """D10"""
    scene.table("a")
    scene.copy = raising(PublisherNotReady('table "public.a" not found on publisher'))
    scene.round()
    assert scene.errors == [('table "public.a" not found on publisher', "a")]


def test_a_table_that_a_command_removes_meanwhile_is_neither_kept_nor_an_error(scene):
    """D11"""

    def remove(_table):
        # A second connection would wait for the copy's lock; the command is first in the same
        # transaction.
        scene.removed = True

    scene.table("a")
    advance = advance_relation

    def advance_after_removal(connection, subid, relation, state, lsn=None):
        if state is FINISHED:
            delete_relations(connection, subid, [(relation.schema, relation.name)])
        return advance(connection, subid, relation, state, lsn)

    scene.copy = remove
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("subscriber.worker.table_copy.advance_relation", advance_after_removal)
        scene.round()
    assert scene.errors == []
    assert scene.rows("a") == []


def test_a_map_that_changes_during_a_copy_has_the_table_copied_again(scene):
    """Its rows would be in the table of the old name, and its changes in that of the new one."""
    scene.table("a")

    def change(_table):
        # In the copy's own transaction: SQLite has one writer.
        scene.copied.execute(sa.update(SUBSCRIPTION).values(submap="public.a => public.b"))

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
    scene.catch_up = failing(ConflictError("conflict"))
    scene.round()
    assert scene.errors == [("conflict", "a")]
    assert scene.states() == {"a": ("f", 70)}
    assert scene.kept_from() == 70


def test_a_journal_that_is_kept_for_a_table_is_released_when_no_table_is_left(scene):
    """D3, D11: a REFRESH has removed the table that could not catch up, or a round was killed
    before it could let go
    """
    scene.table("a", FINISHED, 70)
    scene.applied(200)
    scene.catch_up = failing(ConflictError("conflict"))
    scene.round()
    assert scene.kept_from() == 70
    with scene.target.begin() as connection:
        delete_relations(connection, 1, [("public", "a")])
    scene.round()
    assert scene.kept_from() == INVALID_LSN


# The apply worker ---------------------------------------------------------------------------------


def test_a_table_left_in_d_by_a_crash_is_copied_again(scene):
    """D3"""
    scene.table("a", DATASYNC)
    scene.round()
    assert scene.states() == {"a": ("s", 100)}


def test_the_apply_worker_waits_for_the_first_tables_and_not_for_later_ones(scene):
    """What is copied by then needs no catch-up"""
    closed = []
    scene.copy = lambda _table: closed.append(scene.pause._closings)
    scene.table("a")
    scene.round()
    scene.table("b")
    scene.round()
    assert closed == [1, 0]
    assert scene.pause._closings == 0


def test_the_apply_worker_does_not_wait_for_long_copies(scene, monkeypatch):
    monkeypatch.setattr(tablesync, "_HOLD_SECONDS", 0.0)
    closed = []
    scene.copy = lambda _table: closed.append(scene.pause._closings)
    scene.table("a")
    scene.round()
    assert closed == [0]


# REFRESH TABLE ------------------------------------------------------------------------------------


def test_a_table_whose_changes_were_lost_is_copied_again_if_its_rows_are_to_be_replaced(scene):
    scene.table("a", RelationState.INIT, 70)
    scene.insert("a", 7)
    with scene.target.begin() as connection:
        replace_relations(connection, 1, [("public", "a")])
    scene.round()
    assert scene.states() == {"a": ("s", 100)}
    assert scene.rows("a") == [1]


def test_rows_are_replaced_after_the_batch_that_may_still_write_to_the_table(scene):
    """A batch that began before the command holds the table for a ready one."""
    scene.table("a", RelationState.READY)
    scene.table("b", RelationState.READY)
    with scene.target.begin() as connection:
        replace_relations(connection, 1, [("public", "a")])
    with scene.pause:
        scene.sync.tick(scene.relations())
        time.sleep(0.2)
        assert scene.events == []
        scene.insert("a", 7)
    wait_until(lambda: not scene.sync.running)
    assert scene.rows("a") == [1]
    assert scene.states() == {"a": ("s", 100), "b": ("r", None)}
