from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.errors import TargetRelationError
from tests.unit.targets.tables import execute, reflected, rows


@pytest.fixture
def tables(target):
    """Two tables with one row each."""
    execute(target, "CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)")
    execute(target, "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    return [reflected(target, "t"), reflected(target, "u")]


def test_truncate_deletes_the_rows_of_all_tables(target, tables):
    """C29"""
    with target.begin() as connection:
        target.writing.truncate(connection, tables, restart_identity=False)
    assert rows(target, "SELECT * FROM t UNION ALL SELECT * FROM u") == []


def test_a_truncate_is_rolled_back_with_its_transaction(target, tables):
    with pytest.raises(InterruptedError), target.begin() as connection:
        target.writing.truncate(connection, tables, restart_identity=False)
        raise InterruptedError
    assert rows(target, "SELECT a FROM t") == [{"a": 1}]


def test_restart_identity_is_refused_before_any_row_is_deleted(target, tables):
    """C29, refuse_not_guess"""
    with target.begin() as connection:
        with pytest.raises(TargetRelationError) as raised:
            target.writing.truncate(connection, tables, restart_identity=True)
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar_one() == 1
    assert (raised.value.message, raised.value.sqlstate) == (
        "the target cannot restart identities on TRUNCATE",
        "0A000",
    )
    assert raised.value.hint == "Truncate at the publisher with CONTINUE IDENTITY."


def test_statements_are_left_as_they_are(target, tables):
    (table, _) = tables
    insert = sa.insert(table.clause()).values(a=1)
    assert target.writing.or_fail(table, insert) is insert
    assert target.writing.override_identity("INSERT INTO t (a) VALUES (?)") == "INSERT INTO t (a) VALUES (?)"
    assert not target.writing.may_suppress(table)
