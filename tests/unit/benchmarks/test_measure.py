"""The pure parts of a measurement."""

from __future__ import annotations

import pytest

from benchmarks.measure import NATIVE, Bench, bench, latencies, rotated
from benchmarks.workloads import BY_NAME


def test_each_run_begins_with_the_next_subscriber():
    assert [rotated("abc", run) for run in range(4)] == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], list("abc")]
    assert rotated("", 2) == []


def test_a_row_counts_as_seen_when_it_or_a_later_one_was_seen():
    committed = {1: 10.0, 2: 10.05, 3: 10.1}
    arrived = [(0, 9.0), (2, 10.2), (3, 10.3)]
    assert latencies(committed, arrived) == pytest.approx([200, 150, 200])


def test_a_row_that_is_seen_before_the_publishers_answer_has_no_latency():
    assert latencies({1: 10.0}, [(1, 9.99)]) == [0]


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.slow
def test_the_native_subscriber_and_a_target_apply_the_same_backlog(postgresql18, monkeypatch):
    """The servers are those of the tests' machine; without one the fixture skips the test."""
    said: list[str] = []
    answers = iter([1, 2])
    with bench(120, said.append) as servers:
        outcomes = servers.measure(BY_NAME["W7"].scaled(0.001), ["sqlite"], 2)
        # From here on the publisher's answer to the check is another than the subscriber's.
        monkeypatch.setattr(Bench, "_check", lambda *_: [(1, next(answers))])
        wrong = servers.measure(BY_NAME["W7"].scaled(0.001), [], 1)
    assert [outcome.failure for outcome in outcomes.values()] == [None, None], said
    assert [sample.run for sample in outcomes["sqlite"].samples] == [1, 2]
    usage = outcomes["sqlite"].samples[0].usage
    assert usage.python_mib > 50
    assert usage.jvm_mib > 50
    assert {"walsender", "receiver", "driver", "jvm"} <= set(usage.cpu_seconds)
    assert "target" in outcomes[NATIVE].samples[0].usage.cpu_seconds
    assert wrong[NATIVE].failure is not None
    assert "differs from the publisher" in wrong[NATIVE].failure


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", ["W9", "W10", "W11"])
def test_many_tables_and_subscriptions_arrive_as_at_the_native_subscriber(name, postgresql18, tmp_path):
    """The content of each table is compared after the run; py-spy writes a graph of the driver."""
    with bench(120, lambda _: None, tmp_path) as servers:
        outcomes = servers.measure(BY_NAME[name].scaled(0.002), ["sqlite"], 1)
    assert [(outcome.failure, len(outcome.samples)) for outcome in outcomes.values()] == [(None, 1)] * 2
    assert "<svg" in (tmp_path / f"{name}-sqlite-1-driver.svg").read_text()


@pytest.mark.server
def test_a_subscriber_that_does_not_finish_is_reported(postgresql18):
    with bench(0.0, lambda _: None) as servers:
        outcome = servers.measure(BY_NAME["W7"].scaled(0.001), [], 1)[NATIVE]
    assert outcome.samples == []
    assert outcome.failure == "did not finish within 0 s"
