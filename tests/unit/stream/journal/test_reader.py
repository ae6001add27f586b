"""The reader plans by names, in commit order."""

from __future__ import annotations

import pickle

import pytest

from subscriber.base.errors import JournalGap
from subscriber.base.lsn import INVALID_LSN, LSN, MAX_LSN
from subscriber.stream.journal import reader as reader_module
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.segment import journal_entries
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import relation, transaction
from tests.journals import (
    T,
    commit_prepared,
    insert,
    keys_of,
    passed,
    prepare,
    publish,
    rollback_prepared,
    segment_files,
    three_transactions,
    writing,
)

U = relation('Some "schema".Tab', {"a": "int4", "b": "text"}, key=["a"], oid=20000)


# Planning -----------------------------------------------------------------------------------------


def test_a_missing_journal_is_an_error_that_names_its_writer(tmp_path):
    with pytest.raises(JournalGap, match="there is no journal") as caught:
        JournalReader(LocalStorage(tmp_path)).latest(INVALID_LSN)
    assert "subscriber run" in str(caught.value.hint)


def test_the_latest_position_is_the_end_of_an_entry_or_the_start(tmp_path):
    three_transactions(tmp_path)
    reader = JournalReader(LocalStorage(tmp_path))
    assert reader.latest(LSN(0x100)) == 0x400
    assert reader.latest(LSN(0x400)) == 0x400
    assert reader.latest(LSN(0x900)) == 0x900


def test_a_limit_in_bytes_ends_between_entries_and_allows_at_least_one(tmp_path):
    three_transactions(tmp_path)
    reader = JournalReader(LocalStorage(tmp_path))
    size = max(entry.size for entry in journal_entries(reader.storage))
    assert reader.latest(LSN(0x100), 1) == 0x200
    assert reader.latest(LSN(0x100), 2 * size) == 0x300
    assert reader.latest(LSN(0x200), 2 * size) == 0x400


def test_a_plan_takes_entries_after_the_start_up_to_the_end(tmp_path):
    three_transactions(tmp_path)
    assert keys_of(tmp_path, 0x200, 0x300) == [2]
    assert keys_of(tmp_path, 0x400) == []


@pytest.mark.parametrize("missing", [0, 1])
def test_a_missing_segment_is_a_gap_with_both_lsns(tmp_path, missing):
    three_transactions(tmp_path)
    segment_files(tmp_path)[missing].unlink()
    reader = JournalReader(LocalStorage(tmp_path))
    expected = "between 0/100 and 0/200" if missing == 0 else "between 0/200 and 0/300"
    with pytest.raises(JournalGap, match=expected):
        reader.latest(LSN(0x100))
    with pytest.raises(JournalGap, match=expected):
        reader.plan(LSN(0x100), LSN(0x400))


def test_a_batch_whose_last_entry_is_missing_is_refused(tmp_path):
    """The batch was planned when the segment existed. Applying the rest would skip the end."""
    three_transactions(tmp_path)
    segment_files(tmp_path)[-1].unlink()
    reader = JournalReader(LocalStorage(tmp_path))
    reader.require(LSN(0x100), LSN(0x300))
    with pytest.raises(JournalGap, match="up to 0/400 are to be applied") as caught:
        reader.require(LSN(0x100), LSN(0x400))
    assert caught.value.lsn == 0x400


def test_a_batch_that_every_consumer_has_applied_needs_no_entries(tmp_path):
    """After a crash Spark plans its last batch again, and the journal may have been trimmed."""
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        passed(LocalStorage(tmp_path), 0x400)
        journal.trim()
    reader = JournalReader(LocalStorage(tmp_path))
    reader.require(LSN(0x200), LSN(0x400))
    assert reader.plan(LSN(0x200), LSN(0x400)) == []


def test_with_two_phase_each_entry_is_read_at_its_own_place(tmp_path):
    """C49, C50: COMMIT PREPARED and ROLLBACK PREPARED are read without the changes."""
    with writing(tmp_path) as journal:
        publish(journal, 0x180, prepare(0x180, T, insert(1), xid=7), kind="p", xid=7)
        publish(journal, 0x200, transaction(0x200, T, insert(2)))
        publish(journal, 0x240, commit_prepared(0x240, xid=7), kind="k", xid=7)
        publish(journal, 0x250, prepare(0x250, T, insert(3), xid=9), kind="p", xid=9)
        publish(journal, 0x260, rollback_prepared(0x260, xid=9), kind="r", xid=9)
    reader = JournalReader(LocalStorage(tmp_path))

    def plan(start: int, *, two_phase: bool) -> list[tuple[str, int]]:
        readings = reader.plan(LSN(start), LSN(0x260), two_phase=two_phase)
        return [(reading.segment.kind.value, reading.end) for reading in readings]

    assert plan(0x100, two_phase=True) == [("p", 0x180), ("t", 0x200), ("k", 0x240), ("p", 0x250), ("r", 0x260)]
    assert plan(0x100, two_phase=False) == [("t", 0x200), ("p", 0x240), ("k", 0x240), ("r", 0x260)]
    assert plan(0x200, two_phase=True) == [("k", 0x240), ("p", 0x250), ("r", 0x260)]


def test_a_start_that_was_trimmed_is_a_gap_with_both_lsns(tmp_path):
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        passed(LocalStorage(tmp_path), 0x300)
        journal.trim()
    with pytest.raises(JournalGap, match="changes after 0/200 were asked for, but the journal begins at 0/300"):
        JournalReader(LocalStorage(tmp_path)).latest(LSN(0x200))


def test_trimming_during_a_reading_is_no_gap(tmp_path, monkeypatch):
    """The files go after the control file has moved on: a listing without them needs a control file
    read after it.
    """
    three_transactions(tmp_path)
    storage = LocalStorage(tmp_path)
    control = read_control

    def trimmed_meanwhile(where):
        found = control(where)
        monkeypatch.setattr(reader_module, "read_control", control)
        with writing(tmp_path) as journal:
            passed(storage, 0x300)
            journal.trim()
        return found

    monkeypatch.setattr(reader_module, "read_control", trimmed_meanwhile)
    assert JournalReader(storage).latest(LSN(0x300)) == 0x400


def test_a_folder_is_listed_again_before_a_gap_is_reported(tmp_path, monkeypatch):
    """A folder may show a later file and not an earlier one when both get their names while it is
    listed.
    """
    three_transactions(tmp_path)
    storage = LocalStorage(tmp_path)
    listings = [[pair for pair in storage.names() if f"{0x300:016X}-t" not in pair[0]]]
    names = storage.names
    monkeypatch.setattr(storage, "names", lambda known=(): listings.pop() if listings else names())
    assert JournalReader(storage).latest(LSN(0x100)) == 0x400


def test_the_second_listing_counts_up_to_the_end_of_the_first_one(tmp_path, monkeypatch):
    """The second listing may miss files too, beyond that end. The next one has them."""
    three_transactions(tmp_path)
    storage = LocalStorage(tmp_path)
    whole = storage.names()

    def without(*ends: int):
        return [pair for pair in whole if not any(f"-{end:016X}-t" in pair[0] for end in ends)]

    with writing(tmp_path) as journal:
        publish(journal, 0x500, transaction(0x500, T, insert(4)))
        publish(journal, 0x600, transaction(0x600, T, insert(5)))
    last = [pair for pair in storage.names() if f"-{0x600:016X}-t" in pair[0]]
    listings = [[*whole, *last], without(0x300)]
    monkeypatch.setattr(storage, "names", lambda known=(): listings.pop())
    assert JournalReader(storage).latest(LSN(0x100)) == 0x400


def test_a_backlog_is_listed_once_and_not_for_each_batch(tmp_path, monkeypatch):
    """A folder may have hundreds of thousands of files."""
    three_transactions(tmp_path)
    storage, now, listings = LocalStorage(tmp_path), 0.0, []
    names = storage.names

    def listed(known):
        listings.append(now)
        return names(known)

    monkeypatch.setattr(storage, "names", listed)
    reader = JournalReader(storage, clock=lambda: now)
    place = LSN(0x100)
    for expected in (0x200, 0x300):
        end = reader.latest(place, 1)
        reader.require(place, end)
        assert [reading.end for reading in reader.plan(place, end)] == [expected]
        place = end
    assert len(listings) == 1
    now = reader_module.RELIST_SECONDS
    reader.latest(LSN(0x100), 1)
    assert len(listings) == 2


def test_a_reader_that_is_sent_to_another_process_leaves_its_entries_behind(tmp_path):
    three_transactions(tmp_path)
    reader = JournalReader(LocalStorage(tmp_path))
    empty = len(pickle.dumps(reader))
    reader.latest(LSN(0x100))
    assert len(pickle.dumps(reader)) == empty
    assert pickle.loads(pickle.dumps(reader)).latest(LSN(0x100)) == 0x400


# Prepared transactions ----------------------------------------------------------------------------


def test_a_prepared_transaction_is_read_at_its_commit_prepared(tmp_path):
    """Rules C50, C51."""
    with writing(tmp_path) as journal:
        publish(journal, 0x200, prepare(0x200, T, insert(1), xid=7), kind="p", xid=7)
        publish(journal, 0x300, transaction(0x300, T, insert(2)))
        publish(journal, 0x400, prepare(0x400, T, insert(3), xid=8), kind="p", xid=8)
        publish(journal, 0x500, commit_prepared(0x500, xid=7), kind="k", xid=7)
        publish(journal, 0x600, rollback_prepared(0x600, xid=8), kind="r", xid=8)
    assert keys_of(tmp_path) == [2, 1]
    assert keys_of(tmp_path, 0x400, 0x500) == [1]
    assert keys_of(tmp_path, 0x100, 0x400) == [2]


def test_a_commit_prepared_without_its_prepare_is_a_gap(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, commit_prepared(0x200, xid=7), kind="k", xid=7)
    with pytest.raises(JournalGap, match="transaction 7 was committed at 0/200") as caught:
        JournalReader(LocalStorage(tmp_path)).plan(INVALID_LSN, MAX_LSN)
    assert caught.value.lsn == 0x200
