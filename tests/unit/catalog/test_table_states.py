"""The states of tables: each step names the state that it leaves."""

from __future__ import annotations

import pytest

from subscriber.base.errors import ProgressConflict
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog import table_states
from subscriber.catalog.table_states import (
    CatchUpProgress,
    RelationState,
    SubscriptionRelation,
    advance_relation,
    advance_sequences,
    delete_relations,
    lock_ready,
    make_ready,
    read_states,
    record_relation_error,
    relations_of,
    replace_relations,
    sequences_of,
    set_relation_states,
)


def add(connection, name="t", state=RelationState.INIT, lsn=None) -> SubscriptionRelation:
    set_relation_states(connection, 1, [("public", name)], state, lsn)
    return next(one for one in relations_of(connection, 1) if one.name == name)


def test_the_states_are_those_of_the_catalog():
    """D1: w and c exist in a worker's memory only."""
    assert [state.value for state in RelationState] == ["i", "d", "f", "s", "r"]


def test_table_states_are_kept_with_their_lsn(connection):
    """D1"""
    set_relation_states(connection, 1, [("public", "b")], RelationState.INIT)
    set_relation_states(connection, 1, [("public", "a")], RelationState.READY)
    set_relation_states(connection, 1, [("public", "b")], RelationState.SYNCDONE, LSN(0x16B3778))
    set_relation_states(connection, 2, [("public", "b")], RelationState.DATASYNC)
    assert relations_of(connection, 1) == [
        SubscriptionRelation("public", "a", RelationState.READY, None),
        SubscriptionRelation("public", "b", RelationState.SYNCDONE, LSN(0x16B3778)),
    ]


def test_each_step_leaves_the_state_that_was_read_and_deletes_the_error(connection):
    """D1"""
    relation = add(connection)
    record_relation_error(connection, 1, "public", "t", "ERROR:  no")
    steps = [
        (RelationState.DATASYNC, None),
        (RelationState.FINISHEDCOPY, LSN(10)),
        (RelationState.SYNCDONE, LSN(20)),
        (RelationState.READY, LSN(20)),
    ]
    for state, lsn in steps:
        relation = advance_relation(connection, 1, relation, state, lsn)
        assert relations_of(connection, 1) == [relation]
        assert (relation.state, relation.lsn, relation.error) == (state, lsn, None)


@pytest.mark.parametrize("gone", [True, False])
def test_a_table_that_a_command_removed_or_reset_meanwhile_is_left_alone(connection, gone):
    """D11"""
    relation = add(connection, state=RelationState.DATASYNC)
    delete_relations(connection, 1, [("public", "t")])
    after = [] if gone else [add(connection)]
    with pytest.raises(ProgressConflict, match=r'table "public\.t" is not in state d any more'):
        advance_relation(connection, 1, relation, RelationState.FINISHEDCOPY, LSN(10))
    assert relations_of(connection, 1) == after


def test_an_error_is_kept_with_its_table_and_its_time(connection):
    add(connection, "t")
    add(connection, "u")
    record_relation_error(connection, 1, "public", "t", "ERROR:  no")
    first, second = relations_of(connection, 1)
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


def test_a_catch_up_moves_its_own_tables_only_and_by_compare_and_set(connection):
    """progress_with_data"""
    t, u, _ = (add(connection, name, RelationState.FINISHEDCOPY, LSN(10)) for name in ("t", "u", "v"))
    add(connection, "w", RelationState.SYNCDONE, LSN(10))
    progress = CatchUpProgress(1, [t, u])
    assert progress.read(connection) == 10
    progress.lock(connection, LSN(10))
    progress.advance(connection, LSN(10), LSN(30))
    assert progress.read(connection) == 30
    assert positions(connection) == {"t": ("f", 30), "u": ("f", 30), "v": ("f", 10), "w": ("s", 10)}
    with pytest.raises(ProgressConflict, match="not catching up any more"):
        progress.advance(connection, LSN(10), LSN(40))


def test_many_tables_of_several_schemas_move_together(connection, monkeypatch):
    monkeypatch.setattr(table_states, "_PIECE", 2)
    tables = [add(connection, name, RelationState.FINISHEDCOPY, LSN(10)) for name in "tuvwx"]
    set_relation_states(connection, 1, [("other", "t")], RelationState.FINISHEDCOPY, LSN(10))
    (other,) = (one for one in relations_of(connection, 1) if one.schema == "other")
    progress = CatchUpProgress(1, [*tables, other])
    progress.advance(connection, LSN(10), LSN(30))
    assert progress.read(connection) == 30
    progress.finish(connection, LSN(30))
    assert {(one.state.value, one.lsn) for one in relations_of(connection, 1)} == {("s", 30)}


def test_a_table_that_is_left_behind_by_a_catch_up_keeps_its_position(connection):
    t, u = (add(connection, name, RelationState.FINISHEDCOPY, LSN(10)) for name in "tu")
    progress = CatchUpProgress(1, [t, u])
    progress.leave(t)
    progress.advance(connection, LSN(10), LSN(30))
    progress.finish(connection, LSN(30))
    assert positions(connection) == {"t": ("f", 10), "u": ("s", 30)}


def test_a_catch_up_moves_all_of_its_tables_or_none(connection):
    """A command has removed one of them, or has it copied again."""
    t, u = (add(connection, name, RelationState.FINISHEDCOPY, LSN(10)) for name in "tu")
    progress = CatchUpProgress(1, [t, u])
    advance_relation(connection, 1, u, RelationState.INIT)
    for step in (
        progress.read,
        lambda inside: progress.lock(inside, LSN(10)),
        lambda inside: progress.finish(inside, LSN(10)),
    ):
        with pytest.raises(ProgressConflict, match='a table of replication origin "pg_1_sync" is not catching up'):
            step(connection)


def test_a_catch_up_ends_with_the_state_f(connection):
    relation = add(connection, state=RelationState.FINISHEDCOPY, lsn=LSN(10))
    advance_relation(connection, 1, relation, RelationState.SYNCDONE, LSN(10))
    progress = CatchUpProgress(1, [relation])
    for step in (progress.read, lambda inside: progress.lock(inside, LSN(10))):
        with pytest.raises(
            ProgressConflict, match=r'a table of replication origin "pg_1_public\.t" is not catching up'
        ):
            step(connection)


def test_tables_that_were_handed_over_become_ready_when_the_apply_worker_has_passed_them(connection):
    for name, lsn in (("t", 20), ("u", 20), ("v", 30)):
        add(connection, name, RelationState.SYNCDONE, LSN(lsn))
    add(connection, "w", RelationState.FINISHEDCOPY, LSN(20))
    make_ready(connection, 1, LSN(29))
    assert positions(connection) == {"t": ("r", 20), "u": ("r", 20), "v": ("s", 30), "w": ("f", 20)}


def positions(connection) -> dict[str, tuple[str, int | None]]:
    return {one.name: (one.state.value, one.lsn) for one in relations_of(connection, 1)}


def test_only_a_table_that_is_ready_can_be_kept_ready(connection):
    add(connection, "t", RelationState.READY, LSN(20))
    lock_ready(connection, 1, "public", "t")
    assert [(one.state, one.lsn) for one in relations_of(connection, 1)] == [(RelationState.READY, LSN(20))]
    replace_relations(connection, 1, [("public", "t")])
    with pytest.raises(ProgressConflict, match=r'table "public\.t" is not ready any more'):
        lock_ready(connection, 1, "public", "t")


def test_the_states_for_caching_have_no_value_that_changes_more_often(connection):
    add(connection, "copied", RelationState.FINISHEDCOPY, LSN(10))
    add(connection, "handed_over", RelationState.SYNCDONE, LSN(20))
    add(connection, "ready", RelationState.READY, LSN(20))
    record_relation_error(connection, 1, "public", "copied", "ERROR:  no")
    states = read_states(connection, 1)
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
    replace_relations(connection, 1, [("public", "t"), ("public", "unknown")])
    (relation,) = relations_of(connection, 1)
    assert (relation.state, relation.replaces) == (RelationState.INIT, True)
    for state, replaces in (("d", True), ("f", False), ("s", False), ("r", False)):
        relation = advance_relation(connection, 1, relation, RelationState(state), LSN(10))
        assert relation.replaces == replaces
        assert relations_of(connection, 1) == [relation]


def test_a_copy_that_began_before_rows_were_to_be_replaced_cannot_go_on(connection):
    """The state is the same, but the copy would leave the old rows."""
    relation = add(connection)
    replace_relations(connection, 1, [("public", "t")])
    with pytest.raises(ProgressConflict):
        advance_relation(connection, 1, relation, RelationState.DATASYNC)


def test_a_table_that_is_added_anew_does_not_replace_rows(connection):
    add(connection)
    replace_relations(connection, 1, [("public", "t")])
    assert not add(connection).replaces


# Sequences ----------------------------------------------------------------------------------------


def test_sequences_are_kept_apart_from_tables(connection):
    set_relation_states(connection, 1, [("public", "t")], RelationState.READY)
    set_relation_states(connection, 1, [("public", "q"), ("public", "r")], RelationState.INIT, are_sequences=True)
    advance_sequences(connection, 1, {("public", "r"): LSN(7), ("public", "gone"): LSN(7)})
    assert [one.name for one in relations_of(connection, 1)] == ["t"]
    assert [(one.name, one.state.value, one.lsn) for one in sequences_of(connection, 1)] == [
        ("q", "i", None),
        ("r", "r", LSN(7)),
    ]
    states = read_states(connection, 1)
    assert ([one.name for one in states], [one.name for one in states.pending]) == (["t"], ["q"])
    replace_relations(connection, 1, None)  # all tables are copied again; a sequence has no rows
    assert [one.name for one in read_states(connection, 1).pending] == ["t", "q"]
    assert sequences_of(connection, 1)[1].lsn == LSN(7)
    advance_sequences(connection, 1, {("public", "r"): None})
    assert [one.state.value for one in sequences_of(connection, 1)] == ["i", "i"]
