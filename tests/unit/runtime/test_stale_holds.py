"""When the holder of a hold counts as dead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.catalog import ApplyHold
from subscriber.runtime.stale_holds import STALE_SECONDS, StaleHold

HOLD = ApplyHold(1, "a", "db1", 4711, "since", "1970-01-01")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_holder_is_dead_when_its_heartbeat_has_not_changed_for_a_while(clock):
    """The times that are written count for nothing: the other machine's clock may be wrong."""
    stale = StaleHold(clock)
    stale.note(HOLD)
    clock.now += STALE_SECONDS - 1
    stale.note(HOLD)
    assert not stale.is_stale()
    clock.now += 2
    assert stale.is_stale()


@pytest.mark.parametrize("changes", [{"heartbeat": "1970-01-02"}, {"holder": "b"}])
def test_another_heartbeat_or_holder_begins_the_time_again(clock, changes):
    stale = StaleHold(clock)
    stale.note(HOLD)
    clock.now += STALE_SECONDS + 1
    stale.note(replace(HOLD, **changes))
    assert not stale.is_stale()


def test_nothing_is_stale_without_a_hold(clock):
    stale = StaleHold(clock)
    clock.now += STALE_SECONDS + 1
    assert not stale.is_stale()
    stale.note(HOLD)
    stale.note(None)
    clock.now += STALE_SECONDS + 1
    assert not stale.is_stale()


def test_an_outage_of_the_target_does_not_count(clock):
    """The holder could not renew its heartbeat either."""
    stale = StaleHold(clock)
    stale.note(HOLD)
    clock.now += STALE_SECONDS + 1
    stale.lose_sight()
    stale.note(HOLD)
    assert not stale.is_stale()
    clock.now += STALE_SECONDS + 1
    assert stale.is_stale()
