"""Opening the file while other processes have it open, or change it."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from itertools import count
from typing import Any

import duckdb
import pytest

from subscriber.base.errors import TargetUnavailable
from subscriber.targets.duckdb.connection import open_file
from subscriber.targets.duckdb.errors import DuckDBErrors
from tests.unit.targets.tables import execute

OPEN = "import duckdb, sys, time; c = duckdb.connect(sys.argv[1]); print('open', flush=True); time.sleep({})"
CHANGE = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('CREATE TABLE u (a int)')"


@pytest.fixture
def file(tmp_path) -> str:
    """A database with a table."""
    path = str(tmp_path / "t.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t (a int)")
    return path


def python(program: str, file: str) -> list[str]:
    return [sys.executable, "-c", program, file]


# Other processes ----------------------------------------------------------------------------------


def test_between_transactions_another_process_can_open_the_file(target):
    execute(target, "CREATE TABLE t (a int)")
    command = python(OPEN.format(0), str(target.url.database))
    other = subprocess.run(command, capture_output=True, text=True, check=True)
    assert other.stdout == "open\n"


@pytest.mark.parametrize(("patience", "seconds"), [(0.2, 30), (30, 1)], ids=["for too long", "for a moment"])
def test_a_file_that_another_process_has_open_is_waited_for(file, patience, seconds):
    with subprocess.Popen(python(OPEN.format(seconds), file), stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        try:
            began = time.monotonic()
            if patience < seconds:
                with pytest.raises(duckdb.IOException, match="lock"):
                    open_file(file, partial(duckdb.connect, file), patience)
            else:
                open_file(file, partial(duckdb.connect, file), patience).close()
                assert time.monotonic() - began < patience
        finally:
            other.kill()


def test_a_look_at_the_headers_does_not_give_up_the_lock_of_a_file_that_is_open(file):
    """POSIX: a process that closes one descriptor of a file loses the lock that another one has."""
    with open_file(file, partial(duckdb.connect, file)), open_file(file, partial(duckdb.connect, file)):
        answer = subprocess.run(python(OPEN.format(0), file), capture_output=True, text=True, check=False)
    assert "Could not set lock on file" in answer.stderr


# Changes while the file is opened -----------------------------------------------------------------


def test_a_file_that_another_process_changes_before_it_is_locked_is_opened_anew(file):
    """DuckDB 2.0 reads the headers before its lock: it would miss the table, and what it wrote then
    would be the end of the file.
    """
    opened: list[duckdb.DuckDBPyConnection] = []

    def connect() -> duckdb.DuckDBPyConnection:
        if not opened:
            subprocess.run(python(CHANGE, file), check=True)
        opened.append(duckdb.connect(file))
        return opened[-1]

    with open_file(file, connect) as connection:
        connection.execute("INSERT INTO u VALUES (2)")
    assert len(opened) == 2
    with pytest.raises(duckdb.ConnectionException, match="closed"):
        opened[0].execute("SELECT 1")


class _Connection:
    """A connection of which only the end is of interest."""

    is_open = True

    def execute(self, statement: str) -> None:
        pass

    def close(self) -> None:
        self.is_open = False


def test_a_file_that_others_change_in_every_attempt_is_given_up(tmp_path):
    """The error is one of DuckDB's, so that the target is unavailable and is tried again."""
    path, numbers = tmp_path / "t.duckdb", count()
    path.write_bytes(b"")
    opened: list[_Connection] = []

    def connect() -> _Connection:
        path.write_text(str(next(numbers)))
        opened.append(_Connection())
        return opened[-1]

    with pytest.raises(duckdb.IOException, match="whenever it was opened") as raised:
        open_file(str(path), connect, patience=0.1)
    assert len(opened) > 1
    assert not any(connection.is_open for connection in opened)
    translated = DuckDBErrors(str(path)).translate_driver(raised.value)
    assert isinstance(translated, TargetUnavailable)
    assert translated.transient


# Errors of DuckDB ---------------------------------------------------------------------------------


def failing(*errors: Exception) -> Any:
    """A function that raises these errors, one in each call, and then opens a connection."""
    left = iter(errors)

    def connect() -> _Connection:
        for error in left:
            raise error
        return _Connection()

    return connect


def test_a_file_that_another_thread_is_about_to_close_is_opened_anew(tmp_path):
    """DuckDB refuses it for a moment: "Unique file handle conflict"."""
    conflict = type("ResourceInUseException", (duckdb.OperationalError,), {})
    connect = failing(conflict("Unique file handle conflict"), conflict("Unique file handle conflict"))
    assert open_file(str(tmp_path / "t.duckdb"), connect).is_open


@pytest.mark.parametrize("error", [duckdb.IOException("No such file"), duckdb.CatalogException("lock")])
def test_any_other_error_is_raised_at_once(tmp_path, error):
    with pytest.raises(type(error)) as raised:
        open_file(str(tmp_path / "t.duckdb"), failing(error))
    assert raised.value is error


def test_a_file_that_does_not_exist_is_created(tmp_path):
    path = str(tmp_path / "new.duckdb")
    with open_file(path, partial(duckdb.connect, path)) as connection:
        assert connection.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)


def test_a_long_query_draws_no_progress_bar_on_standard_output(tmp_path):
    """DuckDB draws one where there is no file of the program, as with ``python -c``."""
    program = (
        "import sys, sqlalchemy; from subscriber.targets import open_target\n"
        "with open_target(sys.argv[1]) as target, target.engine.connect() as connection:\n"
        "    print(connection.exec_driver_sql(\"SELECT current_setting('enable_progress_bar')\").scalar_one())"
    )
    url = f"duckdb:///{tmp_path / 't.duckdb'}"
    assert subprocess.check_output([sys.executable, "-c", program, url], text=True) == "False\n"
