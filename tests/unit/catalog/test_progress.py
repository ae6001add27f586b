"""The progress of a subscription: it moves by compare-and-set, with the data."""

from __future__ import annotations

import pytest

from subscriber.base.errors import ProgressConflict
from subscriber.base.lsn import LSN
from subscriber.catalog.progress import OriginProgress

BIG = LSN(0xFFFF_FFFF_0000_0001)
FIRST = OriginProgress(1)


@pytest.fixture(autouse=True)
def origin(target) -> None:
    """Origin pg_1 is at 0/64."""
    with target.begin() as connection:
        FIRST.create(connection, LSN(100))


def test_progress_is_kept_for_each_origin(connection):
    """C34"""
    second = OriginProgress(2)
    second.create(connection, BIG)
    assert second.read(connection) == BIG
    assert FIRST.read(connection) == 100
    second.drop(connection)
    second.drop(connection)
    assert second.find(connection) is None
    with pytest.raises(ProgressConflict, match='replication origin "pg_2" does not exist') as raised:
        second.read(connection)
    assert raised.value.sqlstate == "42704"


def test_the_origin_has_postgresqls_name():
    """ReplicationOriginNameForLogicalRep of PostgreSQL writes pg_%u with the subscription's oid."""
    assert (OriginProgress(16394).name, OriginProgress(16394).of_subscription) == ("pg_16394", True)


def test_progress_moves_by_compare_and_set(connection):
    """progress_with_data"""
    FIRST.lock(connection, LSN(100))
    FIRST.advance(connection, LSN(100), BIG)
    assert FIRST.read(connection) == BIG
    with pytest.raises(ProgressConflict, match="no longer at 0/64"):
        FIRST.lock(connection, LSN(100))
    with pytest.raises(ProgressConflict, match="no longer at 0/64"):
        FIRST.advance(connection, LSN(100), BIG)


def test_progress_may_stay_where_it_is(connection):
    FIRST.advance(connection, LSN(100), LSN(100))
    assert FIRST.read(connection) == 100


def test_progress_never_moves_back(connection):
    with pytest.raises(ProgressConflict, match="cannot move back from 0/64 to 0/63"):
        FIRST.advance(connection, LSN(100), LSN(99))


@pytest.mark.parametrize("lsn", [50, 100, 200])
def test_progress_begins_again_where_a_new_slot_does(connection, lsn):
    """Also before where it was: the publisher may have been restored to an older state."""
    FIRST.restart(connection, LSN(100), LSN(lsn))
    assert FIRST.read(connection) == lsn
    with pytest.raises(ProgressConflict):
        FIRST.restart(connection, LSN(99), LSN(300))


def test_an_origin_that_is_not_tracked_cannot_be_locked(connection):
    with pytest.raises(ProgressConflict, match='origin "pg_2" is no longer at 0/64') as raised:
        OriginProgress(2).lock(connection, LSN(100))
    assert raised.value.sqlstate == "40001"


def test_progress_that_is_rolled_back_has_not_moved(target):
    """progress_with_data: it is part of the data's transaction."""

    def interrupted() -> None:
        with target.begin() as connection:
            FIRST.advance(connection, LSN(100), LSN(200))
            raise InterruptedError

    with pytest.raises(InterruptedError):
        interrupted()
    with target.begin() as connection:
        assert FIRST.read(connection) == 100
