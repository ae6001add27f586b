"""Slots that a subscription no longer uses, and the LSN up to which it had applied."""

from __future__ import annotations

from dataclasses import replace

from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import RELEASED_SLOT
from subscriber.catalog.released import (
    ReleasedSlot,
    forget_released_slot,
    release_slot,
    released_position,
    released_slots,
)
from tests.subscriptions import as_stored

SYSTEM = "7421398461293847112"
RELEASED = ReleasedSlot(system_identifier=SYSTEM, slot="s", applied=LSN(0x16B3778), subscription="sub")


def test_a_released_slot_is_read_back(connection):
    assert released_slots(connection) == []
    release_slot(connection, RELEASED)
    assert released_slots(connection) == [RELEASED]
    row = connection.execute(as_stored(*RELEASED_SLOT.c)).one()
    assert row.remotelsn == "0/16B3778"
    assert row.releasedat.endswith("+00:00")


def test_a_slot_that_is_released_again_has_its_last_position(connection):
    again = replace(RELEASED, applied=LSN(0x2000000), subscription="other")
    for one in (RELEASED, again):
        release_slot(connection, one)
    assert released_slots(connection) == [again]


def test_slots_of_one_name_at_two_publishers_are_two_slots(connection):
    other = replace(RELEASED, system_identifier="7", applied=LSN(7))
    for one in (RELEASED, other):
        release_slot(connection, one)
    assert released_position(connection, SYSTEM, "s") == 0x16B3778
    assert released_position(connection, "7", "s") == 7
    assert released_position(connection, SYSTEM, "S") is None
    forget_released_slot(connection, "7", "s")
    forget_released_slot(connection, "7", "s")
    assert released_slots(connection) == [RELEASED]
