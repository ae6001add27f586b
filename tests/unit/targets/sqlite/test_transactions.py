"""Transactions of SQLite: one writer, which takes the lock before it reads."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
import sqlalchemy as sa

from subscriber.base.errors import TargetUnavailable
from tests.unit.targets.tables import execute

ENDLESS = "SELECT * FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n)"
LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_write_transaction_takes_the_lock_at_once(target):
    """Else two runners could both read the progress before one of them fails."""
    execute(target, "CREATE TABLE t (a)")
    other = sqlite3.connect(target.url.database, isolation_level=None, timeout=0)
    with target.begin(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")
    other.close()


def test_reading_through_the_engine_takes_no_write_lock(target):
    execute(target, "CREATE TABLE t (a)")
    with target.engine.connect() as reader:
        reader.exec_driver_sql("SELECT * FROM t").all()
        other = sqlite3.connect(target.url.database, isolation_level=None, timeout=0)
        other.execute("BEGIN IMMEDIATE")
        other.close()


def test_a_commit_that_a_reader_prevents_is_taken_back(target):
    """any_crash: the change is neither there nor half there, and can be tried again"""
    execute(target, "CREATE TABLE t (a)", "INSERT INTO t VALUES (0)")
    reader = sqlite3.connect(target.url.database, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM t").fetchall()
    with pytest.raises(TargetUnavailable, match="SQLITE_BUSY"), target.begin() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    reader.execute("ROLLBACK")
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (1,)
    execute(target, "INSERT INTO t VALUES (1)")
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (2,)
    reader.close()


def test_only_a_transaction_of_the_write_engine_begins_immediately(target):
    execute(target, "CREATE TABLE t (a)")
    with target.transactions.write_engine().begin() as writer:
        writer.exec_driver_sql("SELECT 1")
        with target.engine.begin() as reader, pytest.raises(sa.exc.OperationalError, match="locked"):
            reader.exec_driver_sql("PRAGMA busy_timeout = 0")
            reader.exec_driver_sql("INSERT INTO t VALUES (1)")


def test_a_query_that_is_interrupted_is_ended_as_by_control_c(target):
    with target.engine.connect() as connection:
        driver = connection.connection.driver_connection
        driver.create_function("interrupt", 0, lambda: driver.interrupt() or 1)
        with pytest.raises(KeyboardInterrupt), target.transactions.interruptible(connection):
            connection.exec_driver_sql(f"SELECT interrupt() UNION ALL {ENDLESS}").all()


def test_any_other_error_of_an_interruptible_query_stays_what_it_is(target):
    with (
        target.engine.connect() as connection,
        pytest.raises(sa.exc.OperationalError, match="no such table"),
        target.transactions.interruptible(connection),
    ):
        connection.exec_driver_sql("SELECT * FROM missing")


def test_an_interrupt_of_a_connection_that_was_closed_is_ignored(target):
    with target.engine.connect() as connection:
        pass
    target.transactions.interrupt(connection)


def test_a_transaction_waits_for_the_process_that_holds_the_lock(target):
    execute(target, "CREATE TABLE t (a)")
    command = [sys.executable, "-c", LOCK, str(target.url.database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        (holder,) = target.transactions.waits_for(None)
        assert holder.startswith(f"process {other.pid} ")
        other.communicate()
    assert target.transactions.waits_for(None) == []
