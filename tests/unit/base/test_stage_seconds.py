"""A stage is charged with its own time only."""

from __future__ import annotations

import time

import pytest

from subscriber.base.stage_seconds import StageSeconds


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when it is told to."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def work(seconds: float) -> None:
        now[0] += seconds

    return work


def test_a_stage_is_not_charged_with_what_it_waits_for_nor_with_its_consumer(clock):
    seconds = StageSeconds()

    def read():
        for item in range(2):
            clock(1.0)
            yield item

    def decode(items):
        for item in items:
            clock(10.0)
            yield item

    for _ in seconds.timed("decode", decode(seconds.timed("read", read()))):
        clock(100.0)
    assert dict(seconds) == {"read": 2.0, "decode": 20.0}


def test_what_is_taken_begins_at_0_again(clock):
    seconds = StageSeconds()
    seconds.add("read", 1.5)
    assert (seconds.taken(), seconds.taken()) == ({"read": 1.5}, {})
