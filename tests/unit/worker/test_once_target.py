"""The mark of ``run --once``: written in the background, and tried again after a failure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from subscriber.base.background import Background
from subscriber.base.errors import PublisherUnavailable
from subscriber.base.lsn import LSN
from subscriber.worker.once import OnceTarget, write_once_target
from tests.subscriptions import NOWHERE, create_subscription
from tests.waits import wait_until


@pytest.fixture
def mark(target) -> OnceTarget:
    subscription = create_subscription(target)
    return OnceTarget(lambda: subscription, retry_seconds=60.0)


def answered_with(mark: OnceTarget, answer: Callable[[], LSN]) -> None:
    """Write the mark with a publisher that gives this answer, and wait for the answer."""
    mark.writing = Background(answer, "mark")
    mark.write()
    wait_until(lambda: not mark.writing.is_under_way())
    mark.write()


def refuse() -> LSN:
    raise PublisherUnavailable("permission denied")


def test_the_mark_is_the_position_that_the_publisher_answers(mark):
    answered_with(mark, lambda: LSN(80))
    assert mark.position == 80
    assert mark.attempts.error is None


def test_a_publisher_that_cannot_be_asked_is_asked_again_after_a_while(mark, caplog):
    answered_with(mark, refuse)
    assert (mark.position, mark.attempts.failed.in_a_row) == (None, 1)
    assert (
        'subscription "s": the current WAL position of the publisher cannot be read: permission denied' in caplog.text
    )
    mark.write()
    assert not mark.writing.is_under_way(), "it is not time yet"
    mark.attempts.wait(0.0)
    answered_with(mark, lambda: LSN(80))
    assert mark.position == 80
    assert mark.attempts.error is None
    assert mark.attempts.failed.in_all == 1


def test_the_work_in_progress_is_named_after_the_subscription(mark):
    assert mark.writing.name == "once target of s"


def test_a_publisher_that_does_not_answer_is_an_error_of_the_publisher(target):
    with pytest.raises(PublisherUnavailable):
        write_once_target(create_subscription(target, conninfo=NOWHERE))
