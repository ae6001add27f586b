"""When it is useless to wait for a subscription."""

from __future__ import annotations

from typing import Any

import pytest

from subscriber.commands.hold_failing import Failing


def failed(number: int, **more: Any) -> dict[str, Any]:
    return {"last_error": "ERROR:  no", "last_error_at": f"at {number}", "last_error_worker": "apply", **more}


def test_an_error_that_occurs_again_and_again_counts():
    failing = Failing()
    found = [failing.note(failed(number), "paused", float(number)) for number in range(5)]
    assert found == [None, None, None, "ERROR:  no", "ERROR:  no"], "the first one is from before the wait"


@pytest.mark.parametrize(
    "statistics",
    [
        {},
        failed(1, last_error_worker="sync"),
        failed(1, last_error_resolved_at="later"),
    ],
    ids=["no error", "of a copy", "resolved"],
)
def test_other_errors_do_not_count(statistics):
    failing = Failing()
    assert [failing.note(statistics, "paused", now) for now in (0.0, 1000.0)] == [None, None]


def test_an_old_error_counts_when_nothing_happens_for_long():
    """A worker that has stopped for good does not fail again."""
    failing = Failing()
    assert [failing.note(failed(1), "requested", now) for now in (0.0, 59.0, 61.0)] == [None, None, "ERROR:  no"]


def test_an_old_error_does_not_count_while_the_subscription_gets_further():
    failing = Failing()
    assert [failing.note(failed(1), applied, 30.0 * applied) for applied in range(10)] == [None] * 10
