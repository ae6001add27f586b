"""Transactions of DuckDB. An interrupt of a statement is tested in
tests/unit/targets/test_interruption.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from subscriber.targets.duckdb import connection as module
from subscriber.targets.duckdb.connection import SLOW_SECONDS, THRESHOLD, Checkpoints
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


# Checkpoints keep the write-ahead log small and the file quick to open.


ROWS = 200_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


@pytest.fixture
def connection(file) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(file)) as opened:
        opened.execute("PRAGMA disable_checkpoint_on_shutdown")
        opened.execute(THRESHOLD)
        opened.execute("CREATE TABLE t (a bigint PRIMARY KEY, b varchar)")
        opened.execute("CHECKPOINT")
        yield opened


def load(connection: duckdb.DuckDBPyConnection) -> None:
    rows = pa.table({"a": pa.array(range(ROWS))})  # noqa: F841 - DuckDB finds it by its name
    connection.execute("INSERT INTO t SELECT a, 'x' || a FROM rows")


def log_size(file: Path) -> int:
    log = Path(f"{file}.wal")
    return log.stat().st_size if log.exists() else 0


def test_a_thousand_updates_of_many_places_write_no_checkpoint(file, connection):
    load(connection)
    connection.execute("CHECKPOINT")
    connection.execute("UPDATE t SET b = b || 'y' WHERE a % 200 = 0")
    assert log_size(file) > 0


def test_a_file_that_has_grown_gets_a_checkpoint_before_it_is_closed(file, connection):
    checkpoints = Checkpoints(str(file))
    checkpoints.opened(0.0)
    load(connection)
    assert log_size(file) > 0
    checkpoints.before_close(connection, closes_file=True)
    assert log_size(file) == 0


def test_a_file_that_was_slow_to_open_gets_a_checkpoint_before_it_is_closed(file, connection):
    load(connection)
    checkpoints = Checkpoints(str(file))
    checkpoints.opened(0.0)
    checkpoints.before_close(connection, closes_file=True)
    assert log_size(file) > 0
    checkpoints.opened(SLOW_SECONDS * 2)
    checkpoints.before_close(connection, closes_file=True)
    assert log_size(file) == 0


def test_small_transactions_get_no_checkpoint(file, connection):
    checkpoints = Checkpoints(str(file))
    checkpoints.opened(0.0)
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    checkpoints.before_close(connection, closes_file=False)
    checkpoints.before_close(connection, closes_file=True)
    assert log_size(file) > 0


def test_a_large_log_gets_a_checkpoint_before_the_file_is_closed(file, connection, monkeypatch):
    monkeypatch.setattr(module, "LOG_BYTES", 1)
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    checkpoints = Checkpoints(str(file))
    checkpoints.before_close(connection, closes_file=False)
    assert log_size(file) > 0
    checkpoints.before_close(connection, closes_file=True)
    assert log_size(file) == 0


def test_a_very_large_log_gets_a_checkpoint_after_the_transaction(file, connection, monkeypatch):
    monkeypatch.setattr(module, "LOG_BYTES_OPEN", 1)
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    Checkpoints(str(file)).before_close(connection, closes_file=False)
    assert log_size(file) == 0


def test_while_another_transaction_writes_the_checkpoint_is_left_for_later(file, connection):
    checkpoints = Checkpoints(str(file))
    checkpoints.opened(0.0)
    load(connection)
    other = connection.cursor()
    other.execute("BEGIN")
    other.execute("UPDATE t SET b = 'z' WHERE a = 1")
    checkpoints.before_close(connection, closes_file=True)
    assert log_size(file) > 0
    other.execute("COMMIT")
    checkpoints.before_close(connection, closes_file=True)
    assert log_size(file) == 0


# The end of a program that has used DuckDB, in a process of its own.


PROGRAM = """
import sys
from subscriber.targets import exit_quietly
sys.modules{change}
print("before", file=sys.stderr)
exit_quietly()
print("after", file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("change", "written"),
    [('["duckdb"] = sys', "before\n"), (".pop('duckdb', None)", "before\nafter\n")],
    ids=["duckdb was used", "duckdb was not used"],
)
def test_what_is_written_after_duckdb_was_used_is_discarded(change, written):
    command = [sys.executable, "-c", PROGRAM.format(change=change)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stderr == written
