"""The messages of a segment as rows, each with the end of its transaction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from subscriber.base.errors import JournalCorrupt
from subscriber.base.lsn import INVALID_LSN, LSN, MAX_LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.encode_message import encode
from subscriber.stream.journal import message_rows
from subscriber.stream.journal.message_rows import (
    FROM_BEFORE,
    MESSAGE_SCHEMA,
    ROW_SCHEMA,
    read_finish,
    read_messages,
    read_rows,
)
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import relation, transaction, values
from tests.journals import (
    T,
    commit_prepared,
    filled,
    insert,
    prepare,
    publish,
    read,
    rollback_prepared,
    rows_of,
    segment_files,
    three_transactions,
    writing,
)
from tests.streams import frame

U = relation('Some "schema".Tab', {"a": "int4", "b": "text"}, key=["a"], oid=20000)


def at(microseconds: int) -> datetime:
    return datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def columns(folder, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in rows_of(folder)]


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
        monkeypatch.setattr(message_rows, "BATCH_ROWS", size)
        assert rows_of(tmp_path) == whole


def test_a_segment_may_have_nothing_but_a_message_outside_of_transactions(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, [m.LogicalMessage(False, LSN(0x200), "p", b"x")])
    assert columns(tmp_path, "finish_lsn", "xid", "action", "commit_timestamp") == [(0x200, 0, "M", None)]


def test_many_small_transactions_have_their_own_ends(tmp_path):
    ends = range(0x200, 0x1200, 0x100)
    messages = [
        message
        for number, end in enumerate(ends)
        for message in transaction(end, *([T] if number == 0 else []), insert(number), xid=700 + number, timestamp=end)
    ]
    with writing(tmp_path) as journal:
        publish(journal, ends[-1], messages)
    inserts = [row for row in columns(tmp_path, "action", "finish_lsn", "xid", "commit_timestamp") if row[0] == "I"]
    assert inserts == [("I", end, 700 + number, at(end)) for number, end in enumerate(ends)]


def test_a_commit_with_another_size_is_refused(tmp_path):
    *rest, commit = transaction(0x200, T, insert(1))
    with writing(tmp_path) as journal:
        builder = filled(journal, [rest])
        builder.append(frame(commit, 0x50) + b"!")
        journal.publish(builder, LSN(0x200), kind="t", xid=0, finish=encode(commit))
    with pytest.raises(JournalCorrupt):
        rows_of(tmp_path)


def test_null_unchanged_and_binary_values_are_kept_byte_for_byte(tmp_path):
    """Invariant absence_is_typed."""
    change = m.Update(T.relation_id, None, None, (m.BinaryValue(b"\0\0\0\1"), m.UNCHANGED))
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, change, m.Insert(T.relation_id, values("1", None))))
    assert [row["message"] for row in rows_of(tmp_path)][2:4] == [
        encode(change), encode(m.Insert(T.relation_id, values("1", None))),
    ]  # fmt: skip


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
        assert messages.column("message").to_pylist() == rows.column("message").to_pylist()
        first.append(messages.column("message")[0].as_py()[:1])
        from_before = FROM_BEFORE if first[-1] == b"R" else 0x10
        assert messages.column("lsn").to_pylist() == [from_before, *rows.column("lsn").to_pylist()[1:]]
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
