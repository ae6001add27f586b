"""Commands under a guard: they end when they are told to. How they end with their process:
tests/conformance/test_servers.py.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
from collections.abc import Iterator

import pytest

from subscriber.testing.servers.processes import GuardedProcesses, free_port, server_user

PATIENCE = 60.0
SLEEP = ("sleep", "600")


@pytest.fixture
def processes() -> Iterator[GuardedProcesses]:
    opened = GuardedProcesses("test")
    yield opened
    opened.end((), PATIENCE)
    opened.close()


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_has_its_exit_code_and_its_output_in_the_log(processes, code):
    ended = processes.run(("/bin/sh", "-c", f"echo out; echo err >&2; exit {code}"), PATIENCE)
    assert ended == code
    assert processes.last_lines() == "out\nerr"
    assert processes.last_lines(1) == "err"


def test_a_command_has_nothing_to_read_and_no_settings_of_other_servers(processes, monkeypatch):
    for name in ("PGPORT", "MYSQL_HOST", "MARIADB_ROOT_PASSWORD"):
        monkeypatch.setenv(name, "somebody's")
    monkeypatch.setenv("OTHER", "kept")
    processes.run(("/bin/sh", "-c", "cat; env"), PATIENCE)
    environment = dict(line.split("=", 1) for line in processes.last_lines(1000).splitlines())
    assert not [name for name in environment if re.match("PG|MYSQL|MARIADB", name)]
    assert (environment["OTHER"], environment["LC_ALL"], environment["TZ"]) == ("kept", "C", "UTC")
    # mariadbd removes the temporary files of other servers from the folder that it shares.
    assert environment["TMPDIR"] == str(processes.directory)


def test_the_directory_belongs_to_the_servers_user_and_to_nobody_else(processes):
    folder = processes.directory.stat()
    user = processes.user
    assert stat.S_IMODE(folder.st_mode) == 0o700
    assert folder.st_uid == (os.geteuid() if user is None else user.uid)
    processes.close()
    assert not processes.directory.exists()


def test_servers_never_run_as_root():
    """PostgreSQL refuses it."""
    user = server_user()
    assert (user is None) == (os.geteuid() != 0)
    assert user is None or user.uid != 0


def test_a_signal_reaches_the_command(processes):
    assert not processes.is_running()
    processes.spawn(SLEEP)
    assert processes.is_running()
    with pytest.raises(subprocess.TimeoutExpired):
        processes.wait(0.01)
    processes.end(("SIGTERM",), PATIENCE)
    assert not processes.is_running()
    assert processes.wait(0.0) == 128 + 15
    processes.signal("SIGTERM")  # nothing is there to be told


def test_a_command_that_ignores_a_signal_is_killed(processes):
    processes.spawn(("/bin/sh", "-c", "trap '' TERM; echo ready; exec sleep 600"))
    while "ready" not in processes.last_lines():
        assert processes.is_running()
    processes.end(("SIGTERM",), 0.05)
    assert processes.wait(PATIENCE) == 128 + 9


def test_what_was_never_started_has_ended(processes):
    assert processes.wait(0.0) == 0


def test_a_free_port_can_be_listened_on():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
