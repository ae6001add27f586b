"""The rows of transactions that are prepared in the target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.lsn import LSN
from subscriber.catalog.prepared_transactions import (
    PreparedTransaction,
    forget_prepared,
    list_prepared,
    mark_committed,
    read_prepared,
    write_prepared,
)
from subscriber.postgres.protocol.messages import BeginPrepare, RollbackPrepared

PREPARED = PreparedTransaction(
    subid=1, xid=731, gid="pg_gid_1_731", prepare_end_lsn=LSN(0x16B3778), prepare_timestamp=1_000_000
)


def test_a_row_is_read_back(connection):
    assert read_prepared(connection, 1, 731) is None
    write_prepared(connection, PREPARED)
    assert read_prepared(connection, 1, 731) == PREPARED
    assert read_prepared(connection, 2, 731) is None


def test_a_new_transaction_replaces_an_earlier_one_with_its_number(connection):
    write_prepared(connection, PREPARED)
    mark_committed(connection, 1, 731)
    later = replace(PREPARED, prepare_end_lsn=LSN(0x2000000))
    write_prepared(connection, later)
    assert list_prepared(connection, 1) == [later]
    assert not later.committed


def test_a_transaction_is_committed_alone(connection):
    other = replace(PREPARED, xid=732)
    for one in (other, PREPARED, replace(PREPARED, subid=2)):
        write_prepared(connection, one)
    mark_committed(connection, 1, 731)
    assert list_prepared(connection, 1) == [replace(PREPARED, committed=True), other]
    assert list_prepared(connection, 2) == [replace(PREPARED, subid=2)]


def test_a_finished_transaction_is_forgotten_alone(connection):
    for one in (PREPARED, replace(PREPARED, xid=732), replace(PREPARED, subid=2)):
        write_prepared(connection, one)
    forget_prepared(connection, 1, 731)
    forget_prepared(connection, 1, 999)
    assert [one.xid for one in list_prepared(connection, 1)] == [732]
    assert [one.xid for one in list_prepared(connection, 2)] == [731]


def begin(end: int, timestamp: int) -> BeginPrepare:
    return BeginPrepare(LSN(end - 8), LSN(end), timestamp, 731, "g")


def rollback(prepare_end: int, timestamp: int) -> RollbackPrepared:
    return RollbackPrepared(LSN(prepare_end), LSN(prepare_end + 100), timestamp, 2_000_000, 731, "g")


@pytest.mark.parametrize("message", [begin, rollback])
def test_a_transaction_is_recognized_by_the_end_and_the_time_of_its_prepare(message):
    """C50: LookupGXact of PostgreSQL compares both, because a number may be used again."""
    assert PREPARED.is_of(message(0x16B3778, 1_000_000))
    assert not PREPARED.is_of(message(0x16B3779, 1_000_000))
    assert not PREPARED.is_of(message(0x16B3778, 1_000_001))
