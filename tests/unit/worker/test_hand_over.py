"""The hand-over of a copied table to the apply worker, from state f to state s (rules D3-D5)."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from subscriber.base.errors import (
    ConflictError,
    JournalCorrupt,
    JournalGap,
    ProgressConflict,
    Stopped,
    SubscriberError,
    TargetRelationError,
    TargetUnavailable,
)
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog.table_states import SubscriptionRelation
from subscriber.postgres.protocol import messages as m
from subscriber.spark.apply_loop import ApplyLoop
from subscriber.spark.pending_session import PendingSession
from subscriber.spark.spark_functions import SparkFunctions
from subscriber.worker.hand_over import HandOver
from subscriber.worker.sync_catalog import SyncCatalog
from tests.frames import relation, transaction, values
from tests.journals import BEGIN, publish, writing
from tests.subscriptions import stored_relations
from tests.table_syncs import FINISHED, INIT, CatchUp, failing
from tests.waits import wait_until


@pytest.fixture
def hand_over(scene) -> HandOver:
    """The hand-over without the rounds of the table synchronization."""
    return HandOver(
        SyncCatalog(scene.target, scene.subscription, threading.Lock()),
        scene.journal,
        pause=scene.pause,
        spark=scene.spark,
        settings=scene.settings,
        stop=threading.Event(),
    )


def all_of(scene) -> list[SubscriptionRelation]:
    return stored_relations(scene.target)


def never(relation: SubscriptionRelation, error: SubscriberError) -> None:
    raise AssertionError(relation.name) from error


def test_tables_that_are_not_behind_join_at_their_own_position(scene, hand_over):
    """D5: there is nothing to catch up."""
    scene.table("a", FINISHED, 100)
    scene.table("b", FINISHED, 100)
    hand_over.hand_over(all_of(scene), never)
    assert (scene.states(), scene.events) == ({"a": ("s", 100), "b": ("s", 100)}, [])


def test_tables_that_are_behind_catch_up_together_in_one_pass_over_the_journal(scene, hand_over):
    """D4"""
    scene.table("a", FINISHED, 100)
    scene.table("b", FINISHED, 100)
    scene.applied(400)
    scene.catch_up = lambda query: query.go_to(LSN(450))
    hand_over.hand_over(all_of(scene), never)
    assert scene.events == ["catch up a, b from 100"]
    assert scene.states() == {"a": ("s", 450), "b": ("s", 450)}


def test_a_copied_table_that_is_not_handed_over_stays_where_it_is(scene, hand_over):
    """It has failed, and its next attempt is not due."""
    scene.table("a", FINISHED, 100)
    scene.table("b", FINISHED, 100)
    scene.applied(400)
    scene.catch_up = lambda query: query.go_to(LSN(450))
    hand_over.hand_over(all_of(scene)[:1], never)
    assert scene.states() == {"a": ("s", 450), "b": ("f", 100)}


def test_the_query_of_a_catch_up_ends_with_the_catch_up(scene, hand_over):
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    queries: list[CatchUp] = []

    def play(query: CatchUp) -> None:
        queries.append(query)
        query.go_to(LSN(400))

    scene.catch_up = play
    hand_over.hand_over(all_of(scene), never)
    assert [query.running for query in queries] == [False]


def test_a_table_whose_change_fails_is_left_behind_and_the_others_go_on(scene, hand_over):
    """D3, C35: in the same pass over the journal"""
    scene.table("a", FINISHED, 100)
    scene.table("b", FINISHED, 100)
    scene.applied(400)

    def play(query: CatchUp) -> None:
        query.go_to(LSN(200))
        assert query.on_failure(ConflictError("conflict", relation="public.a"), 0.0) == 0.0
        query.go_to(LSN(400))

    scene.catch_up = play
    failed: list[tuple[str, str]] = []
    hand_over.hand_over(all_of(scene), lambda table, error: failed.append((table.name, error.message)))
    assert failed == [("a", "conflict")]
    assert scene.states() == {"a": ("f", 200), "b": ("s", 400)}
    assert scene.events == ["catch up a, b from 100"]


def test_if_an_error_does_not_name_its_table_each_table_catches_up_alone(scene, hand_over):
    """A constraint that is checked at the commit."""
    scene.table("a", FINISHED, 100)
    scene.table("b", FINISHED, 100)
    scene.applied(400)
    error = ConflictError("conflict at the commit")

    def play(query: CatchUp) -> None:
        if scene.events[-1].startswith("catch up b "):
            query.go_to(LSN(400))
        else:
            assert query.on_failure(error, 0.0) is None
            query.error, query.running = error, False

    scene.catch_up = play
    failed: list[tuple[str, str]] = []
    hand_over.hand_over(all_of(scene), lambda table, error: failed.append((table.name, error.message)))
    assert failed == [("a", "conflict at the commit")]
    assert scene.states() == {"a": ("f", 100), "b": ("s", 400)}
    assert scene.events == ["catch up a, b from 100", "catch up a from 100", "catch up b from 100"]


@pytest.mark.parametrize(
    "error", [TargetUnavailable("gone", relation="public.a"), JournalCorrupt("damaged", relation="public.a")]
)
def test_an_error_that_is_not_of_a_change_ends_the_catch_up_of_all_tables(scene, hand_over, error):
    scene.table("a", FINISHED, 100)
    scene.table("b", FINISHED, 100)
    scene.applied(400)

    def play(query: CatchUp) -> None:
        assert query.on_failure(error, 0.0) is None
        query.error, query.running = error, False

    scene.catch_up = play
    with pytest.raises(type(error)):
        hand_over.hand_over(all_of(scene), never)
    assert scene.states() == {"a": ("f", 100), "b": ("f", 100)}


def test_a_table_that_a_command_has_refreshed_ends_the_catch_up_of_the_others_which_is_tried_again(scene, hand_over):
    scene.table("a", FINISHED, 100)
    scene.table("b", FINISHED, 100)
    scene.applied(400)
    tables = all_of(scene)
    scene.table("b", INIT)
    with pytest.raises(ProgressConflict):
        hand_over.hand_over(tables, never)
    hand_over.hand_over([one for one in all_of(scene) if one.state is FINISHED], never)
    assert scene.states() == {"a": ("s", 10_000), "b": ("i", None)}


@pytest.mark.parametrize(("error", "raised"), [(ConflictError("conflict"), ConflictError), (None, Stopped)])
def test_a_catch_up_that_ends_early_raises_its_reason_and_leaves_the_table_in_f(scene, hand_over, error, raised):
    """C35: a query that ends without an error was stopped."""
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    scene.catch_up = failing(error)
    with pytest.raises(raised):
        hand_over.hand_over(all_of(scene), never)
    assert scene.states() == {"a": ("f", 100)}
    assert scene.pause._closings == 0


def test_a_catch_up_ends_when_the_table_synchronization_is_stopped(scene, hand_over):
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    scene.catch_up = lambda _query: hand_over._stop.set()
    with pytest.raises(Stopped):
        hand_over.hand_over(all_of(scene), never)
    assert scene.states() == {"a": ("f", 100)}


def test_tables_whose_changes_are_lost_go_back_to_state_i_at_their_position(scene, hand_over):
    scene.table("a", FINISHED, 100)
    scene.table("b", FINISHED, 100)
    scene.applied(400)
    scene.catch_up = failing(JournalGap("gone"))
    failed: list[SubscriberError] = []
    hand_over.hand_over(all_of(scene), lambda _table, error: failed.append(error))
    assert [(one.sqlstate, one.relation) for one in failed] == [("55000", "public.a"), ("55000", "public.b")]
    assert failed[0].message == 'table "public.a" cannot catch up: the journal no longer has its changes after 0/64'
    assert (
        "HINT:  DISABLE the subscription, TRUNCATE the table in `subscriber sql`, and ENABLE the subscription."
        in failed[0].report()
    )
    assert scene.states() == {"a": ("i", 100), "b": ("i", 100)}


def test_a_table_with_rows_is_not_copied_again(scene, hand_over):
    """Otherwise its rows would be there twice."""
    scene.table("a", INIT, 100)
    scene.insert("a", 7)
    (relation,) = stored_relations(scene.target)
    with pytest.raises(TargetRelationError) as raised:
        hand_over.copy_again(relation)
    assert raised.value.sqlstate == "55000"
    assert scene.states() == {"a": ("i", 100)}


def test_an_empty_table_may_be_copied_again(scene, hand_over):
    scene.table("a", INIT, 100)
    hand_over.copy_again(stored_relations(scene.target)[0])
    assert scene.states() == {"a": ("i", None)}


# Over a journal -----------------------------------------------------------------------------------


def test_changes_of_many_tables_are_applied_in_one_pass_without_the_table_that_fails(scene, hand_over):
    """progress_with_data, commit_order: with the real applier. Table a has a row that conflicts
    with the second transaction; the others of a are not applied, and none of b is lost.
    """
    shapes = [relation(f"public.{name}", {"id": "int4"}, key=["id"], oid=oid) for name, oid in (("a", 1), ("b", 2))]
    with writing(Path(scene.journal)) as journal:
        for number in (1, 2, 3):
            end = BEGIN * (number + 1)
            changes = [m.Insert(shape.relation_id, values(str(number))) for shape in shapes]
            publish(journal, end, transaction(end, *shapes, *changes, xid=700 + number))
    never_needed = PendingSession("local[1]", threading.Event().wait)  # type: ignore[arg-type]
    hand_over._spark = SparkFunctions(partial(ApplyLoop, never_needed), scene.spark.copy_table)
    for name in "ab":
        scene.table(name, FINISHED, BEGIN)
    scene.insert("a", 2)
    scene.applied(4 * BEGIN)
    failed: list[tuple[str, str]] = []
    hand_over.hand_over(all_of(scene), lambda table, error: failed.append((table.name, type(error).__name__)))
    assert failed == [("a", "ConflictError")]
    assert scene.states() == {"a": ("f", 2 * BEGIN), "b": ("s", 4 * BEGIN)}
    assert (scene.rows("a"), scene.rows("b")) == ([1, 2], [1, 2, 3])


# As a part of a round -----------------------------------------------------------------------------


def test_the_apply_worker_waits_only_for_the_end_of_a_catch_up(scene):
    """D4: it moves while the catch-up runs, and not between the last look and the new state"""
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    observed = []

    def play(query):
        def follow():
            query.go_to(LSN(300))
            wait_until(lambda: not scene.pause._closings)
            scene.applied(500)  # the stream goes on
            query.go_to(LSN(400))
            wait_until(lambda: bool(scene.pause._closings))
            observed.append(scene.states()["a"])
            query.go_to(LSN(500))

        threading.Thread(target=follow, daemon=True).start()

    scene.catch_up = play
    scene.round()
    assert observed == [("f", 400)]
    assert scene.states() == {"a": ("s", 500)}
    assert scene.pause._closings == 0


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
    scene.catch_up = failing(JournalGap("changes after 0/64 were asked for, but the journal begins at 0/200"))
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
