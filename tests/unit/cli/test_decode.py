"""``subscriber decode``: a journal in the words of an output plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from subscriber.postgres.protocol import messages as m
from tests.frames import relation, values
from tests.journals import publish, writing
from tests.streams import frame, receive

ROOT = Path(__file__).resolve().parents[3]
T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])
PLUGIN = '''
class Names:
    def begin(self, ctx, txn):
        """Nothing."""

    def commit(self, ctx, txn, commit_lsn):
        """Nothing."""

    def change(self, ctx, txn, relation, change):
        ctx.prepare_write(last_write=True)
        ctx.out += relation.name.encode()
        ctx.write(last_write=True)
'''


def transaction(at: int, xid: int, text: str) -> list[bytes | m.Message]:
    insert = m.Insert(T.relation_id, values(str(xid), text))
    return [m.Begin(at, 5, xid), T, frame(insert, at - 8), m.Commit(at, at + 8, 5)]


@pytest.fixture
def journal(tmp_path) -> str:
    folder = tmp_path / "journals" / "1_s"
    folder.mkdir(parents=True)
    receive(folder, [*transaction(0x200, 7, "x"), *transaction(0x300, 8, "two\nlines")])
    return str(folder)


@pytest.fixture
def decode(run, journal):
    def decode_with(*arguments: str, plugin: str = "test_decoding"):
        return run("decode", "--journal", journal, "--plugin", plugin, *arguments)

    return decode_with


def test_a_line_is_a_change_as_the_sql_function_returns_it(decode):
    code, out, err = decode()
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "0/1F8        |        7 | BEGIN 7",
        "0/1F8        |        7 | table public.t: INSERT: a[integer]:7 b[text]:'x'",
        "0/208        |        7 | COMMIT 7",
        "0/2F8        |        8 | BEGIN 8",
        "0/2F8        |        8 | table public.t: INSERT: a[integer]:8 b[text]:'two+",
        "             |          | lines'",
        "0/308        |        8 | COMMIT 8",
    ]


def test_the_only_journal_of_a_folder_need_not_be_named(run, journal):
    code, out, _ = run("decode", "--journal", str(Path(journal).parent), "--plugin", "test_decoding")
    assert (code, len(out.splitlines())) == (0, 7)


def test_options_are_given_to_the_plugin(decode):
    code, out, _ = decode("--option", "include-xids=0", "--option", "include-timestamp=on", "--upto-nchanges", "1")
    assert code == 0
    assert [line.split(" | ")[2] for line in out.splitlines()][0::2] == ["BEGIN", "COMMIT (at 2000-01-01 00:00:00.000005+00)"]  # fmt: skip


def test_json_has_an_object_for_each_change(decode):
    _, out, _ = decode("--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[0] == {"lsn": "0/1F8", "xid": 7, "data": "BEGIN 7"}
    assert lines[4]["data"].endswith("'two\nlines'")
    assert len(lines) == 6


def test_binary_output_is_printed_in_hexadecimal_digits(decode):
    options = ("--option", "proto_version=1", "--option", "publication_names=p")
    code, out, _ = decode(*options, plugin="pgoutput")
    assert code == 0
    begin = m.Begin(0x200, 5, 7)
    assert out.splitlines()[0].split(" | ")[2] == "\\x42" + "".join(
        number.to_bytes(size, "big").hex() for number, size in ((begin.final_lsn, 8), (5, 8), (7, 4))
    )
    assert json.loads(decode(*options, "--json", plugin="pgoutput").out.splitlines()[0])["data"].startswith("\\x42")


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--upto-lsn", "0/208"], 3), (["--upto-lsn", "0/2FF"], 3), (["--upto-lsn", "0/308"], 7), (["--upto-lsn", "0/1"], 0),
        (["--upto-nchanges", "1"], 3), (["--upto-nchanges", "4"], 7), (["--upto-nchanges", "1", "--upto-lsn", "0/308"], 3),
    ],
)  # fmt: skip
def test_decoding_can_stop_early(decode, arguments, lines):
    code, out, _ = decode(*arguments)
    assert (code, len(out.splitlines())) == (0, lines)


def test_a_slots_file_remembers_the_position_unless_one_only_peeks(decode, tmp_path):
    slot = ("--slot", str(tmp_path / "my.slot"))
    assert len(decode(*slot, "--peek").out.splitlines()) == 7
    assert not (tmp_path / "my.slot").exists()
    assert decode(*slot, "--upto-nchanges", "1").out.splitlines()[0].endswith("BEGIN 7")
    for _ in range(2):
        assert decode(*slot, "--peek").out.splitlines()[0].endswith("BEGIN 8")
    assert len(decode(*slot).out.splitlines()) == 4
    assert decode(*slot).out == ""
    assert len(decode().out.splitlines()) == 7


def test_a_slots_file_belongs_to_one_plugin(decode, tmp_path):
    slot = ("--slot", str(tmp_path / "my.slot"))
    decode(*slot)
    code, _, err = decode(*slot, plugin="pgoutput")
    assert code == 2
    assert 'belongs to plugin "test_decoding"' in err


def test_a_position_that_the_journal_no_longer_has_is_an_error(decode, tmp_path):
    slot = tmp_path / "my.slot"
    decode("--slot", str(slot))
    slot.write_text(slot.read_text().replace("0/308", "0/50"))
    code, out, err = decode("--slot", str(slot))
    assert (code, out) == (1, "")
    assert "changes after 0/50 were asked for, but the journal begins at 0/100" in err


def test_what_is_missing_is_told_on_standard_error(run, tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x210, [m.CommitPrepared(0x200, 0x210, 11, 9, "g")], kind="k", xid=9)
    code, out, err = run("decode", "--journal", str(tmp_path), "--plugin", "test_decoding")
    assert (code, out) == (0, "")
    assert err.startswith('NOTICE:  transaction 9 was prepared as "g" before the journal begins')
    assert err.count("NOTICE") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--option", "include-xids"], '"include-xids" is not an option: write it as NAME=VALUE.'),
        (["--option", "=1"], '"=1" is not an option'),
        (["--upto-lsn", "here"], "invalid input syntax for type pg_lsn"),
        (["--upto-nchanges", "few"], "'few' is not a valid integer"),
        (["--plugin", "nonsense"], 'invalid output plugin name "nonsense"'),
        (["--plugin", "no_such_module:Plugin"], 'could not access file "no_such_module"'),
        (["--option", "nonsense=1"], 'option "nonsense" = "1" is unknown'),
        (["--option", "include-xids=maybe"], 'could not parse value "maybe" for parameter "include-xids"'),
        (["--journal", "nowhere"], 'there is no journal at "nowhere"'),
        (["--slot", "nowhere/slot"], 'could not write file "nowhere/slot"'),
    ],
)  # fmt: skip
def test_wrong_usage_is_told_with_exit_code_2(decode, arguments, message):
    code, _, err = decode(*arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_a_plugin_must_be_named(run, journal):
    code, _, err = run("decode", "--journal", journal)
    assert code == 2
    assert "--plugin" in err


def test_a_plugin_that_is_incomplete_or_fails_is_a_failure(decode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "failing_plugin_of_a_test.py").write_text(PLUGIN.replace("relation.name", "relation.nothing"))
    code, _, err = decode(plugin="failing_plugin_of_a_test:Names")
    assert code == 1
    assert 'callback "change" of output plugin "failing_plugin_of_a_test:Names" failed: AttributeError' in err
    code, _, err = decode(plugin="failing_plugin_of_a_test:Missing")
    assert code == 1
    assert "_PG_output_plugin_init" in err


def installed(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the program as its console script does, which is not in the current folder."""
    program = "import sys; sys.path[:] = [p for p in sys.path if p]; from subscriber.cli import main; main()"
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_plugin_of_ones_own_is_found_in_the_current_folder_but_replaces_nothing(journal, tmp_path):
    (tmp_path / "my_module.py").write_text(PLUGIN)
    (tmp_path / "pyarrow.py").write_text("raise SystemExit(5)")
    ended = installed(tmp_path, "decode", "--journal", journal, "--plugin", "my_module:Names", "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[0]) == {"lsn": "0/1F8", "xid": 7, "data": "\\x74"}


def test_the_current_folder_is_not_searched_if_python_was_told_not_to(journal, tmp_path):
    (tmp_path / "my_module.py").write_text(PLUGIN)
    arguments = ("decode", "--journal", journal, "--plugin", "my_module:Names")
    assert installed(tmp_path, *arguments, PYTHONSAFEPATH="1").returncode == 2
