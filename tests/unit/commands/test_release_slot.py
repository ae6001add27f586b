"""What is kept when a slot is released from its subscription."""

from __future__ import annotations

import pytest

from subscriber.base.errors import ProgressConflict
from subscriber.base.lsn import LSN
from subscriber.catalog.catalog_upgrade import target_identifier
from subscriber.catalog.released import released_slots
from subscriber.commands.consumers import apply_consumer, sync_consumer
from subscriber.commands.subscription_slots import (
    delete_journal,
    detach_journal,
    release_slot,
    remove_journal_of,
    warn_dropped,
    while_progress_stands,
)
from subscriber.stream.journal.control import CONTROL_FILE
from subscriber.stream.journal.retention import Consumer, list_consumers, write_consumer
from subscriber.stream.journal.storage import LocalStorage
from tests.streams import SYSTEM

# The progress -------------------------------------------------------------------------------------


def test_a_change_is_made_with_the_progress_that_it_is_told(session):
    subscription = session.subscribe(applied=0x300)
    assert while_progress_stands(session.target, subscription, lambda _, applied: applied) == 0x300


def test_a_change_is_tried_again_when_a_batch_has_moved_the_progress(session, monkeypatch):
    naps: list[float] = []
    monkeypatch.setattr("time.sleep", naps.append)
    subscription = session.subscribe(applied=0x300)
    attempts: list[LSN] = []

    def change(_: object, applied: LSN) -> LSN:
        attempts.append(applied)
        if len(attempts) < 3:
            raise ProgressConflict("a batch was committed")
        return applied

    assert while_progress_stands(session.target, subscription, change) == 0x300
    assert (len(attempts), len(naps)) == (3, 2)


def test_a_progress_that_never_stands_still_is_an_error(session, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)

    def change(_: object, applied: LSN) -> None:
        raise ProgressConflict("a batch was committed")

    with pytest.raises(ProgressConflict):
        while_progress_stands(session.target, session.subscribe(), change)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"system_identifier": SYSTEM}, True),
        ({"system_identifier": None}, False),
        ({"system_identifier": SYSTEM, "slot_name": None, "enabled": False}, False),
    ],
    ids=["adopted", "never connected", "without a slot"],
)
def test_the_position_is_kept_if_it_is_known(session, options, kept):
    subscription = session.subscribe(**options)
    with session.target.begin() as connection:
        release_slot(connection, subscription, LSN(0x300))
        found = [(one.system_identifier, one.slot, one.applied) for one in released_slots(connection)]
    assert found == ([(SYSTEM, "s", 0x300)] if kept else [])


# The journal --------------------------------------------------------------------------------------


def test_the_journal_keeps_what_was_not_applied_for_the_next_subscription(session):
    subscription = session.subscribe(system_identifier=SYSTEM, applied=0x300)
    storage = LocalStorage(session.make_journal())
    with session.target.engine.connect() as connection:
        identifier = target_identifier(connection)
    for consumer in (apply_consumer(identifier, subscription.subid), sync_consumer(identifier, subscription.subid)):
        write_consumer(storage, consumer, LSN(0x200), subscription="s", place="here")
    detach_journal(session.target, subscription, LSN(0x300), session.settings, session.said.append)
    assert [(one.consumer, one.lsn) for one in list_consumers(storage)] == [
        (Consumer(identifier, subscription.subid, "released"), 0x300)
    ]
    (told,) = session.said
    assert told.startswith('WARNING:  subscription "s" has not applied ')
    assert "bytes of changes that it has received, from 0/300 to 0/400\n" in told
    assert told.endswith('for a subscription that takes over slot "s".')


def test_a_journal_that_has_nothing_more_is_left_in_silence(session):
    subscription = session.subscribe(system_identifier=SYSTEM)
    session.make_journal()
    detach_journal(session.target, subscription, LSN(0x400), session.settings, session.said.append)
    warn_dropped(subscription, LSN(0x400), session.settings, session.said.append)
    assert session.said == []


@pytest.mark.parametrize("system_identifier", [SYSTEM, None], ids=["on another machine", "never connected"])
def test_a_journal_that_is_not_here_is_not_made(session, tmp_path, system_identifier):
    subscription = session.subscribe(system_identifier=system_identifier)
    detach_journal(session.target, subscription, LSN(0x300), session.settings, session.said.append)
    warn_dropped(subscription, LSN(0x300), session.settings, session.said.append)
    assert session.said == []
    assert not (tmp_path / "journal").exists()


def test_a_journal_that_cannot_be_read_is_told_and_the_command_has_worked(session):
    subscription = session.subscribe(system_identifier=SYSTEM)
    (session.make_journal() / CONTROL_FILE).write_text("{}")
    detach_journal(session.target, subscription, LSN(0x300), session.settings, session.said.append)
    (told,) = session.said
    assert told.startswith('WARNING:  the changes of slot "s" that were received and not applied cannot be counted: ')
    assert told.endswith("HINT:  All changes up to 0/300 have been applied.")


def test_what_is_dropped_with_the_slot_is_counted(session):
    subscription = session.subscribe(system_identifier=SYSTEM)
    session.make_journal()
    warn_dropped(subscription, LSN(0x200), session.settings, session.said.append)
    (told,) = session.said
    assert told.endswith("from 0/200 to 0/400\nDETAIL:  They are dropped with the slot.")


def test_a_journal_is_removed_with_all_of_its_files(session):
    folder = session.make_journal()
    delete_journal(SYSTEM, "s", session.settings)
    assert list(LocalStorage(folder).names()) == []
    remove_journal_of(SYSTEM, "s", session.settings, session.said.append)
    assert session.said == []


def test_a_journal_that_cannot_be_removed_is_told(session, tmp_path):
    (tmp_path / "journal").write_text("a file where the folder of the journals would be")
    remove_journal_of(SYSTEM, "s", session.settings, session.said.append)
    (told,) = session.said
    assert told.startswith('WARNING:  could not remove the journal of slot "s": ')
    assert told.endswith("HINT:  No subscription needs it any more; remove it.")
