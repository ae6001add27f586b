"""What the publisher says: the log, the counter, and the record that rows may be missing."""

from __future__ import annotations

import logging

import pytest

from subscriber.base.errors import TargetUnavailable
from subscriber.base.lsn import LSN
from subscriber.catalog.schema_changes import SchemaChange, schema_changes_of
from subscriber.catalog.table_states import RelationState, set_relation_states
from subscriber.worker.publisher_notices import PublisherNotices, SkippedPublications
from subscriber.worker.worker_state import WorkerState
from tests.waits import wait_until

P = SkippedPublications(("p",), LSN(0x100))


@pytest.fixture
def state(worker_state, target) -> WorkerState:
    """The worker of a subscription with the tables t (ready) and u (being copied)."""
    made: WorkerState = worker_state()
    with target.begin() as connection:
        set_relation_states(connection, 1, [("public", "t")], RelationState.READY)
        set_relation_states(connection, 1, [("public", "u")], RelationState.DATASYNC)
    return made


@pytest.fixture
def notices(state) -> PublisherNotices:
    return PublisherNotices(state)


def recorded(target) -> list[SchemaChange]:
    with target.engine.connect() as connection:
        return schema_changes_of(connection, 1)


def record(notices: PublisherNotices, skipped: SkippedPublications) -> None:
    wait_until(lambda: notices.record(skipped))


def test_the_same_text_is_logged_once_and_counted_every_time(notices, caplog):
    caplog.set_level(logging.INFO)
    for _ in range(1000):
        notices.on_notice("WARNING", "WARNING:  standby is away")
    notices.on_notice("NOTICE", "NOTICE:  hello")
    assert notices._state.counts == {("notices",): 1001}
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("WARNING", 'the publisher of subscription "s" says: WARNING:  standby is away'),
        ("INFO", 'the publisher of subscription "s" says: NOTICE:  hello'),
    ]


def test_texts_that_never_repeat_take_no_memory_without_bounds(notices):
    for number in range(1000):
        notices.on_notice("NOTICE", f"NOTICE:  {number}")
    assert len(notices._said) <= 100


def test_every_table_gets_the_record_that_rows_are_missing_if_it_was_published(notices, target, caplog):
    record(notices, P)
    changes = recorded(target)
    assert [(one.schema, one.name, one.remote_lsn, one.differs) for one in changes] == [
        ("public", "t", "0/100", True),
        ("public", "u", "0/100", True),
    ]
    assert {one.reason for one in changes} == {'Publication "p" did not exist at the publisher.'}
    (message,) = caplog.messages
    assert message.startswith(
        'subscription "s": publication "p" did not exist at the publisher at 0/100: rows that were written since then are missing'
    )
    assert "ALTER SUBSCRIPTION ... REFRESH TABLE" in message


def test_a_publication_that_stays_away_is_recorded_once(notices, target, caplog):
    """Each connection, and each other change of a publication, brings the WARNING again."""
    for lsn in (0x100, 0x200, 0x300):
        record(notices, SkippedPublications(("p",), LSN(lsn)))
    assert [one.remote_lsn for one in recorded(target) if one.name == "t"] == ["0/100"]
    record(notices, SkippedPublications(("p", "q"), LSN(0x400)))
    assert [one.reason for one in recorded(target) if one.name == "t"] == [
        'Publication "p" did not exist at the publisher.',
        'Publication "q" did not exist at the publisher.',
    ]
    assert len(caplog.messages) == 4, "a table that is being copied gets each of them"


def test_a_table_that_is_being_copied_gets_another_record_since_the_copy_may_be_older(notices, target):
    for lsn in (0x100, 0x100, 0x200):
        record(notices, SkippedPublications(("p",), LSN(lsn)))
    assert [one.remote_lsn for one in recorded(target) if one.name == "u"] == ["0/100", "0/200"]


def test_a_target_that_is_away_is_waited_for(notices, state, target, monkeypatch):
    def away(*_: object) -> None:
        raise TargetUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr("subscriber.worker.publisher_notices.relations_of", away)
        for _ in range(20):
            assert not notices.record(P)
        wait_until(lambda: not notices.recording.is_under_way())
    record(notices, P)
    assert len(recorded(target)) == 2


def test_the_record_for_a_receiver_that_has_ended_is_not_taken_for_another_one(notices, target):
    notices.record(P)
    wait_until(lambda: not notices.recording.is_under_way())
    later = SkippedPublications(("q",), LSN(0x200))
    record(notices, later)
    assert any("q" in one.reason for one in recorded(target))
