"""Statements on the driver's cursor have the results and the errors of SQLAlchemy's."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest
import sqlalchemy as sa

from subscriber.apply.statements.execute import DriverCursor

INSERT, UPDATE = "INSERT INTO t VALUES (?, ?)", "UPDATE t SET b = ? WHERE a > ?"


@pytest.fixture(params=[True, False], ids=["driver", "SQLAlchemy"])
def cursor(target, execute, request):
    """A cursor in a transaction of a target with a table and two rows."""
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    target.capabilities = replace(target.capabilities, driver_cursor=request.param)
    with target.begin() as connection:
        made = DriverCursor(target, connection)
        assert made.execute(INSERT, [(1, "x"), (2, "x")]) == 2
        yield made


def test_the_rows_of_all_executions_are_counted(cursor):
    assert cursor.execute(UPDATE, [("y", 0), ("z", 1), ("z", 2)]) == 3
    assert cursor.execute(UPDATE, [("z", 0)]) == 2
    assert cursor.execute_row(UPDATE, ("z", 1)) == 1
    assert cursor.execute_row(UPDATE, ("z", 9)) == 0


@pytest.mark.parametrize("rows", [[(3, "x"), (1, "y")], [(1, "y")]], ids=["many", "one"])
def test_an_error_of_the_driver_is_sqlalchemys(cursor, rows):
    with pytest.raises(sa.exc.IntegrityError) as caught:
        cursor.execute(INSERT, rows)
    assert isinstance(caught.value.orig, sqlite3.IntegrityError)
    assert caught.value.statement == INSERT
    with pytest.raises(sa.exc.IntegrityError):
        cursor.execute_row(INSERT, (1, "y"))


def test_an_error_has_no_values_of_rows(target, execute):
    """names_are_data"""
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    with target.begin() as connection, pytest.raises(sa.exc.IntegrityError) as caught:
        DriverCursor(target, connection).execute(INSERT, [(1, "secret"), (1, "secret")])
    assert "secret" not in str(caught.value)


def test_a_lost_connection_is_not_used_again(target, execute, monkeypatch):
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    with target.engine.connect() as connection:
        cursor = DriverCursor(target, connection)
        monkeypatch.setattr(connection.dialect, "is_disconnect", lambda error, connection, cursor: True)
        with pytest.raises(sa.exc.DBAPIError) as caught:
            cursor.execute_row("broken", ())
        assert caught.value.connection_invalidated
        assert connection.invalidated
