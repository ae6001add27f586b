from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.catalog import SUBSCRIPTION_STATS, ConflictKind, OriginProgress, count_conflicts
from subscriber.errors import ProgressConflict
from subscriber.lsn import LSN

BIG = LSN(0xFFFF_FFFF_0000_0001)


def test_progress_is_kept_for_each_origin(target):
    """C34"""
    with target.begin() as connection:
        OriginProgress(2).create(connection, BIG)
        assert OriginProgress(2).read(connection) == BIG
        assert OriginProgress(1).read(connection) == 100
        OriginProgress(2).drop(connection)
        with pytest.raises(ProgressConflict, match='replication origin "pg_2" does not exist') as raised:
            OriginProgress(2).read(connection)
    assert raised.value.sqlstate == "42704"


def test_progress_moves_by_compare_and_set(target):
    """progress_with_data"""
    with target.begin() as connection:
        OriginProgress(1).lock(connection, LSN(100))
        OriginProgress(1).advance(connection, LSN(100), BIG)
        assert OriginProgress(1).read(connection) == BIG
        with pytest.raises(ProgressConflict, match="no longer at 0/64"):
            OriginProgress(1).lock(connection, LSN(100))
        with pytest.raises(ProgressConflict, match="no longer at 0/64"):
            OriginProgress(1).advance(connection, LSN(100), BIG)


def test_progress_never_moves_back(target):
    with target.begin() as connection, pytest.raises(ProgressConflict, match="cannot move back from 0/64 to 0/63"):
        OriginProgress(1).advance(connection, LSN(100), LSN(99))


def test_progress_that_is_rolled_back_has_not_moved(target, stored):
    """progress_with_data: it shares the data's transaction."""

    def interrupted() -> None:
        with target.begin() as connection:
            OriginProgress(1).advance(connection, LSN(100), LSN(200))
            raise InterruptedError

    with pytest.raises(InterruptedError):
        interrupted()
    assert stored() == 100


def test_conflicts_are_added_up(target):
    with target.begin() as connection:
        count_conflicts(connection, 1, "sub", {})
        assert connection.execute(sa.select(SUBSCRIPTION_STATS)).all() == []
        count_conflicts(connection, 1, "sub", {ConflictKind.UPDATE_MISSING: 2})
        count_conflicts(connection, 1, "sub", {ConflictKind.UPDATE_MISSING: 1, ConflictKind.DELETE_MISSING: 5})
        row = connection.execute(sa.select(SUBSCRIPTION_STATS)).one()
    assert (row.subname, row.confl_update_missing, row.confl_delete_missing, row.confl_insert_exists) == (
        "sub",
        3,
        5,
        0,
    )


def test_the_statistics_have_postgresqls_column_names():
    """pg_stat_subscription_stats of PostgreSQL 18, in its order"""
    assert [column.name for column in SUBSCRIPTION_STATS.columns][:12] == [
        "subid",
        "subname",
        "apply_error_count",
        "sync_error_count",
        "confl_insert_exists",
        "confl_update_origin_differs",
        "confl_update_exists",
        "confl_update_missing",
        "confl_delete_origin_differs",
        "confl_delete_missing",
        "confl_multiple_unique_conflicts",
        "stats_reset",
    ]
