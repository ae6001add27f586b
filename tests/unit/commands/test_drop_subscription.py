"""DROP SUBSCRIPTION: the slot, the journal, the catalog."""

from __future__ import annotations

import pytest

from subscriber.base.errors import PublisherNotReady, PublisherUnavailable, SlotInUse
from subscriber.catalog.released import released_slots
from subscriber.catalog.table_states import RelationState
from subscriber.commands.drop_subscription import remove_journal
from tests.scripted_publisher import PublishedSlot
from tests.streams import SYSTEM

INIT, DATASYNC, FINISHED, READY = (
    RelationState.INIT, RelationState.DATASYNC, RelationState.FINISHEDCOPY, RelationState.READY
)  # fmt: skip


def is_dropped(session) -> bool:
    return not session.rows("SELECT * FROM subscriber_subscription")


def test_a_subscription_that_does_not_exist_is_refused_or_skipped(session):
    error = session.refused("DROP SUBSCRIPTION nope")
    assert (error.message, error.sqlstate) == ('subscription "nope" does not exist', "42704")
    assert session.run("DROP SUBSCRIPTION IF EXISTS nope") == "DROP SUBSCRIPTION"
    assert session.said == ['NOTICE:  subscription "nope" does not exist, skipping']


def test_a_subscription_without_a_slot_is_dropped_without_a_publisher(session):
    session.subscribe(slot_name=None, enabled=False, tables={"film": READY})
    session.run("DROP SUBSCRIPTION s")
    assert is_dropped(session)
    assert session.said == []
    assert session.rows("SELECT * FROM subscriber_subscription_rel") == []
    assert session.rows("SELECT * FROM subscriber_replication_origin_status") == []


def test_the_slot_is_dropped_with_the_subscription(session, publisher):
    publisher.slots["s"] = PublishedSlot()
    session.subscribe(system_identifier=SYSTEM)
    session.run("DROP SUBSCRIPTION s")
    assert is_dropped(session)
    assert publisher.slots == {}
    assert session.said == ['NOTICE:  dropped replication slot "s" on publisher']


def test_the_journal_goes_with_the_slot_and_what_was_not_applied_is_told(session, publisher):
    publisher.slots["s"] = PublishedSlot()
    subscription = session.subscribe(system_identifier=SYSTEM, applied=0x300)
    folder = session.make_journal()
    session.run("DROP SUBSCRIPTION s")
    _, told = session.said
    assert told.startswith('WARNING:  subscription "s" has not applied ')
    assert told.endswith(" from 0/300 to 0/400\nDETAIL:  They are dropped with the slot.")
    assert not list(folder.glob("*.arrow"))
    remove_journal(subscription, session.settings)  # there is nothing left to remove


def test_a_slot_that_is_gone_keeps_the_subscription_and_leaves_it_enabled(session, publisher):
    session.subscribe(system_identifier=SYSTEM)
    with pytest.raises(PublisherNotReady) as caught:
        session.run("DROP SUBSCRIPTION s")
    assert caught.value.message == (
        'could not drop replication slot "s" on publisher: ERROR:  replication slot "s" does not exist'
    )
    assert session.subscription().enabled is True


def test_a_slot_in_use_keeps_the_subscription(session, publisher, impatient):
    publisher.slots["s"] = PublishedSlot(pid=4711)
    session.subscribe(system_identifier=SYSTEM, enabled=False)
    with pytest.raises(SlotInUse):
        session.run("DROP SUBSCRIPTION s")
    assert session.subscription().enabled is False


def test_a_publisher_that_does_not_answer_keeps_the_subscription_with_a_way_out(session):
    """C54: ReportSlotConnectionError."""
    session.subscribe(conninfo="host=127.0.0.1 port=1", system_identifier=SYSTEM)
    with pytest.raises(PublisherUnavailable) as caught:
        session.run("DROP SUBSCRIPTION s")
    assert caught.value.message.startswith(
        'could not connect to publisher when attempting to drop replication slot "s": '
    )
    assert caught.value.hint == (
        "Use ALTER SUBSCRIPTION ... DISABLE to disable the subscription, and then use "
        "ALTER SUBSCRIPTION ... SET (slot_name = NONE) to disassociate it from the slot."
    )
    assert session.subscription().enabled is True


def test_tables_without_all_rows_are_told_before_the_slot_goes(session, publisher):
    publisher.slots["s"] = PublishedSlot()
    states = {"a": INIT, "b": DATASYNC, "c": FINISHED, "d": READY}
    session.subscribe(system_identifier=SYSTEM, tables=states)
    session.run("DROP SUBSCRIPTION s")
    assert session.said == [
        (
            'WARNING:  2 tables of subscription "s" were never copied: "public.a", "public.b"\n'
            "DETAIL:  Rows that the publisher had before the subscription was created are not in the target."
        ),
        (
            'WARNING:  1 table of subscription "s" was copied but not caught up: "public.c"\n'
            "DETAIL:  Changes that were made at the publisher during the copy are not in the target."
        ),
        'NOTICE:  dropped replication slot "s" on publisher',
    ]


def test_a_slot_that_was_released_keeps_the_position_up_to_the_end(session):
    """A batch may have been committed while the slot was being released."""
    session.subscribe(system_identifier=SYSTEM, enabled=False, applied=0x300)
    session.run("ALTER SUBSCRIPTION s SET (slot_name = none)")
    subscription = session.subscription()
    with session.target.begin() as connection:
        subscription.progress.advance(connection, session.applied(), 0x380)
    session.run("DROP SUBSCRIPTION s")
    with session.target.engine.connect() as connection:
        assert [(one.slot, one.applied) for one in released_slots(connection)] == [("s", 0x380)]
