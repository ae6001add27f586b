"""Where the changes of a slot begin for a subscription that takes it over (slot_after_disk)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import JournalGap
from subscriber.base.lsn import LSN
from subscriber.commands.slot_position import JournalState, slot_position
from subscriber.stream.journal.retention import Consumer, ConsumerPosition, Purpose


def consumer(lsn: int, purpose: Purpose = "apply") -> ConsumerPosition:
    return ConsumerPosition("f", Consumer("a" * 32, 1, purpose), LSN(lsn), "s", "sqlite://")


def journal(*consumers: ConsumerPosition, begin: int = 0x100, durable: int = 0x300) -> JournalState:
    return JournalState(LSN(begin), LSN(durable), consumers)


def position(confirmed: int, released: int | None = None, state: JournalState | None = None) -> int:
    return slot_position("s", LSN(confirmed), None if released is None else LSN(released), state)


def test_a_slot_without_a_released_position_and_without_a_journal_begins_where_it_is_confirmed():
    assert position(0x200) == 0x200


def test_the_released_position_counts_before_a_consumer_that_is_behind_it():
    assert position(0x200, 0x180, journal(consumer(0x150))) == 0x180


def test_a_slot_that_another_target_has_used_since_begins_where_that_target_had_applied():
    assert position(0x200, 0x110, journal(consumer(0x180, "released"), begin=0x150)) == 0x180


def test_a_journal_without_a_consumer_that_begins_after_the_applied_position_is_a_gap():
    with pytest.raises(JournalGap):
        position(0x200, 0x110, journal(begin=0x150))


def test_without_a_released_position_the_slowest_consumer_counts():
    assert position(0x200, None, journal(consumer(0x190), consumer(0x150))) == 0x150


def test_a_released_consumer_counts_before_others():
    assert position(0x200, None, journal(consumer(0x110), consumer(0x180, "released"))) == 0x180


def test_a_journal_without_consumers_is_applied_from_its_beginning():
    assert position(0x200, None, journal()) == 0x100


@pytest.mark.parametrize("state", [None, journal(), journal(durable=0x150)])
def test_no_journal_is_needed_where_the_applied_position_is_after_the_confirmed_one(state):
    """A slot may be confirmed less than was applied: a publisher that crashed forgets the last
    confirmation.
    """
    assert position(0x200, 0x280, state) == 0x280


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (None, "there is no journal of this slot here"),
        (journal(durable=0x1F0), "the journal ends at 0/1F0"),
        (journal(begin=0x190), "the journal begins at 0/190"),
    ],
)
def test_confirmed_changes_that_were_not_applied_must_be_in_the_journal(state, found):
    with pytest.raises(
        JournalGap, match='"s" is confirmed up to 0/200, but its changes were applied up to 0/180'
    ) as caught:
        position(0x200, 0x180, state)
    assert found in str(caught.value.detail)
    assert "copy_data = true" in str(caught.value.hint)


def test_a_consumer_that_cannot_be_read_counts_as_having_applied_nothing():
    with pytest.raises(JournalGap):
        position(0x200, None, journal(consumer(0)))
