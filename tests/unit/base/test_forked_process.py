"""A forked process is used as one of subprocess, and no call of its caller waits for the server."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.base.forked_process import ForkedProcess, fork_server
from tests.waits import PATIENCE, wait_until

PROGRAM = """
import os, sys
if __name__ == "__main__":
    sys.stdin.readline()
    print(os.environ["WHO"], flush=True)
    sys.exit(int(sys.stdin.readline() or 7))
"""
SLOW = """
import os, time
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.01)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the modules ``program``, and ``slow``, which waits until there is a file."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[3]}")
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    return tmp_path


def started(address: Path, *, who: str = "it") -> ForkedProcess:
    return ForkedProcess(address, "program", {**os.environ, "WHO": who})


@pytest.fixture
def address(folder) -> Iterator[Path]:
    with fork_server(folder / "socket", folder / "log", ["program"]) as address:
        assert address is not None
        wait_until(address.exists)
        yield address


def close(process: ForkedProcess) -> None:
    process.stdin.close()
    process.stdout.close()


def test_it_has_the_streams_the_environment_and_the_exit_code_of_a_child(address):
    processes = [started(address, who=f"child {number}") for number in range(3)]
    for number, process in enumerate(processes):
        assert process.poll() is None
        process.stdin.write("begin\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"child {number}\n"
        process.poll()
        assert process.pid is not None
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        assert process.wait(PATIENCE) == number
        close(process)


def test_the_end_of_its_input_ends_it_while_another_one_runs(address):
    """The other one must not have a copy of the pipe."""
    first, second = started(address), started(address)
    first.stdin.close()
    assert first.wait(PATIENCE) == 7
    assert second.poll() is None
    second.stdin.close()
    assert second.wait(PATIENCE) == 7
    first.stdout.close()
    second.stdout.close()


def test_one_that_was_killed_says_so_and_can_be_waited_for_again(address):
    process = started(address)
    wait_until(lambda: process.poll() is None and process.pid is not None)
    process.kill()
    assert process.wait(PATIENCE) == -signal.SIGKILL
    process.kill()
    assert (process.poll(), process.wait()) == (-9, -9)
    close(process)


def test_a_wait_that_is_too_long_ends(address):
    process = started(address)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.stdin.close()
    process.wait(PATIENCE)
    process.stdout.close()


def test_nothing_waits_for_a_server_that_imports_and_one_that_is_killed_before_never_begins(folder):
    with fork_server(folder / "socket", folder / "log", ["slow", "program"]) as address:
        assert address is not None
        wait_until(address.exists)
        process, killed = started(address), started(address)
        assert (process.poll(), process.pid) == (None, None)
        killed.kill()
        assert (killed.poll(), killed.pid) == (-9, None)
        (folder / "go").touch()
        wait_until(lambda: process.poll() is None and process.pid is not None)
        process.stdin.close()
        assert process.wait(PATIENCE) == 7
        assert killed.stdout.read() == ""
        killed.stdin.close()
        killed.stdout.close()
        process.stdout.close()


def test_without_a_server_that_is_said_and_no_pipe_is_left_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        started(tmp_path / "socket")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_server_that_has_ended_before_it_took_the_request_has_killed_the_process(folder):
    with fork_server(folder / "socket", folder / "log", ["slow"]) as address:
        assert address is not None
        wait_until(address.exists)
        process = started(address)
        (folder / "go").touch()
    assert process.wait(PATIENCE) in (-9, 7)
    close(process)


@pytest.mark.parametrize(("name", "modules"), [("x" * 100, ["json"]), ("socket", [])])
def test_there_is_no_server_without_a_use_or_where_the_path_is_too_long(tmp_path, name, modules):
    with fork_server(tmp_path / name, tmp_path / "log", modules) as address:
        assert address is None
