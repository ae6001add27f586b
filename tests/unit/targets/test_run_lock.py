"""The run lock of a target that is a file.

tests/targets/test_run_lock.py tests the locks of all targets.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import subprocess
import sys

import pytest
import sqlalchemy as sa

from subscriber.base.errors import AlreadyRunning, TargetUnavailable
from subscriber.targets import open_target
from subscriber.targets.database_files import FileRunLock, _writers, holders, is_locked


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
    with FileRunLock(database).hold():
        assert (tmp_path / "t.db.subscriber-lock").read_text() == f"{os.getpid()}\n"
        assert is_locked(database) is True
    assert is_locked(database) is False


def test_a_second_runner_is_refused(tmp_path):
    database = str(tmp_path / "t.db")
    with FileRunLock(database).hold(), pytest.raises(AlreadyRunning) as raised, FileRunLock(database).hold():
        pass
    assert raised.value.message == f'another "subscriber run" is already running for {database}'


def test_a_lock_file_that_cannot_be_opened_makes_the_target_unavailable(tmp_path):
    with pytest.raises(TargetUnavailable) as raised, FileRunLock(str(tmp_path / "missing" / "t.db")).hold():
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


# The processes that hold a lock on a file, as the kernel lists them.


LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, {kind})
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("1: POSIX  ADVISORY  WRITE 4711 08:01:1234 0 EOF", [(4711, (os.makedev(8, 1), 1234))]),
        ("2: OFDLCK ADVISORY  WRITE 12 fe:1f:7 100 200", [(12, (os.makedev(0xFE, 0x1F), 7))]),
        ("3: POSIX  ADVISORY  READ 4711 08:01:1234 0 EOF", []),
        ("1: -> POSIX  ADVISORY  WRITE 4711 08:01:1234 0 EOF", []),
        ("4: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF", []),
        ("", []),
    ],
    ids=["posix", "open file description", "read", "waits", "flock", "empty"],
)
def test_a_line_of_the_kernels_list_tells_who_writes_which_file(line, found):
    """https://man7.org/linux/man-pages/man5/proc_locks.5.html"""
    assert list(_writers(line)) == found


@pytest.mark.parametrize(("kind", "held"), [("fcntl.LOCK_EX", True), ("fcntl.LOCK_SH", False)])
@pytest.mark.parametrize("suffix", ["", "-shm"], ids=["database", "shared memory"])
def test_another_process_that_may_write_is_named(tmp_path, kind, held, suffix):
    for name in ("t.db", "t.db-shm"):
        (tmp_path / name).touch()
    command = [sys.executable, "-c", LOCK.format(kind=kind), str(tmp_path / f"t.db{suffix}")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        found = holders(str(tmp_path / "t.db"))
        other.communicate()
    assert [text.partition(" (")[0] for text in found] == ([f"process {other.pid}"] if held else [])


def test_the_own_process_and_a_missing_file_are_nobodys(tmp_path):
    assert holders(str(tmp_path / "missing.db")) == []
    with (tmp_path / "t.db").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert holders(str(tmp_path / "t.db")) == []
