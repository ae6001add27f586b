"""The row by which a command and a run talk about a hold of the apply."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import ApplyHold, HoldState
from subscriber.lsn import LSN

HOLD = ApplyHold(1, "a" * 32, "db1", 4711, "2026-11-23T05:00:00+00:00", "2026-11-23T05:00:00+00:00")


def test_a_hold_goes_through_its_states(connection):
    catalog.insert_hold(connection, HOLD)
    assert catalog.find_hold(connection, 1) == HOLD
    assert not catalog.bind_hold(connection, HOLD, LSN(0x100)), "the run has not paused yet"
    assert catalog.note_paused(connection, HOLD)
    assert not catalog.note_reached(connection, HOLD, LSN(0x100)), "there is no bound yet"
    assert catalog.bind_hold(connection, HOLD, LSN(0x100))
    assert not catalog.note_reached(connection, HOLD, LSN(0x200)), "another bound"
    assert catalog.note_reached(connection, HOLD, LSN(0x100))
    held = replace(HOLD, state=HoldState.HELD, bound=LSN(0x100), reached=LSN(0x100))
    assert catalog.read_holds(connection) == {1: held}
    assert not catalog.note_paused(connection, HOLD), "a state is not taken back"
    assert catalog.delete_hold(connection, HOLD)
    assert catalog.find_hold(connection, 1) is None


def test_nobody_changes_the_hold_of_another_holder(connection):
    later = replace(HOLD, holder="b" * 32)
    catalog.insert_hold(connection, later)
    assert not catalog.renew_hold(connection, HOLD, "now")
    assert not catalog.note_paused(connection, HOLD)
    assert not catalog.delete_hold(connection, HOLD)
    assert not catalog.delete_stale_hold(connection, HOLD)
    assert catalog.find_hold(connection, 1) == later


def test_a_hold_that_was_renewed_meanwhile_is_not_stale(connection):
    catalog.insert_hold(connection, HOLD)
    assert catalog.renew_hold(connection, HOLD, "later")
    assert not catalog.delete_stale_hold(connection, HOLD)
    assert catalog.delete_stale_hold(connection, replace(HOLD, heartbeat="later"))


def test_a_subscription_has_one_hold_at_a_time(connection):
    catalog.insert_hold(connection, HOLD)
    catalog.insert_hold(connection, replace(HOLD, subid=2))
    with pytest.raises(sa.exc.IntegrityError):
        catalog.insert_hold(connection, replace(HOLD, holder="b" * 32))
