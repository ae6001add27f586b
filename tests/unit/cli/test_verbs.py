"""The verbs that need no server: help, usage errors, queries, an empty journal, and what is
refused.
"""

from __future__ import annotations

import json
import signal
import sys

import pytest

from subscriber.cli import VERBS, main
from subscriber.cli.run import stop_on_signals, warn_of_open_journals
from subscriber.journal.retention import list_consumers
from subscriber.journal.storage import LocalStorage
from subscriber.protocol import messages as m
from subscriber.settings import Settings
from tests.frames import relation, transaction, values
from tests.journals import consumer, passed
from tests.streams import receive

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line; gives exit code, output, error output."""

    def run_cli(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["subscriber", *arguments])
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_cli


@pytest.fixture
def target(tmp_path):
    return f"sqlite:///{tmp_path / 'target.db'}"


def test_help_lists_the_verbs(run):
    code, out, _ = run("--help")
    assert code == 0
    assert [verb for verb in ("demo", "journal", "run", "sql", "status") if verb not in out] == []


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_exists_and_has_help(run, verb):
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert f"Usage: subscriber {verb}" in out


@pytest.mark.parametrize(
    "arguments",
    [("rnu",), ("run", "--onec"), ("sql", "--traget", "x"), ("status", "--target"), ("journal", "sl"), ("sql", "-c")],
    ids=" ".join,
)
def test_a_typo_is_a_usage_error_with_exit_code_2_and_no_traceback(run, arguments):
    code, _, err = run(*arguments)
    assert code == 2
    assert "Error" in err
    assert "Traceback" not in err


def test_a_missing_target_is_named_with_its_variable(run, monkeypatch):
    monkeypatch.delenv("SUBSCRIBER_TARGET", raising=False)
    code, _, err = run("status")
    assert code == 2
    assert "--target" in err
    assert "SUBSCRIBER_TARGET" in err


def test_sql_runs_a_query_on_the_target(run, target):
    code, out, _ = run("sql", "--target", target, "-c", "SELECT 1 AS one, 'x' AS two")
    assert (code, out) == (0, " one | two \n-----+-----\n   1 | x\n(1 row)\n\n")


def test_sql_takes_a_file_and_says_which_line_failed(run, target, tmp_path):
    file = tmp_path / "commands.sql"
    file.write_text("SELECT 1;\n\nALTER SUBSCRIPTION s ENABLE;\n")
    code, out, err = run("sql", "--target", target, "-f", str(file))
    assert code == 1
    assert "(1 row)" in out
    assert 'subscription "s" does not exist' in err
    assert f"CONTEXT:  {file}:3" in err


def test_sql_with_a_missing_file_says_so_in_one_sentence(run, target):
    code, _, err = run("sql", "--target", target, "-f", "/no/such/file.sql")
    assert code == 1
    assert err.startswith("ERROR:  /no/such/file.sql: No such file or directory")


def test_sql_with_a_file_that_is_no_text_says_so(run, target, tmp_path):
    (tmp_path / "dump.sql").write_bytes(b"SELECT 1 -- \xff")
    code, _, err = run("sql", "--target", target, "-f", str(tmp_path / "dump.sql"))
    assert code == 1
    assert "byte 12 is not valid UTF-8" in err


def test_the_demo_s_folder_may_not_be_a_file(run, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = run("demo", "--folder", str(tmp_path / "file"))
    assert code == 1
    assert "--folder needs a folder" in err


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


def test_a_publication_needs_a_publisher_whose_tables_it_is_about(run, target):
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


def test_sql_lists_subscriptions_as_psql_does(run, target):
    code, out, _ = run("sql", "--target", target, "-c", r"\dRs")
    assert (code, out) == (
        0,
        "    List of subscriptions\n Name | Enabled | Publication \n------+---------+-------------\n(0 rows)\n\n",
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (r"\dt", r"invalid command \dt"),
        (r"\dRs x", r"\dRs takes no argument"),
        (r"\dRp x y", r"\dRp takes one argument"),
        (r"\dRp a.b", "improper qualified name (too many dotted names): a.b"),
    ],
)
def test_a_backslash_command_that_is_none_is_refused(run, target, typed, said):
    code, _, err = run("sql", "--target", target, "-c", typed)
    assert (code, err.splitlines()[0]) == (1, f"ERROR:  {said}")


def test_a_file_may_hold_backslash_commands_between_its_statements(run, target, tmp_path):
    file = tmp_path / "commands.sql"
    file.write_text("\\dRs\nSELECT 1 AS one;\n\\dRs it's\n")
    code, out, err = run("sql", "--target", target, "-f", str(file))
    assert (code, out.count("(0 rows)"), out.count("(1 row)")) == (1, 1, 1)
    assert err.splitlines()[0] == r"ERROR:  \dRs takes no argument"
    assert f"{file}:3" in err


def test_a_backslash_command_behind_a_statement_is_refused(run, target):
    code, out, err = run("sql", "--target", target, "-c", r"SELECT 1 \gx")
    assert (code, out) == (1, "")
    assert err.startswith("ERROR:  a backslash command after a statement is not supported")


def test_every_backslash_command_is_in_the_help(run, target):
    _, out, _ = run("sql", "--target", target, "-c", r"\?")
    assert [name for name in (r"\dRp[+]", r"\dRs[+]", r"\h", r"\?", r"\q") if name not in out] == []


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


def test_status_of_a_target_without_subscriptions_says_what_to_do(run, target):
    code, out, _ = run("status", "--target", target)
    assert code == 0
    assert "CREATE SUBSCRIPTION" in out
    assert json.loads(run("status", "--target", target, "--json")[1]) == []


def test_a_bad_setting_is_refused_before_anything_starts(run, target, monkeypatch):
    monkeypatch.setenv("SUBSCRIBER_SEGMENT_BYTES", "many")
    code, _, err = run("run", "--target", target)
    assert code == 1
    assert 'invalid value for parameter "SUBSCRIBER_SEGMENT_BYTES"' in err


@pytest.fixture
def journal(tmp_path):
    folder = tmp_path / "journals" / "1_s"
    folder.mkdir(parents=True)
    receive(folder, [*transaction(0x200, T, m.Insert(T.relation_id, values("1", "secret"))), None])
    return folder


def test_journal_ls_shows_slot_range_and_size(run, journal):
    code, out, _ = run("journal", "ls", "--journal", str(journal.parent))
    assert code == 0
    assert "slot s," in out
    assert "from 0/100 to 0/200" in out


def test_run_warns_of_journals_that_others_may_read_and_says_how_to_close_them(journal, caplog):
    settings = Settings(str(journal.parent))
    journal.chmod(0o700)
    with caplog.at_level("WARNING"):
        warn_of_open_journals(settings)
        assert caplog.messages == []
        journal.chmod(0o750)
        warn_of_open_journals(settings)
    assert len(caplog.messages) == 1
    assert f"chmod -R go= {journal}" in caplog.messages[0]


def test_journal_ls_shows_consumers_and_who_holds_trimming_back(run, journal):
    storage = LocalStorage(journal)
    passed(storage, 0x200, consumer(1))
    passed(storage, 0x180, consumer(1, "sync"))
    (journal / "consumer-old name.lsn").write_text("0/1C0")
    _, out, _ = run("journal", "ls", "--journal", str(journal.parent))
    lines = out.splitlines()
    assert '  subscription "s" of sqlite:////srv/app.db: at 0/200, 0 bytes behind' in lines
    assert (
        '  subscription "s" (table sync) of sqlite:////srv/app.db: at 0/180, 128 bytes behind, holds trimming back'
        in lines
    )
    assert '  subscription "old name" of an unknown target: at 0/1C0, 64 bytes behind' in lines
    _, out, _ = run("journal", "ls", "--journal", str(journal.parent), "--json")
    found = {(one["subid"], one["purpose"]): one for one in json.loads(out)[0]["consumers"]}
    assert {key: (one["behind_bytes"], one["holds_trimming_back"]) for key, one in found.items()} == {
        (1, "apply"): (0, False),
        (1, "sync"): (128, True),
        (None, "apply"): (64, False),
    }
    assert found[1, "sync"]["file"] == consumer(1, "sync").file


def test_journal_forget_removes_one_consumer_and_asks_first(run, journal):
    passed(LocalStorage(journal), 0x200, consumer(1))
    passed(LocalStorage(journal), 0x180, consumer(2))
    forget = ("journal", "forget", consumer(2).file, "--journal", str(journal))
    code, _, err = run(*forget)
    assert code == 1
    assert "--yes" in err
    assert len(list_consumers(LocalStorage(journal))) == 2
    assert run(*forget, "--yes")[0] == 0
    assert [one.file for one in list_consumers(LocalStorage(journal))] == [consumer(1).file]
    code, _, err = run(*forget, "--yes")
    assert code == 1
    assert "has no consumer" in err


@pytest.mark.parametrize("file", ["journal.json", "../1_s/journal.json"])
def test_journal_forget_removes_nothing_but_consumers(run, journal, file):
    code, _, err = run("journal", "forget", file, "--yes", "--journal", str(journal))
    assert code == 1
    assert "has no consumer" in err
    assert (journal / "journal.json").exists()


def test_journal_show_prints_every_message_but_no_values(run, journal):
    code, out, _ = run("journal", "show", "--journal", str(journal.parent))
    assert code == 0
    assert [line.split()[6] for line in out.splitlines()] == ["BEGIN,", "public.t:", "public.t:", "COMMIT"]
    assert "secret" not in out
    assert "b: 6 bytes" in out


def test_journal_show_prints_values_when_asked(run, journal):
    _, out, _ = run("journal", "show", "--journal", str(journal), "--show-values", "--relation", "public.t")
    assert "b: 'secret'" in out
    assert "BEGIN" not in out


def test_journal_show_speaks_json(run, journal):
    _, out, _ = run("journal", "show", "--journal", str(journal), "--json", "--xid", "731")
    lines = [json.loads(line) for line in out.splitlines()]
    assert {line["finish_lsn"] for line in lines} == {"0/200"}


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_bad_lsn_is_refused_in_postgresqls_words(run, journal, option):
    code, _, err = run("journal", "show", "--journal", str(journal), option, "12")
    assert code == 1
    assert 'invalid input syntax for type pg_lsn: "12"' in err


def test_journal_show_without_a_journal_says_where_it_looked(run, tmp_path):
    code, _, err = run("journal", "show", "--journal", str(tmp_path))
    assert code == 1
    assert str(tmp_path) in err


@pytest.mark.parametrize("ignored", [False, True])
def test_the_end_of_the_terminal_stops_in_order(ignored):
    """Both the terminal and its shell send SIGHUP, and neither is a second Ctrl-C; what nohup
    ignores stays ignored.
    """
    given = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
        stop = stop_on_signals()
        if not ignored:
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        assert stop.wait(0.2 if ignored else 30) is not ignored
        stop.set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        for number, handler in given.items():
            signal.signal(number, handler)
