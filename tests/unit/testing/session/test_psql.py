"""A psql session without a server: backslash commands, and a server that does not answer. With a
server, and beside psql itself: tests/conformance/test_psql.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from subscriber.base.errors import NotSupportedError, SQLSyntaxError, StatementTimeout, UsageError
from subscriber.testing.session.psql import PsqlSession
from tests.subscriptions import NOWHERE

PATIENCE = 20.0


def psql(folder: Path, script: str) -> Path:
    """A program that stands for psql."""
    program = folder / "psql"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def nowhere() -> PsqlSession:
    """A session with a server that does not answer, and without a psql program."""
    return PsqlSession(NOWHERE, None, PATIENCE)


def test_every_statement_prints_that_the_server_does_not_answer(nowhere):
    printed = nowhere.run("SELECT 1; SELECT 2;")
    assert printed.count("Connection refused") == 2
    assert not nowhere.in_transaction
    assert not nowhere.transaction_failed
    assert nowhere.error is None


def test_a_session_that_was_never_used_can_be_closed(nowhere):
    nowhere.close()
    nowhere.close()


def test_nothing_runs_of_a_text_that_does_not_end(nowhere):
    """Otherwise it would be printed that the server does not answer."""
    with pytest.raises(SQLSyntaxError):
        nowhere.run("SELECT 1; SELECT 'open")


def test_a_backslash_command_needs_a_psql_program(nowhere):
    with pytest.raises(UsageError, match=r"psql is needed for \\d"):
        nowhere.run(r"\d t")


@pytest.mark.parametrize("command", [r"\! touch /tmp/x", r"\copy t from x", r"\c other"])
def test_a_backslash_command_that_does_more_than_describe_is_refused(nowhere, command):
    with pytest.raises(NotSupportedError, match="is not supported"):
        nowhere.run(command)


def test_what_psql_prints_is_printed_with_its_errors(tmp_path):
    program = psql(tmp_path, "echo printed; echo 'an error' >&2; exit 1")
    assert PsqlSession(NOWHERE, lambda: program, PATIENCE).run(r"\d t") == "printed\nan error"


def test_psql_reads_no_settings_of_the_user_and_prints_english(tmp_path):
    program = psql(tmp_path, 'echo "$*"; echo "$LC_ALL $PGCLIENTENCODING"')
    arguments, environment = PsqlSession(NOWHERE, lambda: program, PATIENCE).run(r"\d t").splitlines()
    assert arguments.startswith("-X -P pager=off -d ")
    assert environment == "C UTF8"


def test_no_password_is_on_psqls_command_line(tmp_path):
    """Invariant names_are_data."""
    program = psql(tmp_path, 'echo "$*"; echo "and $PGPASSWORD"')
    opened = PsqlSession("host=h dbname=d password='se cret'", lambda: program, PATIENCE)
    printed = opened.run(r"\d t")
    command_line, environment = printed.splitlines()
    assert command_line.endswith(r"-c \d t")
    assert "cret" not in command_line
    assert environment == "and se cret"


def test_a_psql_that_does_not_end_is_ended(tmp_path):
    program = psql(tmp_path, "exec sleep 600")
    opened = PsqlSession(NOWHERE, lambda: program, 0.05)
    with pytest.raises(StatementTimeout, match=r'psql in database "nowhere" did not end within 0\.05 s: \\d t'):
        opened.run(r"\d t")
