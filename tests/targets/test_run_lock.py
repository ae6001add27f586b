"""The optional role ``run_lock``: one runner at a time, and another connection can ask whether
there is one.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import AlreadyRunning
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.targets import Target, open_target
from subscriber.worker import read_status
from subscriber.worker.heartbeat import beating
from subscriber.worker.subscription_status import RunnerStatus
from tests.crash.harness import wait_until
from tests.targets.tables import created, shape_of


@pytest.fixture
def locked(target):
    """A target that has a run lock, with a catalog."""
    if target.run_lock is None:
        pytest.skip("it has no run lock")
    ensure_catalog(target.engine)
    return target


def runner_status(target: Target) -> RunnerStatus | None:
    with target.reporting(), target.engine.connect() as connection:
        return read_status.runner_status(target, connection)


def last(target: Target) -> RunnerStatus:
    found = runner_status(target)
    assert found is not None
    return found


def is_locked(target: Target) -> bool | None:
    with target.reporting(), target.engine.connect() as connection:
        assert target.run_lock is not None
        return target.run_lock.is_held(connection)


def test_a_run_is_alive_as_long_as_it_holds_its_lock(locked):
    assert is_locked(locked) is False
    with open_target(locked.url) as other:
        with locked.running(), beating(locked, lambda: None):
            assert is_locked(other) is True
            wait_until(lambda: runner_status(other), "the first heartbeat")
            assert last(other).alive
            with pytest.raises(AlreadyRunning), other.running():
                pass
        assert is_locked(other) is False
        ended = last(other)
        assert (ended.alive, ended.ended_at is None) == (False, False)


def test_a_batch_in_progress_does_not_keep_from_finding_out(locked):
    """The catalog can be read beside it, but for another process where the database is DuckDB,
    which has the status file.
    """
    with locked.running(), locked.begin():
        assert is_locked(locked) is True


def test_a_second_runner_is_refused(locked):
    with open_target(locked.url) as other:
        with locked.running(), pytest.raises(AlreadyRunning, match='another "subscriber run"'), other.running():
            pass
        with other.running():
            pass


def test_nobody_is_kept_out_where_there_is_no_lock(target):
    if target.run_lock is not None:
        pytest.skip("it has a run lock")
    with target.running(), target.running():
        created(target, shape_of({"a": "integer"}))
