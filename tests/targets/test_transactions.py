"""The role ``transactions``: what is written in one block is there as a whole, or not at all."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.targets.ddl import create_table
from tests.targets.tables import created, insert, shape_of, stored

SHAPE = shape_of({"a": "integer", "b": "text"}, ["a"])


def test_a_transaction_is_all_or_nothing(target):
    created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, ("1", "one"), ("2", "two"))
    with pytest.raises(InterruptedError), target.begin() as connection:
        insert(target, connection, SHAPE, ("3", "three"))
        raise InterruptedError
    assert stored(target, SHAPE) == [("1", "one"), ("2", "two")]


def test_others_see_nothing_before_the_commit(target):
    created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, ("1", "one"))
        assert stored(target, SHAPE) == []
    assert stored(target, SHAPE) == [("1", "one")]


def test_ddl_is_rolled_back_where_the_target_says_so(target):
    if not target.capabilities.transactional_ddl:
        pytest.skip("its DDL commits")
    with pytest.raises(InterruptedError), target.begin() as connection:
        create_table(target, SHAPE).create(connection)
        raise InterruptedError
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, "public", "t") is None


def test_a_part_is_taken_back_where_the_target_says_so(target):
    if not target.capabilities.savepoints:
        pytest.skip("it has no savepoints")
    created(target, SHAPE)
    with target.begin() as connection:
        insert(target, connection, SHAPE, ("1", "one"))
        with connection.begin_nested() as savepoint:
            insert(target, connection, SHAPE, ("2", "two"))
            savepoint.rollback()
        insert(target, connection, SHAPE, ("3", "three"))
    assert stored(target, SHAPE) == [("1", "one"), ("3", "three")]


def test_the_rows_of_several_executions_are_counted_where_the_target_says_so(target):
    if not target.capabilities.multi_rowcount:
        pytest.skip("it does not say so")
    table = created(target, SHAPE).clause()
    with target.begin() as connection:
        insert(target, connection, SHAPE, ("1", "one"), ("2", "two"))
        statement = sa.delete(table).where(table.c.a == sa.bindparam("a_is", type_=sa.Integer()))
        assert connection.execute(statement, [{"a_is": 1}, {"a_is": 2}, {"a_is": 3}]).rowcount == 2


@pytest.mark.parametrize("value", ["off", "local", "remote_write", "on", "remote_apply"])
def test_every_synchronous_commit_commits(target, value):
    created(target, SHAPE)
    with target.begin() as connection:
        target.transactions.set_synchronous_commit(connection, value)
        insert(target, connection, SHAPE, ("1", "one"))
    assert stored(target, SHAPE) == [("1", "one")]


def test_an_interrupt_of_a_connection_that_does_nothing_does_nothing(target):
    created(target, SHAPE)
    with target.begin() as connection:
        target.transactions.interrupt(connection)
        insert(target, connection, SHAPE, ("1", "one"))
    assert stored(target, SHAPE) == [("1", "one")]


def test_a_session_that_waits_for_nobody_says_so(target):
    with target.begin() as connection:
        assert list(target.transactions.waits_for(target.transactions.session_id(connection))) == []
