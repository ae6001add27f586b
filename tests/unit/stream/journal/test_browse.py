"""Journals as people see them: each message in words, values only on request."""

from __future__ import annotations

import pytest

from subscriber.base.errors import JournalGap
from subscriber.base.lsn import INVALID_LSN, LSN, MAX_LSN
from subscriber.postgres.protocol import messages as m
from subscriber.stream.journal.browse import browse, describe, list_journals, segments_of
from tests.frames import transaction, values
from tests.journals import T, commit_prepared, insert, prepare, publish, three_transactions, writing

LSNS = (LSN(0x1F8), LSN(0x200))

WORDS = [
    (m.Begin(LSN(0x1F8), 0, 7), "BEGIN, commits at 0/1F8"),
    (m.Commit(*LSNS, 0), "COMMIT at 0/1F8, ends at 0/200"),
    (m.BeginPrepare(*LSNS, 0, 7, "g"), "BEGIN PREPARE 'g'"),
    (m.Prepare(*LSNS, 0, 7, "g"), "PREPARE TRANSACTION 'g'"),
    (m.CommitPrepared(*LSNS, 0, 7, "g"), "COMMIT PREPARED 'g'"),
    (m.RollbackPrepared(*LSNS, 0, 0, 7, "g"), "ROLLBACK PREPARED 'g'"),
    (m.Origin(LSN(0x50), "node_a"), 'ORIGIN "node_a" at 0/50'),
    (T, "RELATION public.t (a*, b), replica identity d"),
    (m.Type(99, "public", "mood"), "TYPE public.mood (99)"),
    (m.Truncate((16384, 5), True, True), "TRUNCATE public.t, relation 5 CASCADE RESTART IDENTITY"),
    (m.Truncate((16384,), False, False), "TRUNCATE public.t"),
    (m.LogicalMessage(True, LSN(1), "p", b"abc"), 'MESSAGE "p", transactional, 3 bytes'),
    (m.LogicalMessage(False, LSN(1), "p", b""), 'MESSAGE "p", non-transactional, 0 bytes'),
    (insert(17, "secret"), "INSERT (a: 2 bytes, b: 6 bytes)"),
    (m.Update(16384, None, None, (m.BinaryValue(b"\1"), m.UNCHANGED)), "UPDATE (a: 1 bytes, binary, b: unchanged)"),
    (m.Update(16384, "K", values("1", None), values("2", None)), "UPDATE old key (a: 1 bytes, b: null) (a: 1 bytes, b: null)"),
    (m.Delete(16384, "O", values("1", "x")), "DELETE old row (a: 1 bytes, b: 1 bytes)"),
    (m.Delete(99, "K", values("1")), "DELETE old key (1: 1 bytes)"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "words"), WORDS, ids=lambda value: type(value).__name__)
def test_every_message_is_described_in_words(message, words):
    assert describe(message, {T.relation_id: T}, show_values=False) == words


def test_values_are_shown_only_when_asked_for():
    """Invariant names_are_data: printed values may be stored by a terminal or a log."""
    change = m.Update(16384, "O", values("17", "it's"), (m.BinaryValue(b"\0\xff"), m.NULL))
    shown = describe(change, {T.relation_id: T}, show_values=True)
    assert shown == "UPDATE old row (a: '17', b: 'it's') (a: \\x00ff, b: null)"
    hidden = describe(change, {T.relation_id: T}, show_values=False)
    assert "17" not in hidden
    assert "it's" not in hidden


def test_a_journal_is_listed_with_its_entries_and_size(tmp_path):
    folder = tmp_path / "7300_s"
    three_transactions(folder)
    (tmp_path / "not a journal").mkdir()
    (summary,) = list_journals(str(tmp_path))
    assert summary.url == str(folder)
    assert summary.control.slot == "s"
    assert [segment.end for segment in segments_of(summary)] == [0x200, 0x300, 0x400]
    assert summary.size == sum(file.stat().st_size for file in folder.glob("*.arrow"))


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_the_url_of_a_single_journal_lists_this_journal(tmp_path, prefix):
    three_transactions(tmp_path)
    assert [summary.control.slot for summary in list_journals(f"{prefix}{tmp_path}")] == ["s"]


def test_an_empty_place_has_no_journals(tmp_path):
    assert list_journals(str(tmp_path / "nowhere")) == []
    assert list_journals("mock:///bucket") == []


def test_messages_come_in_commit_order_with_their_transaction(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, prepare(0x200, T, insert(1), xid=7), kind="p", xid=7)
        publish(journal, 0x300, transaction(0x300, T, insert(2), xid=8))
        publish(journal, 0x400, commit_prepared(0x400, xid=7), kind="k", xid=7)
    lines = list(browse(str(tmp_path), INVALID_LSN, MAX_LSN, show_values=False))
    assert [(line.finish_lsn, line.xid, line.action) for line in lines] == [
        *[(0x300, 8, action) for action in "BRIC"], *[(0x400, 7, action) for action in "bRIPK"],
    ]  # fmt: skip
    assert lines[2].relation == "public.t"
    assert lines[2].description == "INSERT (a: 1 bytes, b: 1 bytes)"


def test_a_range_of_lsns_is_shown(tmp_path):
    three_transactions(tmp_path)
    lines = browse(str(tmp_path), LSN(0x200), LSN(0x300), show_values=True)
    assert [line.description for line in lines if line.action == "I"] == ["INSERT (a: '2', b: 'x')"]


def test_browsing_a_missing_journal_is_an_error(tmp_path):
    with pytest.raises(JournalGap, match="there is no journal"):
        list(browse(str(tmp_path), INVALID_LSN, MAX_LSN, show_values=False))
