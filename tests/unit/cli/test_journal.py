"""``subscriber journal``: lists journals, shows their messages, and forgets consumers."""

from __future__ import annotations

import json
import shutil

import pytest

from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.stream.journal import named_consumers
from subscriber.stream.journal.retention import list_consumers
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import relation, transaction, values
from tests.journals import consumer, passed
from tests.streams import receive

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])


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


def test_journal_ls_shows_named_consumers_and_when_they_have_last_moved(run, journal, monkeypatch):
    monkeypatch.setattr(named_consumers, "now", lambda: "2026-01-01T00:00:00.000+00:00")
    storage = LocalStorage(journal)
    for name, lsn in (("orders", 0x180), ("gone\n", 0x150)):
        named_consumers.register(storage, name, LSN(lsn))
    named_consumers.drop(storage, named_consumers.list_named(storage)[0])
    passed(storage, 0x190)
    _, out, _ = run("journal", "ls", "--journal", str(journal))
    assert out.splitlines()[4:] == [
        '  consumer "gone\\n": at 0/150, 176 bytes behind',
        "    last moved 2026-01-01T00:00:00.000+00:00, dropped 2026-01-01T00:00:00.000+00:00: nothing is kept for it",
        '  consumer "orders": at 0/180, 128 bytes behind, holds trimming back',
        "    last moved 2026-01-01T00:00:00.000+00:00",
    ]
    _, out, _ = run("journal", "ls", "--journal", str(journal), "--json")
    assert json.loads(out)[0]["named_consumers"][1] == {
        "name": "orders",
        "lsn": "0/180",
        "moved": "2026-01-01T00:00:00.000+00:00",
        "dropped": None,
        "behind_bytes": 128,
        "holds_trimming_back": True,
    }


@pytest.mark.parametrize("is_dropped", [False, True])
def test_journal_forget_removes_a_named_consumer_or_the_record_of_its_drop(run, journal, is_dropped):
    storage = LocalStorage(journal)
    named_consumers.register(storage, "orders")
    if is_dropped:
        named_consumers.drop(storage, named_consumers.list_named(storage)[0])
    forget = ("journal", "forget", "orders", "--journal", str(journal))
    code, _, err = run(*forget)
    assert (code, len(named_consumers.list_named(storage))) == (1, 1)
    assert 'nothing was removed: consumer "orders" is at 0/100' in err
    assert run(*forget, "--yes")[:2] == (0, 'removed consumer "orders"\n')
    assert named_consumers.list_named(storage) == []


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


def test_journal_show_prints_json(run, journal):
    _, out, _ = run("journal", "show", "--journal", str(journal), "--json", "--xid", "731")
    lines = [json.loads(line) for line in out.splitlines()]
    assert {line["finish_lsn"] for line in lines} == {"0/200"}


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_bad_lsn_is_refused_in_postgresqls_words(run, journal, option):
    code, _, err = run("journal", "show", "--journal", str(journal), option, "12")
    assert code == 1
    assert 'invalid input syntax for type pg_lsn: "12"' in err


def test_journal_show_without_a_journal_names_the_folder(run, tmp_path):
    code, _, err = run("journal", "show", "--journal", str(tmp_path))
    assert code == 1
    assert str(tmp_path) in err


def test_journal_ls_accepts_a_folder_without_journals(run, tmp_path):
    assert run("journal", "ls", "--journal", str(tmp_path)) == (0, "", "no journals\n")
    assert json.loads(run("journal", "ls", "--journal", str(tmp_path), "--json").out) == []


def test_journal_ls_shows_every_segment_when_asked(run, journal):
    files = [file.name for file in journal.iterdir() if file.name.startswith("0")]
    _, without, _ = run("journal", "ls", "--journal", str(journal))
    _, out, _ = run("journal", "ls", "--journal", str(journal), "--segments")
    assert files
    assert [file for file in files if file in without or file not in out] == []


def test_one_of_several_journals_must_be_chosen(run, journal):
    shutil.copytree(journal, journal.with_name("1_t"))
    ended = run("journal", "show", "--journal", str(journal.parent))
    assert ended.code == 1
    assert f'there are 2 journals at "{journal.parent}"' in ended.err
    assert "1_s, 1_t" in ended.err
    assert run("journal", "show", "--journal", str(journal)).code == 0


def test_a_consumer_without_a_known_subscription_is_named_as_such(run, journal):
    (journal / consumer(1).file).write_text("no position")
    _, out, _ = run("journal", "ls", "--journal", str(journal))
    assert "  an unknown subscription of an unknown target: at 0/0, 512 bytes behind, holds trimming back" in out


@pytest.mark.parametrize(
    ("options", "actions"),
    [
        ((), "BRIC"),
        (("--xid", "731"), "BRIC"),
        (("--xid", "1"), ""),
        (("--relation", "public.t"), "RI"),
        (("--relation", "public.u"), ""),
        (("--from", "0/200"), ""),
        (("--to", "0/100"), ""),
        (("--from", "0/100", "--to", "0/200"), "BRIC"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_journal_show_prints_the_messages_that_are_asked_for(run, journal, options, actions):
    _, out, _ = run("journal", "show", "--journal", str(journal), "--json", *options)
    assert "".join(json.loads(line)["action"] for line in out.splitlines()) == actions
