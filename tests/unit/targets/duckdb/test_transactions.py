"""Transactions of DuckDB. An interrupt of a statement is tested in
tests/unit/targets/test_interruption.py.
"""

from __future__ import annotations

import os
import subprocess
import sys

import duckdb
import pytest

from tests.unit.targets.tables import execute, rows


def test_an_interrupt_of_a_connection_that_does_nothing_does_nothing(target):
    execute(target, "CREATE TABLE t (a int)")
    with target.begin() as connection:
        target.transactions.interrupt(connection)
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    assert rows(target, "SELECT a FROM t") == [{"a": 1}]


def test_an_interrupt_of_a_connection_that_was_closed_is_ignored(target):
    with target.engine.connect() as connection:
        pass
    target.transactions.interrupt(connection)


def test_the_file_is_closed_after_each_transaction(target):
    """Other processes can open it in between."""
    execute(target, "CREATE TABLE t (a int)")
    links = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    assert str(target.url.database) not in links


def test_a_transaction_waits_for_the_process_that_has_the_file_open(target):
    execute(target, "CREATE TABLE t (a int)")
    program = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(target.url.database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        (holder,) = target.transactions.waits_for(None)
        assert holder.startswith(f"process {other.pid} ")
        other.communicate()
    assert target.transactions.waits_for(None) == []


def test_duckdb_has_no_savepoints(target):
    """https://duckdb.org/docs/stable/sql/statements/transactions"""
    assert not target.capabilities.savepoints
    with target.engine.connect() as connection, pytest.raises(Exception, match="SAVEPOINT") as raised:
        connection.exec_driver_sql("SAVEPOINT s")
    assert isinstance(raised.value.__cause__, duckdb.ParserException)
