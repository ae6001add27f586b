"""``subscriber status``: the lag."""

from __future__ import annotations

from subscriber.lsn import INVALID_LSN, LSN
from subscriber.subscription.status import _lag


def test_the_lag_is_what_was_not_received_and_what_was_received_and_not_applied():
    assert _lag(LSN(100), LSN(80), LSN(30), waiting=True) == 70
    assert _lag(LSN(100), LSN(80), LSN(30), waiting=False) == 20


def test_a_lag_behind_a_publisher_that_is_away_or_was_restored_is_not_known():
    assert _lag(None, LSN(80), LSN(30), waiting=True) is None
    assert _lag(LSN(70), LSN(80), LSN(30), waiting=True) is None


def test_the_lag_of_a_slot_that_no_run_has_taken_over_is_not_known():
    """It used to be the publisher's whole WAL since it was made."""
    assert _lag(LSN(100), INVALID_LSN, INVALID_LSN, waiting=False) is None
