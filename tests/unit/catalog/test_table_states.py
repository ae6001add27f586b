"""subscription.catalog.relations: the steps of a table's state, each from the state it leaves."""

from __future__ import annotations

import pytest

from subscriber import catalog
from subscriber.catalog import CatchUpProgress, RelationState, SubscriptionRelation
from subscriber.errors import ProgressConflict
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.targets import open_target


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        catalog.ensure_catalog(opened.engine)
        yield opened


@pytest.fixture
def connection(target):
    with target.begin() as opened:
        yield opened


def add(connection, name="t", state=RelationState.INIT, lsn=None) -> SubscriptionRelation:
    catalog.set_relation_state(connection, 1, "public", name, state, lsn)
    return next(one for one in catalog.relations_of(connection, 1) if one.name == name)


def test_each_step_leaves_the_state_it_was_read_in_and_forgets_the_error(connection):
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
def test_a_table_that_a_command_removed_or_renewed_meanwhile_is_left_alone(connection, gone):
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
