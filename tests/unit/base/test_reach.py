"""How far a subscription has come, with or without an entry that is left to apply."""

from __future__ import annotations

import pytest

from subscriber.base.lsn import LSN
from subscriber.base.reach import Reach


@pytest.mark.parametrize(
    ("received", "last_entry", "applied", "waits", "position", "last", "lag"),
    [
        (500, 300, 300, False, 500, 300, 0),  # the stream has passed WAL that has no entry
        (500, 300, 200, True, 200, 300, 100),
        (200, 200, 300, False, 300, 300, 0),  # a journal that begins again is behind the target
        (0, 0, 300, False, 300, 300, 0),  # a journal on another machine
    ],
)
def test_the_target_is_at_what_was_received_when_no_entry_is_left(
    received, last_entry, applied, waits, position, last, lag
):
    reach = Reach(LSN(received), LSN(last_entry), LSN(applied))
    assert (reach.waits, reach.position, reach.last, reach.lag_bytes) == (waits, position, last, lag)


def test_a_position_is_applied_if_it_was_received_and_nothing_before_it_is_left():
    assert Reach(LSN(500), LSN(300), LSN(300)).has(LSN(450))
    assert not Reach(LSN(500), LSN(300), LSN(300)).has(LSN(501)), "not received"
    assert Reach(LSN(500), LSN(500), LSN(300)).has(LSN(300)), "the entry that is left comes later"
    assert not Reach(LSN(500), LSN(500), LSN(300)).has(LSN(301))
