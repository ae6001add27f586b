"""get and peek: what they return, where they end, and how they move the slot (rules E10, E11)."""

from __future__ import annotations

import pytest

from subscriber.base.errors import OutputPluginError, OutputPluginFailed, UsageError, WalRecordError
from subscriber.postgres.logical_decoding import (
    MemoryDatabase,
    RecordedWal,
    ReorderSettings,
    ReplicationSlot,
    SlotFunctions,
)
from subscriber.postgres.logical_decoding.plugins.test_decoding import TestDecoding
from subscriber.postgres.logical_decoding.sql_functions import options_of
from tests.output_plugins import CATALOG, Wal, recording_plugin


@pytest.fixture
def publisher() -> MemoryDatabase:
    made = MemoryDatabase()
    made.create_table("t", {"a": "integer"})
    session = made.session()
    for number in range(1, 4):
        session.insert("t", a=number)
    return made


def functions_of(publisher: MemoryDatabase, plugin: object = None, **properties: bool) -> SlotFunctions:
    slot = ReplicationSlot("s", "test_decoding", **properties)
    return SlotFunctions(plugin or TestDecoding(), slot, RecordedWal.of(publisher))


def test_the_wal_of_a_publisher_knows_what_was_rolled_back():
    """E14: a block of a transaction that is known to be rolled back ends at once."""
    publisher = MemoryDatabase()
    publisher.create_table("t", {"a": "integer"})
    session = publisher.session()
    session.begin()
    session.insert("t", a=4)
    session.rollback()
    plugin, recorder = recording_plugin()
    settings = ReorderSettings(debug_logical_replication_streaming="immediate")
    SlotFunctions(plugin, ReplicationSlot("s", "p"), RecordedWal.of(publisher), settings=settings).peek_binary_changes()
    streamed = [one for one in recorder.calls if one.startswith("stream")]
    assert streamed == ["stream_start 732", "stream_stop 732", "stream_abort 732"]


def rows(changes) -> list[str]:
    return [change.data.removeprefix("table public.t: INSERT: ") for change in changes]


WHOLE = ["BEGIN", "COMMIT", "BEGIN", "a[integer]:1", "COMMIT", "BEGIN", "a[integer]:2", "COMMIT", "BEGIN", "a[integer]:3", "COMMIT"]  # fmt: skip
NO_XIDS = ("include-xids", "0")


def test_peek_does_not_move_the_slot_and_get_does(publisher):
    slot = functions_of(publisher)
    assert rows(slot.peek_changes(None, None, *NO_XIDS)) == WHOLE
    assert slot.slot.confirmed_flush == 0
    assert rows(slot.get_changes(None, None, *NO_XIDS)) == WHOLE
    assert slot.slot.confirmed_flush == publisher.records[-1].end_lsn
    assert slot.get_changes() == slot.peek_changes() == []
    publisher.session().insert("t", a=4)
    assert rows(slot.get_changes(None, None, *NO_XIDS)) == ["BEGIN", "a[integer]:4", "COMMIT"]


def test_a_row_has_the_position_and_the_transaction(publisher):
    begin, change, commit = functions_of(publisher).peek_changes(None, 3)[2:]
    assert (begin.xid, change.xid, commit.xid) == (732, 732, 732)
    assert begin.lsn == change.lsn < commit.lsn
    assert functions_of(publisher).peek_binary_changes()[2] == (begin.lsn, 732, b"BEGIN 732")


@pytest.mark.parametrize(("limit", "returned"), [(1, 2), (2, 2), (3, 5), (5, 5), (6, 8), (0, 11), (None, 11), (-1, 0)])
def test_the_number_of_changes_is_tested_after_each_record_so_that_transactions_are_whole(publisher, limit, returned):
    """E11; 0 is no limit, and a negative number returns nothing, as PostgreSQL 15.18 showed."""
    slot = functions_of(publisher)
    assert rows(slot.peek_changes(None, limit, *NO_XIDS)) == WHOLE[:returned]
    assert len(slot.get_changes(None, limit)) + len(slot.get_changes()) == 11


def test_reading_ends_with_the_record_that_reaches_the_position(publisher):
    """E11."""
    slot = functions_of(publisher)
    commit = slot.peek_changes()[4]
    assert rows(slot.peek_changes(commit.lsn, None, *NO_XIDS)) == WHOLE[:5]
    assert rows(slot.peek_changes(commit.lsn - 1, None, *NO_XIDS)) == WHOLE[:5]
    assert rows(slot.peek_changes(commit.lsn + 1, None, *NO_XIDS)) == WHOLE[:5]
    assert slot.peek_changes(1) == []
    assert rows(slot.get_changes(commit.lsn, None, *NO_XIDS)) == WHOLE[:5]
    assert rows(slot.get_changes(None, None, *NO_XIDS)) == WHOLE[5:]


def test_a_transaction_in_progress_is_returned_by_the_call_after_its_commit(publisher):
    slot = functions_of(publisher)
    session = publisher.session()
    session.begin()
    session.insert("t", a=4)
    publisher.session().insert("t", a=5)
    assert rows(slot.get_changes(None, None, *NO_XIDS))[-3:] == ["BEGIN", "a[integer]:5", "COMMIT"]
    session.commit()
    assert rows(slot.get_changes(None, None, *NO_XIDS)) == ["BEGIN", "a[integer]:4", "COMMIT"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["include-xids"], "array must have even number of elements"),
        (["include-xids", None], "array must not contain nulls"),
        ([None], "array must not contain nulls"),
        ([["a", "b"], ["c", "d"]], "array must be one-dimensional"),
        ([["include-xids", "0"]], "array must be one-dimensional"),
    ],
)
def test_a_bad_array_of_options_is_refused_as_postgresql_does(publisher, options, message):
    """E11."""
    with pytest.raises(UsageError) as caught:
        functions_of(publisher).get_changes(None, None, *options)
    assert (caught.value.message, caught.value.sqlstate) == (message, "0A000")


def test_a_name_may_be_given_twice():
    assert options_of(["a", "1", "a", "2"]) == (("a", "1"), ("a", "2"))
    assert options_of([]) == ()


@pytest.mark.parametrize("peek", [True, False])
def test_binary_output_is_refused_by_the_functions_for_text_only(publisher, peek):
    """E10."""
    slot = functions_of(publisher)
    word = "peek" if peek else "get"
    with pytest.raises(OutputPluginError) as caught:
        getattr(slot, f"{word}_changes")(None, None, "force-binary", "1")
    assert caught.value.sqlstate == "0A000"
    assert caught.value.message == (
        'logical decoding output plugin "test_decoding" produces binary output, but function '
        f'"pg_logical_slot_{word}_changes(name,pg_lsn,integer,text[])" expects textual data'
    )
    changes = getattr(slot, f"{word}_binary_changes")(None, None, "force-binary", "1")
    assert [change.data for change in changes][2:4] == [b"BEGIN 732", b"table public.t: INSERT: a[integer]:1"]


def test_a_call_that_fails_does_not_move_the_slot(publisher):
    def fail(_ctx, txn, *_rest):
        if txn.xid == 733:
            raise ValueError

    slot = functions_of(publisher, recording_plugin(change=fail)[0])
    with pytest.raises(OutputPluginFailed):
        slot.get_binary_changes()
    assert slot.slot.confirmed_flush == 0


def test_rows_are_returned_while_the_wal_is_read(publisher):
    read = []

    def records():
        for record in publisher.records:
            read.append(record)
            yield record

    slot = SlotFunctions(TestDecoding(), ReplicationSlot("s", "test_decoding"), RecordedWal(records))
    changes = slot.iterate_changes(peek=False)
    assert next(changes).data == "BEGIN 731"
    assert len(read) < len(publisher.records)
    assert len(list(changes)) == 10
    assert slot.slot.confirmed_flush == publisher.records[-1].end_lsn


def test_records_in_commit_order_may_go_back_to_the_beginning_of_a_transaction():
    wal = Wal()
    wal.position = 500
    wal.begin(8)
    wal.insert(8, "8")
    wal.commit(8)
    wal.position = 300
    wal.begin(7)
    wal.insert(7, "7")
    wal.position = 600
    wal.commit(7)
    in_wal_order, in_commit_order = (
        SlotFunctions(
            TestDecoding(), ReplicationSlot("s", "t"), RecordedWal(lambda: wal.records, CATALOG, commit_order)
        )
        for commit_order in (False, True)
    )
    with pytest.raises(WalRecordError):
        in_wal_order.get_changes()
    texts = rows(in_commit_order.get_changes(None, None, *NO_XIDS))
    assert texts == ["BEGIN", "a[integer]:8", "COMMIT", "BEGIN", "a[integer]:7", "COMMIT"]
    assert in_commit_order.slot.confirmed_flush == 608
    in_commit_order.slot.confirmed_flush = 0
    assert len(in_commit_order.get_changes(516)) == 3
    assert [change.xid for change in in_commit_order.get_changes()] == [7, 7, 7]


def test_in_commit_order_a_transaction_that_commits_after_the_position_is_not_returned():
    """There are gaps between its records, so that none of them need end at the position."""
    wal = Wal()
    wal.begin(7)
    wal.insert(7, "7")
    wal.position = 600
    wal.commit(7)
    slot = SlotFunctions(
        TestDecoding(), ReplicationSlot("s", "t"), RecordedWal(lambda: wal.records, CATALOG, commit_order=True)
    )
    assert slot.get_changes(550) == []
    assert len(slot.get_changes(608)) == 3
