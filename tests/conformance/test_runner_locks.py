"""Who runs for a target: the lock that a run holds can be asked after from another connection, on every target."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber import catalog
from subscriber.errors import AlreadyRunning
from subscriber.runtime.heartbeat import beating
from subscriber.runtime.read_status import runner_status
from subscriber.runtime.subscription_status import RunnerStatus
from subscriber.targets import Target, open_target
from tests.crash.harness import wait_until
from tests.target_databases import KINDS, applied_to

pytestmark = pytest.mark.server


@pytest.fixture(params=KINDS)
def target(request, tmp_path) -> Iterator[Target]:
    with applied_to(request.param, request, tmp_path) as on:
        catalog.ensure_catalog(on.target.engine)
        yield on.target


def last(target: Target) -> RunnerStatus:
    found = runner_status(target)
    assert found is not None
    return found


def is_locked(target: Target) -> bool | None:
    with target.reporting(), target.engine.connect() as connection:
        assert target.run_lock is not None
        return target.run_lock.is_held(connection)


def test_a_run_is_alive_as_long_as_it_holds_its_lock(target):
    assert is_locked(target) is False
    with open_target(target.url) as other:
        with target.running(), beating(target, lambda: None):
            assert is_locked(other) is True
            wait_until(lambda: runner_status(other), "the first heartbeat")
            assert last(other).alive
            with pytest.raises(AlreadyRunning), other.running():
                pass
        assert is_locked(other) is False
        ended = last(other)
        assert (ended.alive, ended.ended_at is None) == (False, False)


def test_a_batch_in_progress_does_not_keep_from_finding_out(target):
    """The catalog can be read beside it, but for another process where the database is DuckDB, which has the status file."""
    with target.running(), target.begin():
        assert is_locked(target) is True
