"""A process says that it waits for the file, and the run sees that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from subscriber.targets.duckdb.connection import said_to_wait, somebody_waits


@pytest.fixture
def database(tmp_path) -> str:
    return str(tmp_path / "t.duckdb")


def test_somebody_waits_exactly_while_it_is_said(database):
    assert not somebody_waits(database)
    with said_to_wait(database):
        assert somebody_waits(database)
    assert not somebody_waits(database)


def test_nothing_is_left_behind(database):
    with said_to_wait(database):
        assert os.listdir(Path(database).parent) == ["t.duckdb.waiting"]
    assert os.listdir(Path(database).parent) == []


def test_each_of_several_waits_until_it_has_ended(database):
    with said_to_wait(database):
        with said_to_wait(database):
            assert somebody_waits(database)
        assert somebody_waits(database)
    assert not somebody_waits(database)


def test_a_process_that_was_killed_does_not_wait_any_more(database):
    command = (
        "import sys, time; from subscriber.targets.duckdb.connection import said_to_wait\n"
        "with said_to_wait(sys.argv[1]):\n    print(1, flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", command, database], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert somebody_waits(database)
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert not somebody_waits(database)
    assert os.listdir(Path(database).parent) == [], "the run removes what it has left"


def test_a_file_that_was_removed_before_it_was_locked_is_made_again(database, monkeypatch):
    """Otherwise the run would not see the process that has locked a file without a name."""
    import fcntl

    flock, path = fcntl.flock, Path(f"{database}.waiting")

    def remove_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with said_to_wait(database):
        assert path.exists()
        assert somebody_waits(database)


def test_a_process_that_may_not_say_so_waits_all_the_same(tmp_path):
    with said_to_wait(str(tmp_path / "missing" / "t.duckdb")):
        assert not somebody_waits(str(tmp_path / "missing" / "t.duckdb"))
