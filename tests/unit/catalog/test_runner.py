"""The last `subscriber run` of a target."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from subscriber.catalog import Runner, is_alive, is_silent, read_runner, write_runner
from subscriber.catalog.runner import STALE_SECONDS

RUNNER = Runner(
    host="db1",
    process_id=4711,
    started_at="2026-11-23T05:00:00.000+00:00",
    heartbeat_at="2026-11-23T05:10:00.000+00:00",
)


def test_each_run_replaces_the_one_before(connection):
    assert read_runner(connection) is None
    write_runner(connection, RUNNER)
    assert read_runner(connection) == RUNNER
    busy = replace(RUNNER, busy_since="2026-11-23T05:09:00.000+00:00")
    ended = replace(busy, host="db2", process_id=1, busy_since=None, ended_at="2026-11-23T05:11:00.000+00:00")
    for runner in (busy, ended):
        write_runner(connection, runner)
        assert read_runner(connection) == runner


@pytest.mark.parametrize(
    ("ago", "least", "most"),
    [(timedelta(hours=1), 3600, 3660), (timedelta(hours=-1), 0, 0)],
    ids=["written by a run that ended", "the clock was set back"],
)
def test_the_heartbeat_has_an_age(ago, least, most):
    written = datetime.now(UTC) - ago
    assert least <= replace(RUNNER, heartbeat_at=written.isoformat()).heartbeat_age <= most


@pytest.mark.parametrize(
    ("seconds", "may_be_busy", "silent"),
    [(50, False, False), (70, False, True), (70, True, False), (310, True, True)],
)
def test_a_run_without_a_heartbeat_may_hang_unless_a_batch_explains_that(seconds, may_be_busy, silent):
    written = datetime.now(UTC) - timedelta(seconds=seconds)
    assert is_silent(replace(RUNNER, heartbeat_at=written.isoformat()), may_be_busy=may_be_busy) is silent


def test_a_run_is_alive_by_its_lock_or_without_a_lock_by_a_recent_heartbeat():
    now = datetime.now(UTC)
    young, old = (now.isoformat(), (now - timedelta(seconds=STALE_SECONDS + 1)).isoformat())
    runner = Runner("h", 1, old, young)
    assert [is_alive(replace(runner, heartbeat_at=moment), locked) for moment in (young, old) for locked in (True, False, None)] == [
        True, False, True, True, False, False,
    ]  # fmt: skip
    assert not is_alive(replace(runner, ended_at=young), None)
