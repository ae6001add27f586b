"""The prompt, without a terminal: keys come through a pipe, and nothing is drawn."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from subscriber.base.errors import UsageError
from subscriber.cli.prompt import (
    converse,
    history_file,
    is_finished,
    is_leaving,
    open_history,
    open_session,
    prompt_after,
    prompt_name,
)
from subscriber.targets import open_target

INTERRUPT, END = "\x03", "\x04"


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'shop.db'}") as opened:
        yield opened


@contextmanager
def prompt(target, history=None):
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield open_session(target, history or InMemoryHistory()), keys


def conversation(target, typed, run=None, history=None):
    """What was run of what was typed."""
    statements: list[str] = []

    def answer(statement):
        typed = statement.sql or statement.command
        statements.append(typed)
        return f"ran {len(statements)}" if run is None else run(typed)

    with prompt(target, history) as (session, keys):
        keys.send_bytes(typed.encode(errors="surrogateescape"))
        converse(session, answer)
    return statements


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "SELECT 1;",
        "SELECT 1; SELECT ';' ;",
        r"\dRs",
        r"\q",
        "quit",
        " EXIT ; ",
        "help",
        "SELECT 1\n\\q",
        "-- x",
    ],
)
def test_enter_sends_a_complete_statement(text):
    assert is_finished(text)


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SELECT 1; SELECT", "SELECT ';", "SELECT (1;", "quit now", "SELECT 'a\n\\q", "/* ;", "$$ ;"]
)
def test_enter_begins_a_new_line_in_an_incomplete_statement(text):
    assert not is_finished(text)


def test_a_backslash_command_in_a_string_does_not_end_the_prompt():
    assert is_leaving("SELECT 1\n  \\q ")
    assert not is_leaving("SELECT '\n\\q")
    assert not is_leaving("SELECT 1\nquit")


def test_statements_run_in_order_and_several_on_a_line(target, capsys):
    typed = "SELECT 1; SELECT\r2;\r\\dRs\r" + END
    assert conversation(target, typed) == ["SELECT 1;", "SELECT\n2;", r"\dRs"]
    assert capsys.readouterr().out.splitlines()[3:] == ["ran 1", "ran 2", "ran 3", r"\q"]


@pytest.mark.parametrize("leave", ["\\q\r", "quit\r", "exit;\r", "SELECT\r\\q\r", "SELECT\r" + END])
def test_each_of_psqls_commands_ends_the_prompt(target, leave):
    assert conversation(target, leave) == []


def test_an_error_is_printed_and_the_next_statement_runs(target, capsys):
    def run(statement):
        if "bad" in statement:
            raise UsageError("it is bad", hint="Make it good.")
        return "good"

    assert conversation(target, "bad; SELECT 1;\r" + END, run) == ["bad;", "SELECT 1;"]
    captured = capsys.readouterr()
    assert captured.err == "ERROR:  it is bad\nHINT:  Make it good.\n"
    assert "good\n" in captured.out


def test_a_pasted_backslash_command_does_not_send_the_incomplete_statement_after_it():
    assert not is_finished("\\dRs\nSELECT 'x")


def test_control_c_clears_the_input(target):
    assert conversation(target, f"SELECT 'oops\r{INTERRUPT}SELECT 2;\r{END}") == ["SELECT 2;"]


def test_control_c_cancels_the_running_line_and_does_not_end_the_prompt(target, capsys):
    def run(statement):
        if "slow" in statement:
            raise KeyboardInterrupt
        return ""

    assert conversation(target, f"slow; SELECT 1;\rSELECT 2;\r{END}", run) == ["slow;", "SELECT 2;"]
    assert capsys.readouterr().err == "ERROR:  canceling statement due to user request\n"


def test_a_statement_of_several_lines_is_one_entry_of_the_history(target):
    history = InMemoryHistory()
    conversation(target, f"SELECT\r1;\r{END}", history=history)
    assert history.get_strings() == ["SELECT\n1;"]


def test_help_prints_the_text_of_psql(target, capsys):
    assert conversation(target, "help\r" + END) == []
    assert r"\h for help with SQL commands" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "prompt"),
    [("", "d=> "), ("SELECT (\n'a", "d'> "), ("SELECT (\n'a\n';", "d(> "), ("SELECT 1; SELECT", "d-> "), ('"', 'd"> ')],
)
def test_the_prompt_of_the_next_line_shows_what_is_open(lines, prompt):
    assert prompt_after("d", lines) == prompt


def test_the_prompt_names_the_target_and_no_password():
    with open_target("postgresql://me:hush@h/shop") as postgresql:
        assert prompt_name(postgresql) == "shop"
    with open_target("sqlite:////var/lib/shop/shop.db") as sqlite:
        assert prompt_name(sqlite) == "shop.db"
    url = SimpleNamespace(database=None, get_backend_name=lambda: "duckdb")
    assert prompt_name(SimpleNamespace(url=url)) == "duckdb"  # type: ignore[arg-type]  # all that it looks at


def test_tab_completes_keywords_options_and_subscriptions(target):
    from subscriber.catalog.catalog_upgrade import ensure_catalog
    from subscriber.catalog.subscription_options import SubscriptionOptions
    from subscriber.catalog.subscriptions import insert_subscription

    def completed(text):
        with prompt(target) as (session, _):
            found = session.completer.get_completions(Document(text), CompleteEvent())
            return [completion.text for completion in found]

    assert completed("alter subscript") == ["SUBSCRIPTION"]
    assert completed("WITH (two") == ["two_phase"]
    assert completed("DROP SUBSCRIPTION orders") == []
    ensure_catalog(target.engine)
    with target.begin() as connection:
        insert_subscription(connection, "orders_2026", "dbname=d", ["p"], SubscriptionOptions())
    assert completed("DROP SUBSCRIPTION orders") == ["orders_2026"]


def test_a_byte_that_is_not_utf8_is_an_error_and_the_prompt_continues(target, tmp_path, capsys):
    history = open_history(tmp_path / "history")
    assert conversation(target, "SELECT '\udce9';\rSELECT 1;\r\\q\r", history=history) == ["SELECT 1;"]
    said = capsys.readouterr().err
    assert said == 'ERROR:  invalid byte sequence for encoding "UTF8": 0xe9 0x27 0x3b (byte 9)\n'


def test_the_file_belongs_to_its_owner_and_gets_no_password_while_the_prompt_recalls_what_was_typed(tmp_path):
    file = tmp_path / "state" / "sql_history"
    typed = "CREATE SUBSCRIPTION s\n  CONNECTION 'host=h password=hush'\n  PUBLICATION p;"
    history = open_history(file)
    history.append_string(typed)
    assert history.get_strings() == [typed]
    assert file.stat().st_mode & 0o777 == 0o600
    assert "hush" not in file.read_text()
    assert list(open_history(file).load_history_strings()) == [typed.replace(" password=hush", "")]


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path):
    file = tmp_path / "sql_history"
    file.touch(mode=0o644)
    open_history(file)
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_a_place_for_the_file_the_history_lasts_as_long_as_the_prompt(tmp_path):
    (tmp_path / "file").touch()
    history = open_history(tmp_path / "file" / "sql_history")
    history.append_string("SELECT 1;")
    assert history.get_strings() == ["SELECT 1;"]


def test_a_file_that_cannot_be_written_any_more_does_not_stop_the_prompt(tmp_path):
    file = tmp_path / "folder" / "sql_history"
    history = open_history(file)
    file.unlink()
    os.rmdir(file.parent)
    history.append_string("SELECT 1;")
    assert history.get_strings() == ["SELECT 1;"]


@pytest.mark.parametrize(
    ("environment", "platform", "place"),
    [
        ({"HOME": "/home/ann"}, "linux", "/home/ann/.local/state"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "/state"}, "linux", "/state"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "relative"}, "linux", "/home/ann/.local/state"),
        ({"HOME": "/Users/ann", "XDG_STATE_HOME": "/state"}, "darwin", "/Users/ann/Library/Application Support"),
    ],
)
def test_the_file_is_in_the_users_state_folder(environment, platform, place):
    assert history_file(environment, platform) == Path(place) / "subscriber" / "sql_history"
