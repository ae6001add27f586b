"""TRUNCATE in DuckDB."""

from __future__ import annotations

import pytest

from subscriber.errors import ConflictError
from tests.unit.targets.tables import execute, reflected, rows


def test_truncate_is_restricted(target):
    """C29, C30"""
    execute(target, "CREATE TABLE p (a int PRIMARY KEY)", "CREATE TABLE c (a int REFERENCES p (a))")
    parent, child = reflected(target, "p"), reflected(target, "c")
    with pytest.raises(ConflictError, match="cannot truncate") as raised, target.begin() as connection:
        target.writing.truncate(connection, [parent], restart_identity=False)
    assert raised.value.detail == 'Table "c" references "p".'
    with target.begin() as connection:
        target.writing.truncate(connection, [parent, child], restart_identity=False)


def test_truncate_restarts_the_sequences_of_its_columns(target):
    """C29"""
    execute(
        target,
        "CREATE SCHEMA s",
        "CREATE SEQUENCE s.q MINVALUE 5",
        "CREATE SEQUENCE other",
        "CREATE TABLE t (a int DEFAULT nextval('s.q'), b int DEFAULT nextval('other'), c int)",
        "CREATE TABLE o (b int DEFAULT nextval('other'))",
        "INSERT INTO t (c) VALUES (1), (2)",
    )
    with target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=False)
        target.writing.truncate(connection, [reflected(target, "o")], restart_identity=True)
    execute(target, "INSERT INTO t (c) VALUES (3)")
    assert rows(target, "SELECT * FROM t") == [{"a": 7, "b": 1, "c": 3}]
    with target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=True)
    execute(target, "INSERT INTO t (c) VALUES (4)")
    assert rows(target, "SELECT * FROM t") == [{"a": 5, "b": 1, "c": 4}]


@pytest.mark.parametrize(
    ("options", "first"),
    [("START 7 MINVALUE 5", 5), ("INCREMENT -2 MINVALUE -9 MAXVALUE -3 START -5", -3)],
    ids=["up", "down"],
)
def test_a_sequence_restarts_from_the_end_at_which_it_begins(target, options, first):
    """C29: DuckDB loses START when it opens the file again."""
    execute(target, f"CREATE SEQUENCE q {options}", "CREATE TABLE t (a int DEFAULT nextval('q'), b int)")
    execute(target, "INSERT INTO t (b) VALUES (1), (2)")
    with target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=True)
    execute(target, "INSERT INTO t (b) VALUES (3)")
    assert rows(target, "SELECT * FROM t") == [{"a": first, "b": 3}]


def test_a_table_is_truncated_if_it_references_itself(target):
    """C30"""
    execute(target, "CREATE TABLE t (a int PRIMARY KEY, b int REFERENCES t (a))", "INSERT INTO t VALUES (1, NULL)")
    with target.begin() as connection:
        target.writing.truncate(connection, [reflected(target, "t")], restart_identity=False)
    assert rows(target, "SELECT * FROM t") == []
