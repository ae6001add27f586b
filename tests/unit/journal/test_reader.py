"""The reader plans by names, and reads one segment after another."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from subscriber.errors import JournalCorrupt, JournalGap, JournalUnavailable
from subscriber.journal import reader as reader_module
from subscriber.journal.control import read_control
from subscriber.journal.reader import MESSAGE_SCHEMA, ROW_SCHEMA, JournalReader, read_finish, read_messages, read_rows
from subscriber.journal.segment import journal_entries
from subscriber.journal.storage import LocalStorage
from subscriber.lsn import INVALID_LSN, LSN, MAX_LSN
from subscriber.protocol import messages as m
from tests.frames import relation, transaction, values
from tests.journals import (
    T,
    commit_prepared,
    insert,
    keys_of,
    passed,
    prepare,
    publish,
    read,
    rollback_prepared,
    rows_of,
    segment_files,
    three_transactions,
    writing,
)

U = relation('Some "schema".Tab', {"a": "int4", "b": "text"}, key=["a"], oid=20000)


def at(microseconds: int) -> datetime:
    return datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def columns(folder, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in rows_of(folder)]


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


# Rows ---------------------------------------------------------------------------------------------


def test_rows_have_the_published_schema(tmp_path):
    three_transactions(tmp_path)
    reader = JournalReader(LocalStorage(tmp_path))
    for reading in reader.plan(INVALID_LSN, MAX_LSN):
        for batch in read(reader, reading):
            assert batch.schema == ROW_SCHEMA
            batch.validate(full=True)


def test_each_row_of_a_shared_segment_has_its_own_transaction(tmp_path):
    """It has the commit order, the number and the time of its transaction."""
    first = transaction(0x180, T, insert(1), xid=701, timestamp=1_000_000)
    message = m.LogicalMessage(False, LSN(0x1A0), "p", b"x")
    second = transaction(0x200, m.Truncate((T.relation_id,), False, False), xid=702, timestamp=2_000_000)
    with writing(tmp_path) as journal:
        publish(journal, 0x200, [*first, message, *second])
    one, two = (0x180, 701, at(1_000_000)), (0x200, 702, at(2_000_000))
    assert columns(tmp_path, "finish_lsn", "xid", "commit_timestamp") == [
        one, one, one, one, (0x1A0, 0, None), two, two, two,
    ]  # fmt: skip
    assert columns(tmp_path, "action", "relation") == [
        ("B", None), ("R", "public.t"), ("I", "public.t"), ("C", None), ("M", None), ("B", None), ("T", None), ("C", None),
    ]  # fmt: skip


def test_each_change_has_its_own_lsn(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
    assert columns(tmp_path, "lsn") == [(0x10,), (0x11,), (0x12,), (0x13,)]


def test_every_part_of_a_large_transaction_has_its_finish(tmp_path):
    begin, *changes, commit = transaction(0x200, T, insert(1), insert(2), xid=7, timestamp=3)
    with writing(tmp_path) as journal:
        publish(journal, 0x200, [begin, *changes[:2]], [changes[2]], [commit], xid=7)
    assert set(columns(tmp_path, "finish_lsn", "xid", "commit_timestamp")) == {(0x200, 7, at(3))}
    assert len(segment_files(tmp_path)) == 3
    actions = [row["action"] for row in rows_of(tmp_path)]
    assert actions == ["B", "R", "I", "R", "I", "C"]


def test_a_prepared_transaction_s_rows_belong_to_its_commit(tmp_path):
    """finish_lsn and commit_timestamp are those of COMMIT PREPARED, when the publisher committed
    it.
    """
    begin, *changes, end = prepare(0x200, T, insert(1), insert(2), xid=7)
    with writing(tmp_path) as journal:
        publish(journal, 0x200, [begin, *changes[:2]], [changes[2], end], kind="p", xid=7)
        publish(journal, 0x300, commit_prepared(0x300, xid=7), kind="k", xid=7)
    assert set(columns(tmp_path, "finish_lsn", "xid", "commit_timestamp")) == {(0x300, 7, at(9))}


def test_a_rollback_prepared_is_a_row_of_its_own(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, prepare(0x200, T, insert(1), xid=7), kind="p", xid=7)
        publish(journal, 0x300, rollback_prepared(0x300, xid=7), kind="r", xid=7)
    assert columns(tmp_path, "finish_lsn", "xid", "action", "commit_timestamp") == [(0x300, 7, "r", at(9))]


def test_each_segment_can_be_read_alone(tmp_path):
    """The descriptions it relies on come first, so the relation of every change is known."""
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, U, insert(1), insert(2, shape=U)))
        publish(journal, 0x300, transaction(0x300, insert(3)), relations={T.relation_id: T, U.relation_id: U})
        begin, change, commit = transaction(0x400, insert(4, shape=U), xid=7)
        publish(journal, 0x400, [begin, change], [commit], xid=7, relations={T.relation_id: T, U.relation_id: U})
    reader = JournalReader(LocalStorage(tmp_path))
    seen = [[(row["action"], row["relation"]) for batch in read(reader, reading) for row in batch.to_pylist()]
            for reading in reader.plan(INVALID_LSN, MAX_LSN)]  # fmt: skip
    assert seen[1] == [("R", "public.t"), ("B", None), ("I", "public.t"), ("C", None)]
    assert seen[2] == [("R", 'Some "schema".Tab'), ("B", None), ("I", 'Some "schema".Tab')]
    assert seen[3] == [("C", None)]


def test_each_row_has_the_name_that_its_relation_had_then(tmp_path):
    renamed = relation("public.renamed", {"a": "int4", "b": "text"}, key=["a"])
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1), renamed, insert(2), T, insert(3)))
    named = [row["relation"] for row in rows_of(tmp_path) if row["action"] == "I"]
    assert named == ["public.t", "public.renamed", "public.t"]


def test_a_long_segment_is_read_in_several_batches(tmp_path, monkeypatch):
    changes = [insert(number) for number in range(10)]
    with writing(tmp_path) as journal:
        publish(journal, 0x300, [*transaction(0x200, T, *changes, xid=1), *transaction(0x300, *changes, xid=2)])
    whole = rows_of(tmp_path)
    for size in (1, 3, 7):
        monkeypatch.setattr(reader_module, "BATCH_ROWS", size)
        assert rows_of(tmp_path) == whole


def test_null_unchanged_and_binary_values_are_kept_byte_for_byte(tmp_path):
    """Invariant absence_is_typed."""
    change = m.Update(T.relation_id, None, None, (m.BinaryValue(b"\0\0\0\1"), m.UNCHANGED))
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, change, m.Insert(T.relation_id, values("1", None))))
    from subscriber.protocol.encode import encode

    assert [row["message"] for row in rows_of(tmp_path)][2:4] == [
        encode(change), encode(m.Insert(T.relation_id, values("1", None))),
    ]  # fmt: skip


# Damage -------------------------------------------------------------------------------------------


def large_transaction(folder) -> None:
    begin, *changes, commit = transaction(0x200, T, *(insert(key, "text") for key in range(50)), xid=7)
    with writing(folder) as journal:
        publish(journal, 0x200, [begin, *changes], [commit], xid=7)


@pytest.mark.parametrize("damage", ["empty", "cut", "zeroed", "foreign", "no metadata"])
@pytest.mark.parametrize("part", [0, 1])
def test_a_damaged_segment_is_corrupt(tmp_path, damage, part):
    large_transaction(tmp_path)
    file = segment_files(tmp_path)[part]
    whole = file.read_bytes()
    reader = JournalReader(LocalStorage(tmp_path))
    readings = reader.plan(INVALID_LSN, MAX_LSN)
    if damage == "no metadata":
        table = pa.ipc.open_file(whole).read_all().replace_schema_metadata(None)
        with pa.ipc.new_file(str(file), table.schema) as writer:
            writer.write_table(table)
    else:
        content = {"empty": b"", "cut": whole[: len(whole) // 2], "zeroed": bytes(len(whole)), "foreign": b"x" * 5000}
        file.write_bytes(content[damage])
    with pytest.raises(JournalCorrupt, match=r"segment \".*\" cannot be read") as caught:
        list(read(reader, readings[part]))
    assert (caught.value.lsn, caught.value.transient, caught.value.sqlstate) == (0x200, False, "XX001")
    assert caught.value.hint


@pytest.mark.parametrize("part", [0, 1])
def test_a_segment_that_was_removed_after_planning_is_corrupt(tmp_path, part):
    large_transaction(tmp_path)
    reader = JournalReader(LocalStorage(tmp_path))
    readings = reader.plan(INVALID_LSN, MAX_LSN)
    segment_files(tmp_path)[part].unlink()
    with pytest.raises(JournalCorrupt):
        list(read(reader, readings[part]))


def test_a_flipped_byte_is_reported_or_changes_no_row(tmp_path):
    """Arrow has no checksums and follows offsets blindly: no flip may end in other values, or in an
    error not ours.
    """
    large_transaction(tmp_path)
    file = segment_files(tmp_path)[0]
    whole = file.read_bytes()
    reader = JournalReader(LocalStorage(tmp_path))
    reading = reader.plan(INVALID_LSN, MAX_LSN)[0]
    finish = read_finish(reader.storage, reading)
    expected = list(read_rows(reader.storage, reading, finish))
    refused = 0
    for place in range(0, len(whole), 3):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            assert list(read_rows(reader.storage, reading, finish)) == expected, place
        except JournalCorrupt:
            refused += 1
    assert refused > 500


def test_a_storage_that_does_not_answer_is_a_transient_error(tmp_path, monkeypatch):
    three_transactions(tmp_path)
    reader = JournalReader(LocalStorage(tmp_path))
    (first, *_) = reader.plan(INVALID_LSN, MAX_LSN)

    def down(self, name):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(LocalStorage, "open", down)
    with pytest.raises(JournalUnavailable, match="cannot be reached: Input/output error") as caught:
        list(read(reader, first))
    assert caught.value.transient


# Messages for decoding ----------------------------------------------------------------------------


def test_the_messages_of_a_segment_begin_with_the_relations_that_it_needs(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        publish(journal, 0x300, transaction(0x300, insert(2)), relations={T.relation_id: T})
    storage = LocalStorage(tmp_path)
    first = []
    for reading in JournalReader(storage).plan(LSN(0x100), LSN(0x300)):
        rows = pa.Table.from_batches(read_rows(storage, reading))
        messages = pa.Table.from_batches(read_messages(storage, reading))
        assert messages.schema == MESSAGE_SCHEMA
        for name in ("lsn", "message"):
            assert messages.column(name).to_pylist() == rows.column(name).to_pylist()
        first.append(messages.column("message")[0].as_py()[:1])
    assert first == [b"B", b"R"]  # the first transaction has the message itself


def test_the_messages_of_a_prepared_transaction_have_the_end_lsn_that_it_is_read_for(tmp_path):
    """C50a: decoding passes it on beside the Begin Prepare. A run of transactions needs none."""
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        publish(journal, 0x300, prepare(0x300, T, insert(2), xid=7), kind="p", xid=7)
        publish(journal, 0x400, commit_prepared(0x400, xid=7), kind="k", xid=7)
    storage = LocalStorage(tmp_path)
    ends = [
        set(batch.column("finish_lsn").to_pylist())
        for reading in JournalReader(storage).plan(LSN(0x100), LSN(0x400))
        for batch in read_messages(storage, reading, read_finish(storage, reading))
        if batch.num_rows
    ]
    assert ends[0] == {0}
    assert set.union(*ends[1:]) == {0x400}


def test_the_messages_of_a_segment_that_was_changed_are_refused(tmp_path):
    three_transactions(tmp_path)
    segment_files(tmp_path)[0].write_bytes(b"no segment")
    storage = LocalStorage(tmp_path)
    (first, *_) = JournalReader(storage).plan(LSN(0x100), LSN(0x400))
    with pytest.raises(JournalCorrupt):
        list(read_messages(storage, first))
