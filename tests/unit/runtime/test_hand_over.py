"""The hand-over of a copied table to the apply worker, from state f to state s (rules D3-D5)."""

from __future__ import annotations

import threading

import pytest

from subscriber.errors import ConflictError, JournalGap, Stopped, TargetRelationError
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.runtime.hand_over import HandOver
from subscriber.runtime.sync_catalog import SyncCatalog
from tests.subscriptions import stored_relations
from tests.table_syncs import FINISHED, INIT, CatchUp, failing
from tests.waits import wait_until


@pytest.fixture
def hand_over(scene) -> HandOver:
    """The hand-over without the rounds of the table synchronization."""
    return HandOver(
        SyncCatalog(scene.target, scene.subscription, threading.Lock()),
        scene.journal,
        gate=scene.gate,
        pipeline=scene.pipeline,
        settings=scene.settings,
        stop=threading.Event(),
    )


def test_a_table_that_is_not_behind_joins_at_its_own_position(scene, hand_over):
    """D5: there is nothing to catch up."""
    scene.table("a", FINISHED, 100)
    hand_over.hand_over(stored_relations(scene.target)[0])
    assert (scene.states(), scene.events) == ({"a": ("s", 100)}, [])


def test_a_table_that_is_behind_catches_up_from_its_own_position_first(scene, hand_over):
    """D4"""
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    scene.catch_up = lambda query: query.go_to(LSN(450))
    hand_over.hand_over(stored_relations(scene.target)[0])
    assert scene.events == ["catch up table sync 1: public.a from 100"]
    assert scene.states() == {"a": ("s", 450)}


def test_the_query_of_a_catch_up_ends_with_the_catch_up(scene, hand_over):
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    queries: list[CatchUp] = []

    def play(query: CatchUp) -> None:
        queries.append(query)
        query.go_to(LSN(400))

    scene.catch_up = play
    hand_over.hand_over(stored_relations(scene.target)[0])
    assert [query.running for query in queries] == [False]


@pytest.mark.parametrize(("error", "raised"), [(ConflictError("conflict"), ConflictError), (None, Stopped)])
def test_a_catch_up_that_ends_early_raises_its_reason_and_leaves_the_table_in_f(scene, hand_over, error, raised):
    """C35: a query that ends without an error was stopped."""
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    scene.catch_up = failing(error)
    with pytest.raises(raised):
        hand_over.hand_over(stored_relations(scene.target)[0])
    assert scene.states() == {"a": ("f", 100)}
    assert scene.gate._closings == 0


def test_a_catch_up_ends_when_the_table_synchronization_is_stopped(scene, hand_over):
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    scene.catch_up = lambda _query: hand_over._stop.set()
    with pytest.raises(Stopped):
        hand_over.hand_over(stored_relations(scene.target)[0])
    assert scene.states() == {"a": ("f", 100)}


def test_a_table_whose_changes_are_lost_goes_back_to_state_i_at_its_position(scene, hand_over):
    scene.table("a", FINISHED, 100)
    scene.applied(400)
    scene.catch_up = failing(JournalGap("gone"))
    with pytest.raises(TargetRelationError) as raised:
        hand_over.hand_over(stored_relations(scene.target)[0])
    assert (raised.value.sqlstate, raised.value.relation) == ("55000", "public.a")
    assert raised.value.message == 'table "public.a" cannot catch up: the journal no longer has its changes after 0/64'
    assert (
        "HINT:  DISABLE the subscription, TRUNCATE the table in `subscriber sql`, and ENABLE the subscription."
        in raised.value.report()
    )
    assert scene.states() == {"a": ("i", 100)}


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


# As a part of a round -----------------------------------------------------------------------------


def test_the_apply_worker_waits_only_for_the_end_of_a_catch_up(scene):
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
