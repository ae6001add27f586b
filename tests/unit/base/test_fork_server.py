"""A process that the server forks is the one that the client would have been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.base import fork_client
from subscriber.spark.python_workers import MODULES
from subscriber.worker import RECEIVER_MODULE
from tests.waits import PATIENCE, wait_until

PROGRAM = """
import json, os, sys, time
if __name__ == "__main__":
    if sys.argv[2:] == ["announced"]:
        print("begun", flush=True)
    print(json.dumps([sys.argv[1:], os.environ["WHO"], os.getcwd(), sys.stdin.read(), os.getppid()]), flush=True)
    print("an error", file=sys.stderr)
    if sys.argv[1] == "sleep":
        time.sleep(600)
    if sys.argv[1] == "fail":
        raise ZeroDivisionError
    sys.exit(int(sys.argv[1]))
"""


class Server:
    """A fork server that has imported the module ``program``."""

    def __init__(self, folder: Path) -> None:
        (folder / "program.py").write_text(PROGRAM)
        self.address = folder / "socket"
        self._environment = {**os.environ, "PYTHONPATH": f"{folder}:{Path(__file__).parents[3]}"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "subscriber.base.fork_server", str(self.address), "json", "program"],
            stdin=subprocess.PIPE,
            env=self._environment,
        )

    def await_start(self) -> None:
        """Wait until it accepts connections."""
        wait_until(self.address.exists)

    def start(self, *arguments: str, folder: Path) -> subprocess.Popen[str]:
        """Start a client."""
        return subprocess.Popen(
            [sys.executable, "-I", "-S", fork_client.__file__, str(self.address), "-m", "program", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self._environment, "WHO": "the client"},
            cwd=folder,
            text=True,
        )


@pytest.fixture
def server(tmp_path) -> Iterator[Server]:
    opened = Server(tmp_path)
    yield opened
    assert opened.process.stdin is not None
    opened.process.stdin.close()
    assert opened.process.wait(PATIENCE) == 0, "it ends with its standard input"


@pytest.mark.parametrize("code", [0, 3])
def test_it_has_the_client_s_arguments_environment_folder_streams_and_exit_code(server, tmp_path, code):
    server.await_start()
    client = server.start(str(code), "an argument", folder=tmp_path)
    printed, errors = client.communicate("the input")
    arguments, who, folder, read, parent = json.loads(printed)
    assert (arguments, who, read) == ([str(code), "an argument"], "the client", "the input")
    assert os.path.samefile(folder, tmp_path)
    assert parent == server.process.pid, "it is a fork of the server"
    assert errors == "an error\n"
    assert client.returncode == code


def test_an_error_is_shown_where_the_client_would_show_it(server, tmp_path):
    server.await_start()
    client = server.start("fail", folder=tmp_path)
    _, errors = client.communicate("")
    assert "ZeroDivisionError" in errors
    assert client.returncode == 1


def test_a_signal_that_ends_the_client_ends_the_process(server, tmp_path):
    server.await_start()
    client = server.start("sleep", folder=tmp_path)
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.close()
    client.stdout.readline()
    pid = next(child for child in children(server.process.pid))
    client.send_signal(signal.SIGTERM)
    assert client.wait(PATIENCE) == 128 + signal.SIGTERM
    wait_until(lambda: pid not in children(server.process.pid))
    client.stdout.close()
    assert client.stderr is not None
    client.stderr.close()


def test_a_process_whose_client_was_killed_ends_as_usual(server, tmp_path):
    server.await_start()
    client = server.start("0", "announced", folder=tmp_path)
    assert client.stdout is not None
    assert client.stdout.readline() == "begun\n"
    client.kill()
    client.wait(PATIENCE)
    printed, errors = client.communicate("")
    assert json.loads(printed)[0] == ["0", "announced"]
    assert errors == "an error\n"
    wait_until(lambda: not children(server.process.pid))


def test_without_a_server_the_client_is_the_process(server, tmp_path):
    server.address = tmp_path / "no server"
    client = server.start("4", folder=tmp_path)
    printed, _ = client.communicate("")
    assert json.loads(printed)[0] == ["4"]
    assert client.returncode == 4
    assert json.loads(printed)[-1] == os.getpid()


def children(pid: int) -> list[int]:
    """The processes that a process has forked."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in found.split()]


IMPORTED = """
import os, sys
from subscriber.base import fork_server

def serve(_listener, *, wait=True):
    if not wait:
        return True
    print(*sorted(open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")))
    print(all(name in sys.modules for name in sys.argv[2:]), "pandas" in sys.modules)

fork_server.serve = serve
fork_server.main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads are listed so")
def test_the_modules_are_imported_and_no_thread_is_started_that_a_fork_would_lose(tmp_path):
    """The allocator of Arrow has a thread, without which it works in the new process."""
    command = [sys.executable, "-c", IMPORTED, str(tmp_path / "socket"), RECEIVER_MODULE, *MODULES]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    threads, imported = printed.splitlines()
    assert [name for name in threads.split() if name != "jemalloc_bg_thd"] == [threads.split()[-1]]
    assert imported == "True False"
