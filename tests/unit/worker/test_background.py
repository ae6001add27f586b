"""Work that may wait for a server, done beside the supervisor's thread."""

from __future__ import annotations

import threading
import time

import pytest

from subscriber.base.background import Background
from subscriber.base.errors import PublisherUnavailable
from tests.waits import wait_until


def taken(background):
    """The result, waited for."""
    deadline = time.monotonic() + 10
    while (result := background.take()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return result


def test_take_does_not_wait_for_the_result():
    may_end = threading.Event()

    def work() -> str:
        may_end.wait(10)
        return "done"

    background = Background(work, "test")
    assert not background.is_under_way()
    assert background.take() is None
    assert background.take() is None
    assert background.is_under_way()
    may_end.set()
    assert taken(background) == "done"
    assert not background.is_under_way()


def test_a_call_that_begins_the_work_waits_for_the_result_if_it_is_told_to():
    assert Background(lambda: "done", "test").take(10.0) == "done"


def test_take_raises_the_error_of_the_work_and_starts_the_work_again():
    calls: list[int] = []

    def work() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise PublisherUnavailable("away")
        return len(calls)

    background = Background(work, "test")
    with pytest.raises(PublisherUnavailable, match="away"):
        taken(background)
    assert taken(background) == 2


def test_the_end_of_the_work_is_told_when_the_result_can_be_taken():
    told: list[str | None] = []
    background: Background[str] = Background(lambda: "done", "test", lambda: told.append(background.take()))
    assert background.take(10.0) in (None, "done")
    wait_until(lambda: len(told) == 1)


def test_the_end_of_work_that_fails_is_told_too():
    told = threading.Event()

    def fail() -> str:
        raise PublisherUnavailable("away")

    background = Background(fail, "test", told.set)
    with pytest.raises(PublisherUnavailable, match="away"):
        taken(background)
    assert told.wait(10)
