"""What sessions share: the WAL and the counters."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.memory_state import MemoryState
from tests.output_plugins import row


def test_records_follow_each_other_and_those_without_bytes_have_no_length():
    state = MemoryState()
    begin = state.log(wal.BeginRecord, xid=731)
    insert = state.log(wal.InsertRecord, xid=731, relation_oid=1, new=row("x" * 100))
    small = state.log(wal.InsertRecord, xid=731, relation_oid=1, new=row("x"))
    assert begin.lsn == begin.end_lsn == insert.lsn
    assert insert.end_lsn == small.lsn
    assert insert.end_lsn - insert.lsn > small.end_lsn - small.lsn > 0
    assert {record.lsn % 8 for record in state.records} == {0}
    assert state.records == [begin, insert, small]


def test_numbers_and_times_are_predictable():
    state = MemoryState()
    assert [state.new_xid(), state.new_xid(), state.new_oid(), state.new_oid()] == [731, 732, 16384, 16385]
    assert state.now() + 1000 == state.now()
    assert not state.did_abort(731)


def test_an_origin_that_was_not_created_is_postgresqls_error():
    with pytest.raises(UsageError, match=r'^replication origin "o" does not exist$'):
        MemoryState().origin("o")
