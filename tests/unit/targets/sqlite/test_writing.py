"""Statements that write to SQLite."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.errors import ConflictError
from tests.unit.targets.tables import execute, reflected, rows


def truncate(target, *names: str, restart_identity: bool = False) -> None:
    with target.begin() as connection:
        tables = [target.shapes.reflect(connection, "public", name) for name in names]
        target.writing.truncate(connection, tables, restart_identity=restart_identity)


def test_truncate_refuses_a_table_that_another_refers_to(target):
    """C30"""
    execute(target, "CREATE TABLE p (a INTEGER PRIMARY KEY)", 'CREATE TABLE "c%" (a REFERENCES P (a))')
    with pytest.raises(ConflictError) as raised:
        truncate(target, "p")
    assert raised.value.message == "cannot truncate a table referenced in a foreign key constraint"
    assert raised.value.detail == 'Table "c%" references "p".'
    truncate(target, "p", "c%")


def test_a_table_may_refer_to_itself(target):
    execute(target, "CREATE TABLE p (a INTEGER PRIMARY KEY, b REFERENCES p (a))", "INSERT INTO p VALUES (1, 1)")
    truncate(target, "p")
    assert rows(target, "SELECT * FROM p") == []


@pytest.mark.parametrize(("restart", "following"), [(True, 1), (False, 2)])
def test_restart_identity_begins_the_numbers_again(target, restart, following):
    """C29"""
    execute(target, "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b)", "INSERT INTO t (b) VALUES (0)")
    truncate(target, "t", restart_identity=restart)
    execute(target, "INSERT INTO t (b) VALUES (0)")
    assert rows(target, "SELECT a FROM t") == [{"a": following}]


def test_restart_identity_without_any_sequence_is_nothing(target):
    execute(target, "CREATE TABLE t (a)")
    truncate(target, "t", restart_identity=True)


@pytest.mark.parametrize(
    ("constraint", "prefix"), [("ON CONFLICT REPLACE", "OR ABORT "), ("ON CONFLICT IGNORE", "OR ABORT "), ("", "")]
)
def test_a_violated_constraint_fails_whatever_the_table_declares(target, constraint, prefix):
    """C22"""
    execute(target, f"CREATE TABLE t (a INT PRIMARY KEY {constraint}, b)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    table = reflected(target, "t")
    clause = table.clause()
    insert = target.writing.or_fail(table, sa.insert(clause).values(a=sa.literal(1)))
    update = target.writing.or_fail(table, sa.update(clause).values(a=sa.literal(1)).where(clause.c.a == 2))
    assert str(insert.compile(dialect=target.engine.dialect)).startswith(f"INSERT {prefix}INTO")
    for statement in (insert, update):
        with pytest.raises(ConflictError), target.begin() as connection:
            connection.execute(statement)
    assert rows(target, "SELECT * FROM t") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
