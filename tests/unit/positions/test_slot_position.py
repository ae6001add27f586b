"""Where the changes of a slot begin for a subscription that takes it over (slot_after_disk)."""

from __future__ import annotations

import pytest

from subscriber.errors import JournalGap
from subscriber.journal.retention import Consumer, ConsumerPosition, Purpose
from subscriber.lsn import LSN
from subscriber.positions.slot_position import JournalState, slot_position


def consumer(lsn: int, purpose: Purpose = "apply") -> ConsumerPosition:
    return ConsumerPosition("f", Consumer("a" * 32, 1, purpose), LSN(lsn), "s", "sqlite://")


def journal(*consumers: ConsumerPosition, begin: int = 0x100, durable: int = 0x300) -> JournalState:
    return JournalState(LSN(begin), LSN(durable), consumers)


def position(confirmed: int, released: int | None = None, state: JournalState | None = None) -> int:
    return slot_position("s", LSN(confirmed), None if released is None else LSN(released), state)


def test_of_a_slot_that_nobody_of_ours_has_had_everything_confirmed_is_applied():
    assert position(0x200) == 0x200


def test_a_consumer_that_is_a_moment_behind_gives_way_to_what_the_catalog_says_was_applied():
    assert position(0x200, 0x180, journal(consumer(0x150))) == 0x180


def test_a_slot_that_another_target_has_had_meanwhile_goes_on_where_that_had_applied():
    assert position(0x200, 0x110, journal(consumer(0x180, "released"), begin=0x150)) == 0x180


def test_a_journal_that_begins_beyond_what_was_applied_and_has_no_consumer_proves_nothing():
    with pytest.raises(JournalGap):
        position(0x200, 0x110, journal(begin=0x150))


def test_the_slowest_consumer_of_the_journal_says_what_was_applied():
    assert position(0x200, None, journal(consumer(0x190), consumer(0x150))) == 0x150


def test_a_consumer_that_was_taken_off_the_slot_counts_before_others():
    assert position(0x200, None, journal(consumer(0x110), consumer(0x180, "released"))) == 0x180


def test_a_journal_without_consumers_was_not_applied_at_all():
    assert position(0x200, None, journal()) == 0x100


@pytest.mark.parametrize("state", [None, journal(), journal(durable=0x150)])
def test_what_is_applied_beyond_the_confirmed_position_needs_no_journal(state):
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
def test_what_was_confirmed_and_not_applied_must_be_in_a_journal_here(state, found):
    with pytest.raises(
        JournalGap, match='"s" is confirmed up to 0/200, but its changes were applied up to 0/180'
    ) as caught:
        position(0x200, 0x180, state)
    assert found in str(caught.value.detail)
    assert "copy_data = true" in str(caught.value.hint)


def test_a_consumer_that_cannot_be_read_has_applied_nothing():
    with pytest.raises(JournalGap):
        position(0x200, None, journal(consumer(0)))
