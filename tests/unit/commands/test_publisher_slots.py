"""Slots at the publisher, as far as ordinary connections reach. Creating and altering a slot
needs a server (tests/conformance/test_subscription_commands.py).
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import PublisherNotReady, PublisherUnavailable, SlotInUse
from subscriber.commands.subscription_slots import change_slot, end_receiver, is_released, make_slot, remove_slot
from subscriber.publisher.client import PublisherClient
from tests.scripted_publisher import PublishedSlot
from tests.streams import SYSTEM

NOBODY = "host=127.0.0.1 port=1 dbname=d"


def test_a_slot_is_not_made_without_a_connection():
    with pytest.raises(PublisherUnavailable, match=r'^subscription "sub" could not connect to the publisher: '):
        make_slot(NOBODY, "sub", "s", two_phase=False, failover=False)
    with pytest.raises(PublisherUnavailable, match=r'^subscription "sub" could not connect to the publisher: '):
        change_slot(NOBODY, "sub", "s", failover=True)


# Dropping -----------------------------------------------------------------------------------------


def test_a_slot_that_nobody_uses_is_dropped(publisher):
    publisher.slots["s"] = PublishedSlot()
    remove_slot(PublisherClient(publisher.connection), "s")
    assert publisher.slots == {}


def test_a_slot_that_does_not_exist_is_an_error_with_a_way_out(publisher):
    """C54: ReplicationSlotDropAtPubNode."""
    with pytest.raises(PublisherNotReady) as caught:
        remove_slot(PublisherClient(publisher.connection), "s")
    assert caught.value.message == (
        'could not drop replication slot "s" on publisher: ERROR:  replication slot "s" does not exist'
    )
    assert caught.value.sqlstate == "08006"
    assert "SET (slot_name = NONE)" in str(caught.value.hint)


def test_a_slot_that_stays_in_use_is_not_dropped(publisher, impatient):
    publisher.slots["s"] = PublishedSlot(pid=4711)
    with pytest.raises(SlotInUse) as caught:
        remove_slot(PublisherClient(publisher.connection), "s")
    assert caught.value.message == (
        'could not drop replication slot "s" on publisher: ERROR:  replication slot "s" is active for PID 4711'
    )
    assert caught.value.sqlstate == "08006"


# Waiting for the release --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slots", "released"),
    [({}, True), ({"s": PublishedSlot()}, True), ({"s": PublishedSlot(pid=4711)}, False)],
    ids=["missing", "free", "in use"],
)
def test_a_slot_is_released_when_nobody_streams_from_it(publisher, impatient, slots, released):
    publisher.slots.update(slots)
    assert is_released(PublisherClient(publisher.connection), "s") is released


@pytest.mark.parametrize(
    "options",
    [{"slot_name": None, "enabled": False, "system_identifier": SYSTEM}, {"system_identifier": None}],
    ids=["no slot", "never connected"],
)
def test_a_subscription_that_never_streamed_has_no_receiver_to_end(session, publisher, options):
    end_receiver(session.subscribe(**options), session.said.append)
    assert publisher.asked == []


def test_a_slot_without_a_receiver_needs_no_wait(session, publisher):
    publisher.slots["s"] = PublishedSlot()
    end_receiver(session.subscribe(system_identifier=SYSTEM), session.said.append)
    assert session.said == []


def test_a_receiver_that_was_started_afterwards_is_none_to_wait_for(session, publisher):
    """It has read the catalog after the change."""
    pids = iter([4711, 4711, 4712])
    publisher.slots["s"] = PublishedSlot()
    publisher.answer(
        "FROM pg_replication_slots",
        lambda asked: [row | {"active_pid": next(pids)} for row in publisher.slot_rows(asked)],
    )
    end_receiver(session.subscribe(system_identifier=SYSTEM), session.said.append)
    assert list(pids) == []
    assert not publisher.statements("pg_terminate_backend")


def test_a_receiver_that_goes_on_is_told_and_the_command_has_worked(session, publisher, impatient):
    publisher.slots["s"] = PublishedSlot(pid=4711)
    end_receiver(session.subscribe(system_identifier=SYSTEM), session.said.append)
    assert session.said == [
        (
            'WARNING:  a receiver may still stream from slot "s" with the previous settings: '
            'replication slot "s" is active for PID 4711\n'
            "HINT:  The command takes effect when `subscriber run` notices it, about a second after it can read the target."
        )
    ]


def test_a_publisher_that_does_not_answer_is_told_and_the_command_has_worked(session):
    end_receiver(session.subscribe(conninfo=NOBODY, system_identifier=SYSTEM), session.said.append)
    (told,) = session.said
    assert told.startswith(
        'WARNING:  a receiver may still stream from slot "s" with the previous settings: subscription "s" could not connect'
    )
