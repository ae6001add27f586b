"""The last `subscriber run` of a target."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from subscriber.catalog import Runner, read_runner, write_runner

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
