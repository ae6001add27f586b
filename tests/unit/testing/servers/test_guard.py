"""The guard of a server: a command under it ends with the process that asked for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from subscriber.testing.servers.processes import GUARD
from tests.waits import PATIENCE, wait_until

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def guard(tmp_path) -> Iterator[Start]:
    """A function that starts a command under a guard, whose log is the file ``log``."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", str(GUARD), f"--log={tmp_path / 'log'}", *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE)


def wait_for_output(log: Path, text: str = "ready") -> None:
    wait_until(lambda: log.exists() and text in log.read_text())


def send(process: subprocess.Popen[bytes], name: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{name}\n".encode())
    process.stdin.flush()


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 128 + 9)])
def test_the_exit_code_is_the_commands(guard, script, code):
    assert guard("--", "/bin/sh", "-c", script).wait(PATIENCE) == code


def test_output_is_added_to_the_log(guard, tmp_path):
    (tmp_path / "log").write_text("before\n")
    guard("--", "/bin/sh", "-c", "echo out; echo err >&2").wait(PATIENCE)
    assert (tmp_path / "log").read_text() == "before\nout\nerr\n"


def test_a_request_on_standard_input_is_a_signal(guard, tmp_path):
    running = guard("--", "/bin/sh", "-c", "trap 'exit 3' USR1; echo ready; while :; do sleep 0.01; done")
    wait_for_output(tmp_path / "log")
    send(running, "SIGUSR1")
    assert running.wait(PATIENCE) == 3


@pytest.mark.parametrize(("stop", "code"), [("SIGTERM", 128 + 15), ("SIGQUIT", 128 + 3)])
def test_the_end_of_the_asker_stops_the_command_and_removes_the_directory(guard, tmp_path, stop, code):
    """The asker's end of the pipe is closed when the asker ends, whatever ends it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    running = guard(f"--stop={stop}", f"--remove={folder}", "--", "/bin/sh", "-c", "echo ready; exec sleep 600")
    wait_for_output(tmp_path / "log")
    running.stdin.close()
    assert running.wait(PATIENCE) == code
    assert not folder.exists()


def test_a_command_that_ends_by_itself_leaves_the_directory(guard, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    guard(f"--remove={folder}", "--", "/bin/sh", "-c", "exit 0").wait(PATIENCE)
    assert folder.exists()


def test_a_signal_to_the_guard_stops_the_command_in_its_own_way(guard, tmp_path):
    """PostgreSQL's fast shutdown is SIGINT, whatever ends the guard."""
    script = "trap 'exit 4' INT; trap 'echo heard' USR1; echo ready; while :; do sleep 0.01; done"
    running = guard("--stop=SIGINT", "--", "/bin/sh", "-c", script)
    wait_for_output(tmp_path / "log")
    send(running, "SIGUSR1")
    wait_for_output(tmp_path / "log", "heard")  # from then on the guard listens
    running.terminate()
    assert running.wait(PATIENCE) == 4
