"""The run lock of a target that is a file.

tests/targets/test_run_lock.py tests the locks of all targets.
"""

from __future__ import annotations

import multiprocessing
import os

import pytest
import sqlalchemy as sa

from subscriber.errors import AlreadyRunning, TargetUnavailable
from subscriber.targets import open_target
from subscriber.targets.run_lock import FileRunLock, is_locked, locked_file


def _hold(url: str, ready, hold) -> None:
    with open_target(url).running():
        ready.set()
        hold.wait()


def test_the_lock_ends_with_its_process(target):
    """any_crash: a killed runner does not lock out the next one"""
    context = multiprocessing.get_context("spawn")
    ready, hold = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(str(target.url), ready, hold))
    process.start()
    assert ready.wait(30)
    with pytest.raises(AlreadyRunning), target.running():
        pass
    process.kill()
    process.join()
    with target.running():
        pass


def test_the_lock_file_has_the_process_that_holds_the_lock(tmp_path):
    database = str(tmp_path / "t.db")
    assert is_locked(database) is False
    with locked_file(database):
        assert (tmp_path / "t.db.subscriber-lock").read_text() == f"{os.getpid()}\n"
        assert is_locked(database) is True
    assert is_locked(database) is False


def test_a_second_runner_is_refused(tmp_path):
    database = str(tmp_path / "t.db")
    with locked_file(database), pytest.raises(AlreadyRunning) as raised, locked_file(database):
        pass
    assert raised.value.message == f'another "subscriber run" is already running for {database}'


def test_a_lock_file_that_cannot_be_opened_makes_the_target_unavailable(tmp_path):
    with pytest.raises(TargetUnavailable) as raised, locked_file(str(tmp_path / "missing" / "t.db")):
        pass
    assert raised.value.hint == f"There is no folder {tmp_path / 'missing'}."


def test_a_lock_file_that_cannot_be_read_does_not_tell_whether_it_is_locked(tmp_path):
    (tmp_path / "t.db.subscriber-lock").mkdir()
    assert is_locked(str(tmp_path / "t.db")) is None


def test_the_role_locks_the_file_of_the_target(tmp_path):
    database = str(tmp_path / "t.db")
    engine = sa.create_engine("sqlite://")
    with FileRunLock(database).hold(), engine.connect() as connection:
        assert FileRunLock(database).is_held(connection) is True
    engine.dispose()
