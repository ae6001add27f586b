"""A journal a page at a time: transactions from the newest on, messages from the first on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.base.errors import JournalCorrupt, UsageError
from subscriber.base.lsn import INVALID_LSN, LSN, MAX_LSN
from subscriber.postgres.protocol import messages as m
from subscriber.stream.journal.browse import browse, newest_transactions, transaction_messages
from subscriber.stream.journal.segment import EntryKind
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import relation, transaction
from tests.journals import (
    T,
    commit_prepared,
    insert,
    prepare,
    publish,
    rollback_prepared,
    segment_files,
    three_large_transactions,
    three_transactions,
    trim_after_planning,
    writing,
)

U = relation("public.u", {"a": "int4"}, key=["a"], oid=16390)


def page_ends(url: str, most: int) -> list[list[int]]:
    """The ends of the transactions on each page, from the newest page to the oldest."""
    pages: list[list[int]] = []
    before: LSN | None = MAX_LSN
    while before is not None:
        page = newest_transactions(url, before, most)
        pages.append([one.finish_lsn for one in page.transactions])
        before = page.older
    return pages


def message_pages(url: str, finish: int, most: int) -> list[list[str]]:
    pages: list[list[str]] = []
    following: tuple[int, int] | None = (0, 0)
    while following is not None:
        page = transaction_messages(url, LSN(finish), part=following[0], row=following[1], most=most, show_values=True)
        pages.append([line.description for line in page.lines])
        following = page.following
    return pages


@pytest.mark.parametrize("fill", [three_transactions, three_large_transactions])
def test_transactions_are_listed_from_the_newest_on_in_pages(tmp_path, fill):
    fill(tmp_path)
    assert page_ends(str(tmp_path), 2) == [[0x400, 0x300], [0x200]]
    assert page_ends(str(tmp_path), 1) == [[0x400], [0x300], [0x200]]


@settings(max_examples=20)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 5))
def test_every_transaction_is_on_one_page_however_the_runs_are_divided(tmp_path_factory, runs, most):
    folder, end, ends = tmp_path_factory.mktemp("journal"), 0x100, []
    with writing(folder) as journal:
        for number in runs:
            sent: list[m.Message] = []
            for _ in range(number):
                end += 0x100
                ends.append(end)
                sent += transaction(end, *([T] if end == 0x200 else []), insert(end))
            publish(journal, end, sent, relations={} if end == 0x100 * (runs[0] + 1) else {T.relation_id: T})
    pages = page_ends(str(folder), most)
    assert [one for page in pages for one in page] == ends[::-1]
    assert all(len(page) <= most for page in pages)


def test_a_transaction_of_a_run_has_its_messages_tables_and_time(tmp_path):
    with writing(tmp_path) as journal:
        sent = [*transaction(0x200, T, insert(1), xid=7), *transaction(0x300, U, insert(2, shape=T), xid=8)]
        publish(journal, 0x300, sent)
    newest, oldest = newest_transactions(str(tmp_path), MAX_LSN, 9).transactions
    assert (oldest.xid, oldest.messages, oldest.relations) == (7, 4, ("public.t",))
    assert (newest.xid, newest.messages, newest.relations) == (8, 4, ("public.t", "public.u"))
    assert newest.size > 0
    assert newest.committed_at is not None


def test_a_large_transaction_is_listed_without_being_read(tmp_path):
    three_large_transactions(tmp_path)
    newest = newest_transactions(str(tmp_path), MAX_LSN, 1).transactions[0]
    assert (newest.xid, newest.messages, newest.relations) == (703, None, ())
    assert newest.size == segment_files(tmp_path)[-1].stat().st_size


def test_a_prepared_transaction_is_listed_where_it_was_committed_or_rolled_back(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, prepare(0x200, T, insert(1), xid=7), kind="p", xid=7)
        publish(journal, 0x300, prepare(0x300, T, insert(1), xid=8), kind="p", xid=8)
        publish(journal, 0x400, commit_prepared(0x400, xid=7), kind="k", xid=7)
        publish(journal, 0x500, rollback_prepared(0x500, xid=8), kind="r", xid=8)
    found = [(one.finish_lsn, one.kind) for one in newest_transactions(str(tmp_path), MAX_LSN, 9).transactions]
    assert found == [(0x500, EntryKind.ROLLBACK_PREPARED), (0x400, EntryKind.COMMIT_PREPARED)]
    assert page_ends(str(tmp_path), 1) == [[0x500], [0x400]]
    shown = transaction_messages(str(tmp_path), LSN(0x400), most=9, show_values=False)
    assert [line.action for line in shown.lines] == ["b", "R", "I", "P", "K"]


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_the_messages_of_a_transaction_in_parts_come_page_by_page(tmp_path, most):
    with writing(tmp_path) as journal:
        begin, *changes, commit = transaction(0x200, T, insert(1), insert(2), insert(3), xid=7)
        publish(journal, 0x200, [begin, *changes[:2]], [*changes[2:], commit], xid=7)
    pages = message_pages(str(tmp_path), 0x200, most)
    assert all(len(page) <= most for page in pages)
    whole = [line.description for line in browse(str(tmp_path), LSN(0x100), LSN(0x200), show_values=True) if line.lsn]
    assert [line for page in pages for line in page] == whole
    assert "INSERT (a: '3', b: 'x')" in whole


def test_a_page_opens_only_the_segments_that_it_shows(tmp_path, monkeypatch):
    """Invariant bounded_memory: a transaction may have thousands of segments."""
    begin, *changes, commit = transaction(0x200, T, *map(insert, range(9)), xid=7)
    with writing(tmp_path) as journal:
        publish(journal, 0x200, [begin, *changes[:2]], *([one] for one in changes[2:]), [commit], xid=7)
    opened: list[str] = []
    open_file = LocalStorage.open

    def noted(storage: LocalStorage, name: str) -> object:
        opened.append(name)
        return open_file(storage, name)

    monkeypatch.setattr(LocalStorage, "open", noted)
    page = transaction_messages(str(tmp_path), LSN(0x200), part=3, most=1, show_values=True)
    assert [line.description for line in page.lines] == ["INSERT (a: '3', b: 'x')"]
    assert page.following == (4, 1)  # row 0 is the relation message from before
    finish, shown, following = (name.split("-")[4] for name in opened)
    assert (int(finish), int(shown), int(following)) == (10, 4, 5)
    newest_transactions(str(tmp_path), MAX_LSN, 9)
    assert len(opened) == 4


def test_one_transaction_of_a_run_is_shown_with_the_names_that_came_before_it(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x300, [*transaction(0x200, T, insert(1)), *transaction(0x300, insert(2))])
    assert message_pages(str(tmp_path), 0x300, 9) == [
        ["BEGIN, commits at 0/2F8", "INSERT (a: '2', b: 'x')", "COMMIT at 0/2F8, ends at 0/300"]
    ]


def test_a_page_begins_with_names_that_an_earlier_page_has_shown(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
    page = transaction_messages(str(tmp_path), LSN(0x200), row=2, most=1, show_values=False)
    assert [line.description for line in page.lines] == ["INSERT (a: 1 bytes, b: 1 bytes)"]


def test_a_long_value_is_cut(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1, "y" * 5000)))
    page = transaction_messages(str(tmp_path), LSN(0x200), most=9, show_values=True, longest=4)
    assert page.lines[2].description == "INSERT (a: '1', b: 'yyyy'… (5,000 bytes))"


def test_a_transaction_that_the_journal_does_not_have_is_an_error(tmp_path):
    three_transactions(tmp_path)
    with pytest.raises(UsageError, match="no transaction that ends at 0/2F0"):
        transaction_messages(str(tmp_path), LSN(0x2F0), most=9, show_values=False)


def test_a_file_that_was_trimmed_meanwhile_is_no_damage(tmp_path, monkeypatch):
    three_transactions(tmp_path)
    first = segment_files(tmp_path)[0]
    content = first.read_bytes()
    first.write_bytes(b"damaged")
    with pytest.raises(JournalCorrupt):
        newest_transactions(str(tmp_path), MAX_LSN, 9)
    first.write_bytes(content)
    trim_after_planning(monkeypatch, tmp_path, LSN(0x300))
    with pytest.raises(UsageError, match="was trimmed up to 0/300 while it was read"):
        newest_transactions(str(tmp_path), LSN(0x301), 9)


def test_a_file_that_was_trimmed_while_all_messages_are_shown_is_no_damage(tmp_path, monkeypatch):
    three_transactions(tmp_path)
    trim_after_planning(monkeypatch, tmp_path, LSN(0x300))
    with pytest.raises(UsageError, match="was trimmed up to 0/300 while it was read"):
        list(browse(str(tmp_path), INVALID_LSN, MAX_LSN, show_values=False))
