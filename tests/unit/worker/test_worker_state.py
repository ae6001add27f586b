"""What the parts of one worker share, and which changes of a subscription need another worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import JournalUnavailable, PublisherTablesOutdated, PublisherUnavailable
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog.table_states import RelationState
from subscriber.postgres.schema.relation_names import parse_names
from subscriber.stream.journal.positions import CachedAnswer
from subscriber.worker.worker_state import WorkerState, needs_restart
from tests.subscriptions import SUBSCRIPTION, set_state


@pytest.mark.parametrize(
    ("option", "value", "restarts"),
    [
        ("disable_on_error", True, False),
        ("synchronous_commit", "local", False),
        ("run_as_owner", True, False),
        ("log_conflict_values", True, False),
        ("conflict_log_destination", "log", False),
        ("binary", True, True),
        ("streaming", "off", True),
        ("origin", "none", True),
        ("map", parse_names("a.* => b.*"), True),
    ],
)
def test_some_options_take_effect_without_a_restart(option, value, restarts):
    """C39"""
    changed = replace(SUBSCRIPTION, options=replace(SUBSCRIPTION.options, **{option: value}))
    assert needs_restart(SUBSCRIPTION, changed) == restarts


@pytest.mark.parametrize(
    ("changes", "restarts"),
    [
        ({}, False),
        ({"skip_lsn": LSN(9)}, False),
        ({"publications": ("p", "q")}, True),
        ({"name": "t"}, True),
        ({"connection": "host=elsewhere"}, True),
        ({"slot_name": "t"}, True),
    ],
    ids=str,
)
def test_a_skip_lsn_needs_no_restart_but_an_option_of_the_stream_does(changes, restarts):
    """C39"""
    assert needs_restart(SUBSCRIPTION, replace(SUBSCRIPTION, **changes)) == restarts


def test_before_the_journal_is_opened_its_positions_are_not_known(worker_state):
    state = worker_state()
    state.read_positions()
    assert state.current_positions() == (INVALID_LSN, INVALID_LSN)


def test_the_positions_of_a_journal_that_cannot_be_read_are_the_last_known_ones(worker_state):
    state = worker_state()
    answers = iter([(LSN(70), LSN(60))])

    def ask():
        for answer in answers:
            return answer
        raise JournalUnavailable("the journal cannot be read now")

    state.watched = CachedAnswer(ask, remote=False)
    assert state.current_positions() == (70, 60)
    assert state.current_positions() == (70, 60)
    with pytest.raises(JournalUnavailable):
        state.read_positions()


def test_the_states_of_the_tables_are_read_from_the_catalog(worker_state, target):
    state = worker_state()
    set_state(target, "a", RelationState.SYNCDONE, 300)
    assert not list(state.relations)
    state.read_relations()
    assert [(one.name, one.state, one.lsn) for one in state.relations] == [("a", RelationState.SYNCDONE, 300)]


def test_publisher_tables_are_read_again_from_the_publisher(target, emulated):
    with pytest.raises(PublisherUnavailable):
        WorkerState(target, emulated).refresh_publisher_tables(PublisherTablesOutdated("the tables have changed"))
