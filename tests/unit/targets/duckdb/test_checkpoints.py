"""Checkpoints keep the write-ahead log small and the file quick to open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from subscriber.targets.duckdb import checkpoints as module
from subscriber.targets.duckdb.checkpoints import SLOW_SECONDS, THRESHOLD, Checkpoints

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


def test_a_large_log_gets_a_checkpoint_after_the_transaction(file, connection, monkeypatch):
    monkeypatch.setattr(module, "LOG_BYTES", 1)
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
