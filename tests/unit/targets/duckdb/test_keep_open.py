"""The file stays open between transactions of a run; other processes can open it now and then."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from subscriber.targets import Target, open_target
from subscriber.targets.duckdb import keep_open
from subscriber.targets.duckdb.keep_open import KeptOpen
from tests.waits import PATIENCE, wait_until


class Connection:
    """A connection of DuckDB's module; counts those that are open."""

    open = 0

    def __init__(self) -> None:
        Connection.open += 1

    def close(self) -> None:
        Connection.open -= 1


@pytest.fixture(autouse=True)
def none_open():
    Connection.open = 0


def use(kept: KeptOpen) -> None:
    """A transaction."""
    kept.opening()
    kept.opened(Connection)
    kept.closed(None)


def test_only_a_run_keeps_the_file_open():
    kept = KeptOpen()
    use(kept)
    assert Connection.open == 0


def test_a_run_keeps_it_open_until_no_transaction_follows():
    kept = KeptOpen()
    with kept.keeping():
        use(kept)
        use(kept)
        assert Connection.open == 1
        wait_until(lambda: Connection.open == 0)


def test_it_is_closed_at_the_end_of_a_run(monkeypatch):
    monkeypatch.setattr(keep_open, "IDLE_SECONDS", 3600.0)
    monkeypatch.setattr(keep_open, "LONGEST_SECONDS", 3600.0)
    kept = KeptOpen()
    with kept.keeping():
        use(kept)
    assert Connection.open == 0


def test_others_get_their_turn_although_it_is_used_all_the_time(monkeypatch):
    monkeypatch.setattr(keep_open, "LONGEST_SECONDS", 0.05)
    pauses: list[float] = []
    kept = KeptOpen(sleep=pauses.append)
    with kept.keeping():
        deadline = time.monotonic() + PATIENCE
        while not pauses and time.monotonic() < deadline:
            use(kept)
    assert 0 < pauses[0] <= keep_open.PAUSE_SECONDS


def test_the_pause_begins_when_the_last_transaction_has_ended(monkeypatch):
    monkeypatch.setattr(keep_open, "LONGEST_SECONDS", 0.0)
    pauses: list[float] = []
    kept = KeptOpen(sleep=pauses.append)
    with kept.keeping():
        kept.opened(Connection)
        wait_until(lambda: Connection.open == 0)
        use(kept)
        assert pauses == [], "a connection is open: to wait would not close the file"
        kept.closed(None)
        kept.opening()
        assert len(pauses) == 1


# With DuckDB --------------------------------------------------------------------------------------

OPEN = "import duckdb, sys; duckdb.connect(sys.argv[1]).close()"


def others_can_open(file: Path) -> bool:
    """Whether another process can open the file now."""
    return subprocess.run([sys.executable, "-c", OPEN, str(file)], capture_output=True, check=False).returncode == 0


@pytest.fixture
def writing(tmp_path) -> tuple[Path, Callable[[], Target]]:
    file = tmp_path / "target.duckdb"
    return file, lambda: open_target(f"duckdb:///{file}")


def write(target: Target) -> None:
    with target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS t (a INT)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")


def test_a_command_closes_the_file_after_its_transaction(writing):
    file, opened = writing
    with opened() as target:
        write(target)
        assert others_can_open(file)


def test_a_run_lets_other_processes_open_the_file_when_it_is_idle(writing, monkeypatch):
    file, opened = writing
    with opened() as target, target.running():
        write(target)
        wait_until(lambda: others_can_open(file))
        monkeypatch.setattr(keep_open, "IDLE_SECONDS", 3600.0)
        monkeypatch.setattr(keep_open, "LONGEST_SECONDS", 3600.0)
        write(target)
        assert not others_can_open(file)
    assert others_can_open(file)


@pytest.mark.slow
def test_another_process_gets_the_file_of_a_busy_run(writing, tmp_path):
    file, opened = writing
    command = (
        "import sys; from subscriber.targets import open_target\n"
        "with open_target('duckdb:///' + sys.argv[1]) as target, target.engine.connect() as connection:\n"
        "    print(connection.exec_driver_sql('SELECT count(*) FROM t').scalar_one())"
    )
    with opened() as target, target.running():
        write(target)
        other = subprocess.Popen([sys.executable, "-c", command, str(file)], stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE
        while other.poll() is None and time.monotonic() < deadline:
            write(target)
        printed, _ = other.communicate(timeout=PATIENCE)
    assert other.returncode == 0
    assert int(printed) > 0


def test_a_connection_of_a_run_is_told_of_before_it_is_closed(monkeypatch):
    monkeypatch.setattr(keep_open, "IDLE_SECONDS", 0.01)
    told: list[tuple[object, bool]] = []
    kept = KeptOpen(lambda connection, *, closes_file: told.append((connection, closes_file)))
    use(kept)
    assert told == []  # no run keeps the file open
    with kept.keeping():
        use(kept)
        wait_until(lambda: len(told) == 2)
    assert told[0] == (None, False)
    assert isinstance(told[1][0], Connection)
    assert told[1][1]
