"""Transactions that are prepared in the target: what a row of the catalog and a GID mean together.
Real prepared transactions are in tests/conformance/test_two_phase.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.apply.prepared import (
    forget_finished,
    gid_to_commit,
    prepared_gid,
    prepared_names,
    still_prepared,
    write_to_prepare,
)
from subscriber.base.errors import ApplyError
from subscriber.base.lsn import LSN
from subscriber.catalog.prepared_transactions import (
    PreparedTransaction,
    list_prepared,
    mark_committed,
    read_prepared,
    write_prepared,
)
from subscriber.postgres.protocol.messages import BeginPrepare, CommitPrepared
from tests.prepared_transactions import with_prepared_transactions

GID = "pg_gid_1_731"
BEGIN = BeginPrepare(LSN(150), LSN(160), prepare_timestamp=1_000_000, xid=731, gid="at the publisher")
LATER = replace(BEGIN, end_lsn=LSN(260))
COMMIT = CommitPrepared(LSN(192), LSN(200), 2, 731, "at the publisher")
ROW = PreparedTransaction(subid=1, xid=731, gid=GID, prepare_end_lsn=LSN(160), prepare_timestamp=1_000_000)


@pytest.fixture
def prepared(target):
    """The target, a connection, and the GIDs that are prepared."""
    able, role = with_prepared_transactions(target)
    with able.begin() as connection:
        yield able, connection, role


def test_the_gid_has_the_numbers_of_subscription_and_transaction():
    """C49: TwoPhaseTransactionGid of PostgreSQL writes pg_gid_%u_%u."""
    assert prepared_gid(16394, 731) == "pg_gid_16394_731"


def test_a_target_that_cannot_prepare_has_no_gids(target):
    with target.begin() as connection:
        assert prepared_names(target, connection) == frozenset()
        assert still_prepared(target, connection, 1) == []


def test_a_new_transaction_gets_a_row(prepared):
    target, connection, _ = prepared
    assert write_to_prepare(target, connection, 1, BEGIN) == ROW
    assert read_prepared(connection, 1, 731) == ROW


@pytest.mark.parametrize("state", ["prepared", "committed"])
def test_a_transaction_is_not_prepared_again_by_a_replay(prepared, state):
    """C50a"""
    target, connection, role = prepared
    write_prepared(connection, ROW)
    if state == "prepared":
        role.gids.add(GID)
    else:
        mark_committed(connection, 1, 731)
    assert write_to_prepare(target, connection, 1, BEGIN) is None


def test_a_transaction_that_was_rolled_back_by_hand_is_prepared_again(prepared):
    target, connection, _ = prepared
    write_prepared(connection, ROW)
    assert write_to_prepare(target, connection, 1, BEGIN) == ROW


def test_a_later_transaction_with_the_same_number_replaces_the_row(prepared):
    """C50: transaction numbers are used again after a wraparound."""
    target, connection, _ = prepared
    write_prepared(connection, ROW)
    mark_committed(connection, 1, 731)
    later = replace(ROW, prepare_end_lsn=LSN(260))
    assert write_to_prepare(target, connection, 1, LATER) == later
    assert list_prepared(connection, 1) == [later]


def test_a_gid_that_another_database_uses_is_avoided(prepared):
    target, connection, role = prepared
    role.used_elsewhere.add(GID)
    written = write_to_prepare(target, connection, 1, BEGIN)
    assert written is not None
    assert written.gid == f"{GID}_2"


@pytest.mark.parametrize("row", [None, ROW], ids=["without a row", "of an earlier transaction"])
def test_a_gid_that_is_prepared_in_this_database_is_refused(prepared, row):
    target, connection, role = prepared
    role.gids.add(GID)
    if row is not None:
        write_prepared(connection, row)
    with pytest.raises(ApplyError, match=f'^transaction identifier "{GID}" is already in use$') as caught:
        write_to_prepare(target, connection, 1, LATER)
    assert caught.value.sqlstate == "42710"


def test_a_prepared_transaction_is_committed_by_the_gid_of_its_row(prepared):
    target, connection, role = prepared
    role.gids.add(f"{GID}_2")
    write_prepared(connection, replace(ROW, gid=f"{GID}_2"))
    assert gid_to_commit(target, connection, 1, COMMIT) == f"{GID}_2"


def test_a_transaction_is_not_committed_again_by_a_replay(prepared):
    target, connection, _ = prepared
    write_prepared(connection, ROW)
    mark_committed(connection, 1, 731)
    assert gid_to_commit(target, connection, 1, COMMIT) is None


@pytest.mark.parametrize("row", [None, replace(ROW, gid="other")], ids=["without a row", "rolled back by hand"])
def test_a_transaction_that_is_not_prepared_cannot_be_committed(prepared, row):
    """PostgreSQL: 42704, undefined_object."""
    target, connection, _ = prepared
    if row is not None:
        write_prepared(connection, row)
    name = GID if row is None else "other"
    with pytest.raises(ApplyError, match=f'^prepared transaction with identifier "{name}" does not exist$') as caught:
        gid_to_commit(target, connection, 1, COMMIT)
    assert caught.value.sqlstate == "42704"


def test_the_rows_of_finished_transactions_are_forgotten(prepared):
    target, connection, role = prepared
    open_, finished, of_another = replace(ROW, gid="open"), replace(ROW, xid=732), replace(ROW, subid=2)
    for row in (open_, finished, of_another):
        write_prepared(connection, row)
    role.gids.add("open")
    assert still_prepared(target, connection, 1) == [open_]
    assert forget_finished(target, connection, 1) == [open_]
    assert (list_prepared(connection, 1), list_prepared(connection, 2)) == ([open_], [of_another])
