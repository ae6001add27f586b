"""The states of tables: each step names the state that it leaves."""

from __future__ import annotations

import pytest

from subscriber import catalog
from subscriber.catalog import CatchUpProgress, RelationState, SubscriptionRelation
from subscriber.errors import ProgressConflict
from subscriber.lsn import INVALID_LSN, LSN


def add(connection, name="t", state=RelationState.INIT, lsn=None) -> SubscriptionRelation:
    catalog.set_relation_state(connection, 1, "public", name, state, lsn)
    return next(one for one in catalog.relations_of(connection, 1) if one.name == name)


def test_the_states_are_those_of_the_catalog():
    """D1: w and c exist in a worker's memory only."""
    assert [state.value for state in RelationState] == ["i", "d", "f", "s", "r"]


def test_table_states_are_kept_with_their_lsn(connection):
    """D1"""
    catalog.set_relation_state(connection, 1, "public", "b", RelationState.INIT)
    catalog.set_relation_state(connection, 1, "public", "a", RelationState.READY)
    catalog.set_relation_state(connection, 1, "public", "b", RelationState.SYNCDONE, LSN(0x16B3778))
    catalog.set_relation_state(connection, 2, "public", "b", RelationState.DATASYNC)
    assert catalog.relations_of(connection, 1) == [
        SubscriptionRelation("public", "a", RelationState.READY, None),
        SubscriptionRelation("public", "b", RelationState.SYNCDONE, LSN(0x16B3778)),
    ]


def test_each_step_leaves_the_state_that_was_read_and_deletes_the_error(connection):
    """D1"""
    relation = add(connection)
    catalog.record_relation_error(connection, 1, "public", "t", "ERROR:  no")
    steps = [
        (RelationState.DATASYNC, None),
        (RelationState.FINISHEDCOPY, LSN(10)),
        (RelationState.SYNCDONE, LSN(20)),
        (RelationState.READY, LSN(20)),
    ]
    for state, lsn in steps:
        relation = catalog.advance_relation(connection, 1, relation, state, lsn)
        assert catalog.relations_of(connection, 1) == [relation]
        assert (relation.state, relation.lsn, relation.error) == (state, lsn, None)


@pytest.mark.parametrize("gone", [True, False])
def test_a_table_that_a_command_removed_or_reset_meanwhile_is_left_alone(connection, gone):
    """D11"""
    relation = add(connection, state=RelationState.DATASYNC)
    catalog.delete_relations(connection, 1, [("public", "t")])
    after = [] if gone else [add(connection)]
    with pytest.raises(ProgressConflict, match=r'table "public\.t" is not in state d any more'):
        catalog.advance_relation(connection, 1, relation, RelationState.FINISHEDCOPY, LSN(10))
    assert catalog.relations_of(connection, 1) == after


def test_an_error_is_kept_with_its_table_and_its_time(connection):
    add(connection, "t")
    add(connection, "u")
    catalog.record_relation_error(connection, 1, "public", "t", "ERROR:  no")
    first, second = catalog.relations_of(connection, 1)
    assert first.error == "ERROR:  no"
    assert first.error_at is not None
    assert second.error is None


@pytest.mark.parametrize(
    ("state", "begin"),
    [
        (RelationState.INIT, None),
        (RelationState.DATASYNC, None),
        (RelationState.FINISHEDCOPY, None),
        (RelationState.SYNCDONE, LSN(7)),
        (RelationState.READY, INVALID_LSN),
    ],
)
def test_changes_are_applied_from_the_lsn_of_a_table_that_was_handed_over(state, begin):
    """D5"""
    assert SubscriptionRelation("public", "t", state, LSN(7)).applies_from == begin


def test_a_catch_up_moves_its_own_table_only_and_by_compare_and_set(connection):
    """progress_with_data"""
    t = add(connection, "t", RelationState.FINISHEDCOPY, LSN(10))
    u = add(connection, "u", RelationState.FINISHEDCOPY, LSN(10))
    progress = CatchUpProgress(1, t)
    assert progress.read(connection) == 10
    progress.lock(connection, LSN(10))
    progress.advance(connection, LSN(10), LSN(30))
    assert progress.read(connection) == 30
    assert CatchUpProgress(1, u).read(connection) == 10
    with pytest.raises(ProgressConflict, match="not catching up any more"):
        progress.advance(connection, LSN(10), LSN(40))


def test_a_catch_up_ends_with_the_state_f(connection):
    relation = add(connection, state=RelationState.FINISHEDCOPY, lsn=LSN(10))
    catalog.advance_relation(connection, 1, relation, RelationState.SYNCDONE, LSN(10))
    progress = CatchUpProgress(1, relation)
    for step in (progress.read, lambda inside: progress.lock(inside, LSN(10))):
        with pytest.raises(ProgressConflict, match=r'origin "pg_1_public\.t" is not catching up'):
            step(connection)


def test_tables_that_were_handed_over_become_ready_together(connection):
    handed_over = [add(connection, name, RelationState.SYNCDONE, LSN(20)) for name in "tu"]
    catalog.make_ready(connection, 1, handed_over)
    assert [(one.state, one.lsn) for one in catalog.relations_of(connection, 1)] == [(RelationState.READY, LSN(20))] * 2
    with pytest.raises(ProgressConflict, match=r'table "public\.t" is not in state s any more'):
        catalog.make_ready(connection, 1, handed_over)


def test_only_a_table_that_is_ready_can_be_kept_ready(connection):
    add(connection, "t", RelationState.READY, LSN(20))
    catalog.lock_ready(connection, 1, "public", "t")
    assert [(one.state, one.lsn) for one in catalog.relations_of(connection, 1)] == [(RelationState.READY, LSN(20))]
    catalog.replace_relations(connection, 1, [("public", "t")])
    with pytest.raises(ProgressConflict, match=r'table "public\.t" is not ready any more'):
        catalog.lock_ready(connection, 1, "public", "t")


def test_the_states_for_caching_have_no_value_that_changes_more_often(connection):
    add(connection, "copied", RelationState.FINISHEDCOPY, LSN(10))
    add(connection, "handed_over", RelationState.SYNCDONE, LSN(20))
    add(connection, "ready", RelationState.READY, LSN(20))
    catalog.record_relation_error(connection, 1, "public", "copied", "ERROR:  no")
    states = catalog.read_states(connection, 1)
    assert list(states) == [
        SubscriptionRelation("public", "copied", RelationState.FINISHEDCOPY, None),
        SubscriptionRelation("public", "handed_over", RelationState.SYNCDONE, LSN(20)),
        SubscriptionRelation("public", "ready", RelationState.READY, LSN(20)),
    ]
    assert [one.name for one in states.unfinished] == ["copied", "handed_over"]
    assert states.begins == {
        ("public", "copied"): None,
        ("public", "handed_over"): 20,
        ("public", "ready"): INVALID_LSN,
    }


def test_a_copy_that_replaces_rows_is_marked_until_it_has_ended(connection):
    add(connection, state=RelationState.READY)
    catalog.replace_relations(connection, 1, [("public", "t"), ("public", "unknown")])
    (relation,) = catalog.relations_of(connection, 1)
    assert (relation.state, relation.replaces) == (RelationState.INIT, True)
    for state, replaces in (("d", True), ("f", False), ("s", False), ("r", False)):
        relation = catalog.advance_relation(connection, 1, relation, RelationState(state), LSN(10))
        assert relation.replaces == replaces
        assert catalog.relations_of(connection, 1) == [relation]


def test_a_copy_that_began_before_rows_were_to_be_replaced_cannot_go_on(connection):
    """The state is the same, but the copy would leave the old rows."""
    relation = add(connection)
    catalog.replace_relations(connection, 1, [("public", "t")])
    with pytest.raises(ProgressConflict):
        catalog.advance_relation(connection, 1, relation, RelationState.DATASYNC)


def test_a_table_that_is_added_anew_does_not_replace_rows(connection):
    add(connection)
    catalog.replace_relations(connection, 1, [("public", "t")])
    assert not add(connection).replaces
