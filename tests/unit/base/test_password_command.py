"""subscriber.base.password_command: what a program prints is the password, and it is shown
nowhere.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from subscriber.base import password_command
from subscriber.base.errors import PublisherUnavailable
from tests.waits import wait_until

SERVER = {"host": "h", "user": "u", "port": None, "sslmode": "require"}


@pytest.fixture
def password(monkeypatch):
    """The password that a command gives."""

    def ask(command: str) -> str | None:
        monkeypatch.setenv("SUBSCRIBER_PASSWORD_COMMAND", command)
        return password_command.command_password(SERVER, PublisherUnavailable)

    return ask


@pytest.fixture
def refused(password):
    """The error of a command that gives no password."""

    def ask(command: str) -> PublisherUnavailable:
        with pytest.raises(PublisherUnavailable) as caught:
            password(command)
        return caught.value

    return ask


@pytest.mark.parametrize(
    ("printed", "meant"),
    [
        ("secret", "secret"),
        (r"secret\n", "secret"),
        (r"secret\r\n", "secret"),
        (r"two words \n\n", "two words \n"),
        (r"it\047s \134 \303\244", "it's \\ ä"),
    ],
)
def test_the_output_without_the_newline_at_its_end_is_the_password(printed, meant, password):
    assert password(f"printf '{printed}'") == meant


def test_the_program_has_the_environment_of_the_process_and_the_server(password, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-central-2")
    monkeypatch.delenv("PGPORT", raising=False)
    assert password('echo "$AWS_REGION $PGHOST $PGUSER ${PGPORT-none}"') == "eu-central-2 h u none"


def test_a_program_that_prints_nothing_leaves_the_password_to_libpq(password):
    """It does not know this server, which may have a password file."""
    assert password('case "$PGHOST" in other) echo secret ;; esac') is None
    assert password('case "$PGHOST" in h) echo secret ;; esac') == "secret"
    assert password("  ") is None


@pytest.mark.parametrize(
    ("command", "failure"),
    [
        ("echo s3cret; echo s3cret >&2; exit 3", "the program exited with exit code 3"),
        ("no-such-program-s3cret", "the program exited with exit code 127"),
        ("echo s3cret; kill -9 $$", "the program was terminated by signal 9"),
        (r"printf 's3cret\377'", "the output of the program is not UTF-8"),
        (r"printf 's3cret\000'", "the output of the program has a zero byte"),
    ],
)
def test_a_failure_is_transient_and_shows_nothing_of_command_and_output(command, failure, refused, capfd):
    error = refused(command)
    assert error.transient
    assert error.message == f'could not get a password by "SUBSCRIBER_PASSWORD_COMMAND": {failure}'
    assert "PGHOST, PGUSER in the environment" in str(error.hint)
    assert "s3cret" not in error.report()
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    assert capfd.readouterr() == ("", "")


def test_a_program_that_hangs_is_ended_with_its_children(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(password_command, "PASSWORD_SECONDS", 0.2)
    error = refused(f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    assert error.message.endswith("the program did not end within 0.2 s")
    assert error.transient
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not running(child))


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "(sleep) Z" not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
