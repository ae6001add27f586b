"""``subscriber sql``: commands and queries from an argument or a file."""

from __future__ import annotations

import io

import pytest


def test_sql_runs_a_query_on_the_target(run, target):
    code, out, _ = run("sql", "--target", target, "-c", "SELECT 1 AS one, 'x' AS two")
    assert (code, out) == (0, " one | two \n-----+-----\n   1 | x\n(1 row)\n\n")


def test_sql_runs_a_file_and_names_the_line_that_failed(run, target, tmp_path):
    file = tmp_path / "commands.sql"
    file.write_text("SELECT 1;\n\nALTER SUBSCRIPTION s ENABLE;\n")
    code, out, err = run("sql", "--target", target, "-f", str(file))
    assert code == 1
    assert "(1 row)" in out
    assert 'subscription "s" does not exist' in err
    assert f"CONTEXT:  {file}:3" in err


def test_sql_reports_a_missing_file_in_one_sentence(run, target):
    code, _, err = run("sql", "--target", target, "-f", "/no/such/file.sql")
    assert code == 1
    assert err.startswith("ERROR:  /no/such/file.sql: No such file or directory")


def test_sql_refuses_a_file_that_is_not_a_text(run, target, tmp_path):
    (tmp_path / "dump.sql").write_bytes(b"SELECT 1 -- \xff")
    code, _, err = run("sql", "--target", target, "-f", str(tmp_path / "dump.sql"))
    assert code == 1
    assert 'ERROR:  invalid byte sequence for encoding "UTF8": 0xff' in err
    assert f"CONTEXT:  {tmp_path / 'dump.sql'}:1" in err


def test_an_error_in_a_command_is_shown_as_psql_shows_it(run, target):
    """With the place, and what the server says beside it."""
    code, _, err = run("sql", "--target", target, "-c", "CREATE PUBLICATION p FOR t")
    assert (code, err.splitlines()) == (
        1,
        [
            "ERROR:  invalid publication object list",
            "LINE 1: CREATE PUBLICATION p FOR t",
            "                                 ^",
            "DETAIL:  One of TABLE or TABLES IN SCHEMA must be specified before a standalone table or schema name.",
        ],
    )


def test_a_publications_command_needs_the_publisher(run, target):
    code, _, err = run("sql", "--target", target, "-c", "CREATE PUBLICATION p FOR ALL TABLES")
    assert code == 1
    assert err.splitlines() == [
        "ERROR:  the publisher of the publication's tables is not known",
        "DETAIL:  The target has no subscription.",
        "HINT:  Give the publisher's connection string with --publisher, or in SUBSCRIBER_PUBLISHER.",
    ]


def test_the_publisher_comes_from_the_option_or_the_environment(run, target, monkeypatch):
    """names_are_data: a connection string that cannot be read is not shown."""
    command = ("sql", "--target", target, "-c", "CREATE PUBLICATION p FOR ALL TABLES")
    monkeypatch.setenv("SUBSCRIBER_PUBLISHER", "host=/nowhere/at/all password=hush")
    for given in ((), ("--publisher", "host=/nowhere/else password=hush")):
        code, _, err = run(*command, *given)
        assert code == 1
        assert "could not connect to the publisher" in err
        assert ("/nowhere/else" if given else "/nowhere/at/all") in err
        assert "hush" not in err


def test_a_file_may_hold_backslash_commands_between_its_statements(run, target, tmp_path):
    file = tmp_path / "commands.sql"
    file.write_text("\\dRs\nSELECT 1 AS one;\n\\dRs it's\n")
    code, out, err = run("sql", "--target", target, "-f", str(file))
    assert (code, out.count("(0 rows)"), out.count("(1 row)")) == (1, 1, 1)
    assert err.splitlines()[0] == r"ERROR:  \dRs takes no argument"
    assert f"{file}:3" in err


@pytest.mark.parametrize("leave", ["\\q", "\\quit"])
def test_a_backslash_command_can_end_a_file(run, target, tmp_path, leave):
    """As psql's ``\\q`` ends a script."""
    file = tmp_path / "commands.sql"
    file.write_text(f"SELECT 1 AS one;\n{leave}\nSELECT * FROM no_such_table;\n")
    code, out, err = run("sql", "--target", target, "-f", str(file))
    assert (code, out.count("(1 row)"), err) == (0, 1, "")


def test_a_backslash_command_behind_a_statement_is_refused(run, target):
    code, out, err = run("sql", "--target", target, "-c", r"SELECT 1 \gx")
    assert (code, out) == (1, "")
    assert err.startswith("ERROR:  a backslash command after a statement is not supported")


def test_a_query_that_the_target_refuses_is_an_error_without_traceback(run, target):
    code, _, err = run("sql", "--target", target, "-c", "SELECT * FROM no_such_table")
    assert code == 1
    assert err.startswith("ERROR:  ")
    assert "Traceback" not in err


def test_dropping_an_unknown_subscription_fails_as_in_postgresql(run, target):
    code, _, err = run("sql", "--target", target, "-c", "DROP SUBSCRIPTION s")
    assert (code, err.splitlines()[0]) == (1, 'ERROR:  subscription "s" does not exist')
    code, out, err = run("sql", "--target", target, "-c", "DROP SUBSCRIPTION IF EXISTS s")
    assert (code, out, err) == (0, "DROP SUBSCRIPTION\n", 'NOTICE:  subscription "s" does not exist, skipping\n')


def test_a_command_and_a_file_exclude_each_other(run, target, tmp_path):
    ended = run("sql", "--target", target, "-c", "SELECT 1", "-f", str(tmp_path / "commands.sql"))
    assert ended.code == 2
    assert "-c and -f cannot be used together" in ended.err


@pytest.mark.parametrize("arguments", [(), ("-f", "-")], ids=["no option", "-f -"])
def test_without_a_terminal_statements_are_read_from_standard_input(run, target, monkeypatch, arguments):
    typed = b"SELECT 1 AS one;\nDROP SUBSCRIPTION s;\nSELECT 2 AS two;\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed)))
    ended = run("sql", "--target", target, *arguments)
    assert ended.code == 1
    assert ended.out == " one \n-----\n   1\n(1 row)\n\n", "the first error ends the run"
    assert "CONTEXT:  <stdin>:2" in ended.err


def test_standard_input_that_is_not_utf8_is_refused_before_anything_runs(run, target, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"SELECT 1;\nSELECT '\xe9';\n")))
    ended = run("sql", "--target", target)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[::3] == [
        'ERROR:  invalid byte sequence for encoding "UTF8": 0xe9 0x27 0x3b',
        "CONTEXT:  <stdin>:2",
    ]


def test_nothing_to_run_prints_nothing(run, target):
    assert run("sql", "--target", target, "-c", " -- a comment\n ;") == (0, "", "")
