"""The page about output plugins: its code runs from top to bottom and prints what it says, and its
example writes what wal2json writes.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from subscriber.base.errors import UsageError
from subscriber.cli import main
from subscriber.postgres.logical_decoding import (
    MemoryDatabase,
    OutputPlugin,
    RecordedWal,
    ReplicationSlot,
    SlotFunctions,
    Toasted,
)
from subscriber.postgres.logical_decoding.context import CALLBACKS, REQUIRED
from subscriber.postgres.protocol import messages as m
from tests.frames import relation, transaction, values
from tests.markdown import table
from tests.streams import receive

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "output-plugins.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(EXAMPLE,) = [code for language, code in BLOCKS if language == "python" and code.startswith("# json_lines.py\n")]


@pytest.fixture
def json_lines() -> Any:
    namespace: dict[str, Any] = {}
    exec(compile(EXAMPLE, "json_lines.py", "exec"), namespace)
    return namespace["JsonLines"]


def printed_blocks() -> Iterator[tuple[str, str]]:
    """What each block prints, and what the page says that it prints."""
    namespace: dict[str, Any] = {"__name__": "page"}
    for (language, code), (next_language, expected) in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(code, "output-plugins.md", "exec"), namespace)
            yield out.getvalue(), expected if next_language == "text" else ""


def test_the_code_prints_what_the_page_says():
    blocks = list(printed_blocks())
    assert [printed for printed, _ in blocks] == [expected for _, expected in blocks]
    assert sum(bool(expected) for _, expected in blocks) == 5


def test_the_table_has_every_callback_with_its_arguments():
    rows = table(PAGE, "The callbacks")
    assert {row[0].strip("`") for row in rows} == set(CALLBACKS)
    assert {row[0].strip("`") for row in rows if "Required" in row[2]} == set(REQUIRED)
    for row in rows:
        code = getattr(OutputPlugin, row[0].strip("`")).__code__
        arguments = code.co_varnames[2 : code.co_argcount]
        assert ", ".join(arguments) == row[1].strip("`"), row[0]


def test_the_example_has_less_than_a_hundred_lines():
    assert len(EXAMPLE.splitlines()) < 100


def lines(plugin: Any, publisher: MemoryDatabase, *options: str) -> list[str]:
    slot = SlotFunctions(plugin(), ReplicationSlot("s", "json_lines"), RecordedWal.of(publisher))
    return [change.data for change in slot.peek_changes(None, None, *options)]


def test_the_example_writes_what_wal2jsons_manual_shows(json_lines):
    """The session and its output are those of wal2json's README, with another time."""
    publisher = MemoryDatabase()
    moment = "2019-12-29 04:58:34.806671"
    with_key = {"a": "integer", "b": "character varying(30)", "c": "timestamp without time zone"}
    publisher.create_table("table3_with_pk", with_key, ["a", "c"])
    publisher.create_table("table3_without_pk", {"a": "integer", "b": "numeric(5,2)", "c": "text"})
    publisher.take()
    session = publisher.session()
    session.begin()
    for number, text in enumerate(["Backup and Restore", "Tuning", "Replication"], start=1):
        session.insert("table3_with_pk", a=number, b=text, c=moment)
    session.message("wal2json", "this message will be delivered")
    session.message(
        "wal2json", "this non-transactional message will be delivered even if you rollback the transaction",
        transactional=False,
    )  # fmt: skip
    session.delete("table3_with_pk", {"a": 1})
    session.delete("table3_with_pk", {"a": 2})
    session.insert("table3_without_pk", a=1, b="2.34", c="Tapir")
    session.update("table3_without_pk", {"a": 1}, c="Anta")
    session.commit()

    def inserted(number: int, text: str) -> str:
        return (
            f'{{"action":"I","schema":"public","table":"table3_with_pk","columns":[{{"name":"a","type":"integer","value":{number}}},'
            f'{{"name":"b","type":"character varying(30)","value":"{text}"}},'
            f'{{"name":"c","type":"timestamp without time zone","value":"{moment}"}}]}}'
        )

    def deleted(number: int) -> str:
        return (
            f'{{"action":"D","schema":"public","table":"table3_with_pk","identity":[{{"name":"a","type":"integer","value":{number}}},'
            f'{{"name":"c","type":"timestamp without time zone","value":"{moment}"}}]}}'
        )

    assert lines(json_lines, publisher) == [
        '{"action":"M","transactional":false,"prefix":"wal2json","content":"this non-transactional message will be delivered even if you rollback the transaction"}',
        '{"action":"B"}',
        inserted(1, "Backup and Restore"),
        inserted(2, "Tuning"),
        inserted(3, "Replication"),
        '{"action":"M","transactional":true,"prefix":"wal2json","content":"this message will be delivered"}',
        deleted(1),
        deleted(2),
        '{"action":"I","schema":"public","table":"table3_without_pk","columns":[{"name":"a","type":"integer","value":1},{"name":"b","type":"numeric(5,2)","value":2.34},{"name":"c","type":"text","value":"Tapir"}]}',
        '{"action":"C"}',
    ]


def test_values_are_json_whatever_they_are(json_lines):
    publisher = MemoryDatabase()
    types = {"k": "integer", "f": "double precision", "n": "numeric", "t": "boolean", "by": "bytea", "s": "text", "ia": "integer[]"}  # fmt: skip
    publisher.create_table("v", types, ["k"])
    publisher.take()
    row = {"k": 1, "f": "-Infinity", "n": "NaN", "t": True, "by": "\\x00ff", "s": 'a "q"\n\\ é', "ia": "{1,NULL}"}
    publisher.session().insert("v", row)
    publisher.session().insert("v", {"k": 2, "f": "1e-07", "n": "-1.50"})
    _, first, _, _, second, _ = (json.loads(line) for line in lines(json_lines, publisher))
    assert {one["name"]: one["value"] for one in first["columns"]} == {
        "k": 1, "f": None, "n": None, "t": True, "by": "00ff", "s": 'a "q"\n\\ é', "ia": "{1,NULL}",
    }  # fmt: skip
    assert {one["name"]: one["value"] for one in second["columns"]} == {
        "k": 2, "f": 1e-07, "n": -1.5, "t": None, "by": None, "s": None, "ia": None,
    }  # fmt: skip
    assert [one["type"] for one in first["columns"]] == list(types.values())


def test_updates_have_the_identity_and_leave_out_what_was_not_written(json_lines):
    publisher = MemoryDatabase()
    publisher.create_table("t", {"a": "integer", "b": "text"}, ["a"])
    session = publisher.session()
    session.insert("t", a=1, b=Toasted("x" * 5000))
    publisher.take()
    session.update("t", {"a": 1}, a=2)
    session.replica_identity("t", "full")
    session.update("t", {"a": 2}, b="y")
    session.replica_identity("t", "nothing")
    session.update("t", {"a": 2}, b="z")
    session.delete("t", {"a": 2})
    changes = [json.loads(line) for line in lines(json_lines, publisher, "include-transaction", "off")]
    shown = [[[(one["name"], one["value"]) for one in change[part]] for part in ("columns", "identity")] for change in changes]  # fmt: skip
    assert shown == [
        [[("a", 2)], [("a", 1)]],
        [[("a", 2), ("b", "y")], [("a", 2), ("b", "x" * 5000)]],
    ]


def test_truncate_is_a_line_for_each_table_and_numbers_of_transactions_are_an_option(json_lines):
    publisher = MemoryDatabase()
    publisher.create_table("t", {"a": "integer"})
    publisher.create_table("Two", {"a": "integer"})
    publisher.take()
    session = publisher.session()
    session.truncate("t", "Two")
    session.message("p", b"x", transactional=False)
    assert lines(json_lines, publisher, "include-xids", "1") == [
        '{"action":"B","xid":733}',
        '{"action":"T","xid":733,"schema":"public","table":"t"}',
        '{"action":"T","xid":733,"schema":"public","table":"Two"}',
        '{"action":"C","xid":733}',
        '{"action":"M","xid":null,"transactional":false,"prefix":"p","content":"x"}',
    ]


@pytest.mark.parametrize("options", [("format-version", "1"), ("nonsense", "1"), ("include-xids", "perhaps")])
def test_an_unknown_option_is_refused(json_lines, options):
    with pytest.raises(UsageError, match="is unknown"):
        lines(json_lines, MemoryDatabase(), *options)


def test_saved_as_a_file_the_example_prints_a_journal(tmp_path, monkeypatch, capsys):
    shape = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])
    (tmp_path / "journal").mkdir()
    receive(tmp_path / "journal", transaction(0x200, shape, m.Insert(shape.relation_id, values("1", "x"))))
    (tmp_path / "json_lines.py").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "sys.argv", ["subscriber", "decode", "--journal", "journal", "--plugin", "json_lines:JsonLines"]
    )
    main()
    assert [line.split(" | ")[2] for line in capsys.readouterr().out.splitlines()] == [
        '{"action":"B"}',
        '{"action":"I","schema":"public","table":"t","columns":[{"name":"a","type":"integer","value":1},{"name":"b","type":"text","value":"x"}]}',
        '{"action":"C"}',
    ]
