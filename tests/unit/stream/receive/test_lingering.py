"""Transactions wait for each other only while every consumer is behind."""

from __future__ import annotations

import pytest

from subscriber.base.lsn import LSN
from subscriber.stream.receive.finished_transactions import BEHIND_SECONDS, LONGEST_SECONDS, Lingering


def situation(lingering: Lingering, now: float, *, end: int, reached: int, waiting: bool = True) -> float:
    lingering.note(end=LSN(end), reached=LSN(reached), waiting=waiting, now=now)
    return lingering.remaining(now)


def test_a_consumer_at_the_end_gets_each_transaction_at_once():
    lingering = Lingering()
    assert situation(lingering, 0.0, end=100, reached=100) == 0
    assert situation(lingering, 9.0, end=200, reached=200) == 0


def test_a_consumer_that_applies_a_batch_gets_each_transaction_at_once():
    lingering = Lingering()
    for step in range(100):
        now = step * 0.05
        assert situation(lingering, now, end=100 + step, reached=100 + step - 20) == 0


def test_transactions_wait_for_an_eighth_of_the_time_that_the_consumer_is_behind():
    lingering = Lingering()
    situation(lingering, 0.0, end=100, reached=50, waiting=False)
    assert situation(lingering, 4.0, end=100, reached=50) == 0.5
    assert situation(lingering, 4.4, end=100, reached=50) == pytest.approx(0.15)
    assert situation(lingering, 4.6, end=100, reached=50) == 0


def test_a_consumer_that_reaches_the_end_gets_what_waits_at_once():
    lingering = Lingering()
    situation(lingering, 0.0, end=100, reached=50)
    assert situation(lingering, 60.0, end=100, reached=50) == 0  # waits since 0.0
    situation(lingering, 60.0, end=120, reached=50, waiting=False)
    assert situation(lingering, 61.0, end=120, reached=100) == 0
    assert situation(lingering, 70.0, end=120, reached=100, waiting=False) == 0
    assert situation(lingering, 70.1, end=120, reached=100) > 0
    assert situation(lingering, 70.2, end=120, reached=120) == 0


def test_a_long_outage_makes_an_entry_every_ten_seconds_and_keeps_few_samples():
    """An hour of 400 transactions a second, each of which could be an entry."""
    lingering, end, entries, waiting = Lingering(), 100, 0, False
    for step in range(3600 * 40):
        now = step / 40
        if situation(lingering, now, end=end, reached=50, waiting=waiting) == 0 and waiting:
            end, entries, waiting = end + 1, entries + 1, False
            continue
        waiting = True
    assert 3600 / LONGEST_SECONDS < entries < 600
    assert len(lingering._samples) < 150


def test_what_finishes_after_an_entry_waits_from_then_on():
    lingering = Lingering()
    situation(lingering, 0.0, end=100, reached=50)
    assert situation(lingering, 8.0, end=100, reached=50) == 0
    assert situation(lingering, 8.1, end=120, reached=50) == pytest.approx(8.1 / 8)


def test_a_synchronous_standby_never_lingers():
    lingering = Lingering(allowed=False)
    situation(lingering, 0.0, end=100, reached=50)
    assert situation(lingering, 100.0, end=100, reached=50) == 0


def test_without_a_consumer_transactions_wait_too():
    lingering = Lingering()
    situation(lingering, 0.0, end=100, reached=0, waiting=False)
    assert situation(lingering, BEHIND_SECONDS, end=100, reached=0) > 0
