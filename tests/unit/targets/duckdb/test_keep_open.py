"""The file stays open between transactions of a run; other processes can open it now and then."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from subscriber.targets import Target, open_target
from subscriber.targets.duckdb import transactions as keep_open
from subscriber.targets.duckdb.transactions import FileConnections
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


def use(kept: FileConnections) -> None:
    """A transaction."""
    connection = object()
    kept.opening()
    kept.opened(connection, Connection)
    kept.closed(connection)


def test_only_a_run_keeps_the_file_open():
    kept = FileConnections()
    use(kept)
    assert Connection.open == 0


def test_a_run_keeps_it_open_until_no_transaction_follows():
    kept = FileConnections()
    with kept.keeping():
        use(kept)
        use(kept)
        assert Connection.open == 1
        wait_until(lambda: Connection.open == 0)


def test_a_transaction_that_takes_longer_than_the_idle_time_leaves_the_file_open(monkeypatch):
    monkeypatch.setattr(keep_open, "IDLE_SECONDS", 0.01)
    closed: list[bool] = []
    kept = FileConnections(lambda _connection, *, closes_file: closed.append(closes_file))
    with kept.keeping():
        connection = object()
        kept.opening()
        kept.opened(connection, Connection)
        time.sleep(0.3)  # the thread that closes the file has looked several times
        kept.closed(connection)
        assert closed == [False]
        wait_until(lambda: closed == [False, True])


def test_it_is_closed_at_the_end_of_a_run(monkeypatch):
    monkeypatch.setattr(keep_open, "IDLE_SECONDS", 3600.0)
    monkeypatch.setattr(keep_open, "LONGEST_SECONDS", 3600.0)
    kept = FileConnections()
    with kept.keeping():
        use(kept)
    assert Connection.open == 0


def test_others_get_their_turn_although_it_is_used_all_the_time(monkeypatch):
    monkeypatch.setattr(keep_open, "LONGEST_SECONDS", 0.05)
    pauses: list[float] = []
    kept = FileConnections(sleep=pauses.append)
    with kept.keeping():
        deadline = time.monotonic() + PATIENCE
        while not pauses and time.monotonic() < deadline:
            use(kept)
    assert 0 < pauses[0] <= keep_open.PAUSE_SECONDS


def test_the_pause_begins_when_the_last_transaction_has_ended(monkeypatch):
    monkeypatch.setattr(keep_open, "LONGEST_SECONDS", 0.0)
    pauses: list[float] = []
    kept = FileConnections(sleep=pauses.append)
    with kept.keeping():
        connection = object()
        kept.opening()
        kept.opened(connection, Connection)
        wait_until(lambda: Connection.open == 0)
        use(kept)
        assert pauses == [], "a connection is open: to wait would not close the file"
        kept.closed(connection)
        kept.opening()
        assert len(pauses) == 1


# The hand-over ------------------------------------------------------------------------------------


class Scene:
    """A run whose file another process waits for, as soon as :attr:`waits` is set."""

    def __init__(self) -> None:
        self.waits = threading.Event()
        self.kept = FileConnections(somebody_waits=self.waits.is_set)

    def open(self) -> object:
        connection = object()
        self.kept.opening()
        self.kept.opened(connection, Connection)
        return connection

    def opens_in_a_thread(self) -> threading.Thread:
        """A thread that opens a connection, and ends when it has it."""

        def use_it() -> None:
            self.kept.closed(self.open())

        thread = threading.Thread(target=use_it, daemon=True)
        thread.start()
        return thread

    def two_long_transactions(self) -> tuple[object, object]:
        """The connections of this thread and of another one, which are too long for a hand-over."""
        opened = [self.open()]
        other = threading.Thread(target=lambda: opened.append(self.open()), daemon=True)
        other.start()
        other.join(PATIENCE)
        self.waits.set()
        wait_until(lambda: len(self.kept._too_long) == 2)
        return opened[0], opened[1]


@pytest.fixture
def scene(monkeypatch) -> Iterator[Scene]:
    monkeypatch.setattr(keep_open, "IDLE_SECONDS", 3600.0)
    monkeypatch.setattr(keep_open, "LONGEST_SECONDS", 3600.0)
    monkeypatch.setattr(keep_open, "CLOSED_SECONDS", 3600.0)
    monkeypatch.setattr(keep_open, "DRAIN_SECONDS", 3600.0)
    scene = Scene()
    with scene.kept.keeping():
        yield scene
        scene.waits.clear()


def test_the_file_stays_open_while_nobody_waits(scene):
    use(scene.kept)
    time.sleep(3 * keep_open.LOOK_SECONDS)
    assert Connection.open == 1


def test_the_file_of_a_run_that_is_between_transactions_is_closed_until_nobody_waits(scene):
    use(scene.kept)
    scene.waits.set()
    wait_until(lambda: Connection.open == 0)
    thread = scene.opens_in_a_thread()
    time.sleep(3 * keep_open.LOOK_SECONDS)
    assert thread.is_alive(), "nobody opens the file before the other process has it"
    scene.waits.clear()
    thread.join(PATIENCE)
    assert Connection.open == 1


def test_a_transaction_in_progress_finishes_and_no_other_begins(scene):
    connection = scene.open()
    scene.waits.set()
    wait_until(lambda: scene.kept._hands_over)
    thread = scene.opens_in_a_thread()
    time.sleep(3 * keep_open.LOOK_SECONDS)
    assert (thread.is_alive(), Connection.open) == (True, 1)
    scene.kept.closed(connection)
    wait_until(lambda: Connection.open == 0)
    assert thread.is_alive()
    scene.waits.clear()
    thread.join(PATIENCE)


def test_a_thread_that_has_a_connection_may_open_another_one(scene):
    """Otherwise it would wait for itself."""
    connection = scene.open()
    scene.waits.set()
    wait_until(lambda: scene.kept._hands_over)
    nested = scene.open()
    scene.kept.closed(nested)
    scene.kept.closed(connection)
    wait_until(lambda: Connection.open == 0)


def test_a_transaction_that_lasts_too_long_does_not_hold_up_the_others(scene, monkeypatch):
    monkeypatch.setattr(keep_open, "DRAIN_SECONDS", 0.1)
    monkeypatch.setattr(keep_open, "OWN_SECONDS", 0.0)
    connection = scene.open()
    scene.waits.set()
    wait_until(lambda: scene.kept._too_long)
    scene.opens_in_a_thread().join(PATIENCE)
    assert Connection.open == 1, "the file is not closed under the transaction"
    scene.kept.closed(connection)
    wait_until(lambda: Connection.open == 0)


def test_the_file_is_handed_over_before_another_long_transaction_begins(scene, monkeypatch):
    """A run that copies one large table after the other would have no moment between two copies."""
    monkeypatch.setattr(keep_open, "DRAIN_SECONDS", 0.1)
    monkeypatch.setattr(keep_open, "OWN_SECONDS", 3600.0)
    connection = scene.open()
    scene.waits.set()
    wait_until(lambda: scene.kept._too_long)
    scene.kept.closed(connection)
    thread = scene.opens_in_a_thread()
    time.sleep(3 * keep_open.LOOK_SECONDS)
    assert (thread.is_alive(), Connection.open) == (True, 0)
    scene.waits.clear()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_thread_with_a_long_transaction_begins_no_other_before_the_hand_over(scene, monkeypatch):
    """Two threads whose long transactions overlap would leave no moment for others."""
    monkeypatch.setattr(keep_open, "DRAIN_SECONDS", 0.1)
    ours, theirs = scene.two_long_transactions()
    scene.opens_in_a_thread().join(PATIENCE)  # a short transaction is not held up
    scene.kept.closed(ours)
    threading.Timer(0.2, scene.kept.closed, (theirs,)).start()
    threading.Timer(0.6, scene.waits.clear).start()
    began = time.monotonic()
    scene.kept.closed(scene.open())
    assert time.monotonic() - began > 0.4, "the other process had the file before"


def test_a_thread_is_not_held_back_when_nobody_waits_any_more(scene, monkeypatch):
    monkeypatch.setattr(keep_open, "DRAIN_SECONDS", 0.1)
    ours, theirs = scene.two_long_transactions()
    scene.kept.closed(ours)
    threading.Timer(0.2, scene.waits.clear).start()
    scene.kept.closed(scene.open())
    assert scene.kept._held == {}
    scene.kept.closed(theirs)


def test_a_thread_is_not_held_back_for_ever(scene, monkeypatch):
    """The other transaction may wait for something that this thread has to do."""
    monkeypatch.setattr(keep_open, "DRAIN_SECONDS", 0.1)
    monkeypatch.setattr(keep_open, "HOLD_SECONDS", 0.2)
    ours, theirs = scene.two_long_transactions()
    scene.kept.closed(ours)
    scene.kept.closed(scene.open())
    assert scene.waits.is_set()
    scene.kept.closed(theirs)


def test_a_connection_with_the_number_of_an_earlier_one_was_not_too_long(scene, monkeypatch):
    """Python gives the memory of a connection that was closed to the next one."""
    monkeypatch.setattr(keep_open, "DRAIN_SECONDS", 0.1)
    monkeypatch.setattr(keep_open, "OWN_SECONDS", 0.0)
    connection = scene.open()
    scene.waits.set()
    wait_until(lambda: scene.kept._too_long)
    scene.waits.clear()
    scene.kept.closed(connection)
    monkeypatch.setattr(keep_open, "DRAIN_SECONDS", 3600.0)
    scene.kept.opening()
    scene.kept.opened(connection, Connection)
    scene.waits.set()
    wait_until(lambda: scene.kept._hands_over)
    scene.kept.closed(connection)
    wait_until(lambda: Connection.open == 0)


def test_a_run_that_ends_during_a_hand_over_lets_others_open_the_file(monkeypatch):
    monkeypatch.setattr(keep_open, "DRAIN_SECONDS", 0.1)
    scene = Scene()
    with scene.kept.keeping():
        connection = scene.open()
        scene.waits.set()
        wait_until(lambda: scene.kept._too_long)
        scene.kept.closed(connection)
    scene.opens_in_a_thread().join(PATIENCE)
    assert scene.kept._hands_over is False


def test_the_file_is_not_left_closed_for_ever(scene, monkeypatch):
    """A process may be stopped while it waits."""
    monkeypatch.setattr(keep_open, "CLOSED_SECONDS", 0.1)
    monkeypatch.setattr(keep_open, "OWN_SECONDS", 3600.0)
    use(scene.kept)
    scene.waits.set()
    wait_until(lambda: Connection.open == 0)
    scene.opens_in_a_thread().join(PATIENCE)
    assert Connection.open == 1


def test_a_connection_that_cannot_be_opened_does_not_stop_a_hand_over(scene):
    use(scene.kept)
    scene.kept.opening()
    scene.kept.not_opened()
    scene.waits.set()
    wait_until(lambda: Connection.open == 0)


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
    kept = FileConnections(lambda connection, *, closes_file: told.append((connection, closes_file)))
    use(kept)
    assert told == []  # no run keeps the file open
    with kept.keeping():
        use(kept)
        wait_until(lambda: len(told) == 2)
    assert told[0][1] is False
    assert isinstance(told[1][0], Connection)
    assert told[1][1]


OTHER = """
import sys, time
from subscriber.targets import open_target
with open_target('duckdb:///' + sys.argv[1]) as target:
    for _ in range(20):
        began = time.monotonic()
        with target.begin() as connection:
            connection.exec_driver_sql('INSERT INTO seen SELECT count(*) FROM t')
        print(time.monotonic() - began, flush=True)
        time.sleep(0.1)
"""


@pytest.mark.slow
def test_another_process_gets_the_file_soon_although_several_threads_write_all_the_time(writing):
    """The threads are never all between two transactions by chance."""
    file, opened = writing
    ending = threading.Event()
    failed: list[BaseException] = []

    def write_all_the_time(target: Target) -> None:
        try:
            while not ending.is_set():
                with target.begin() as connection:
                    connection.exec_driver_sql("INSERT INTO t VALUES (1)")
                    with target.engine.connect() as nested:
                        nested.exec_driver_sql("SELECT count(*) FROM t")
                    time.sleep(0.05)
        except BaseException as error:
            failed.append(error)
            raise

    with opened() as target, target.running():
        write(target)
        with target.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE seen (a INT)")
        threads = [threading.Thread(target=write_all_the_time, args=(target,), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            other = subprocess.run(
                [sys.executable, "-c", OTHER, str(file)], capture_output=True, text=True, check=False, timeout=120
            )
        finally:
            ending.set()
            for thread in threads:
                thread.join(PATIENCE)
        assert other.returncode == 0, other.stderr
        waits = [float(line) for line in other.stdout.splitlines()]
        assert len(waits) == 20
        assert max(waits) < 3.0, waits
        assert not failed
        with target.begin() as connection:
            seen = [row[0] for row in connection.exec_driver_sql("SELECT a FROM seen ORDER BY rowid")]
        assert len(set(seen)) > 10, "the run writes between two hand-overs"
    assert not Path(f"{file}.waiting").exists()


@pytest.mark.slow
def test_another_process_gets_the_file_between_long_transactions(writing, monkeypatch):
    """Two threads copy one large table after the other, and small batches are applied beside that.
    One of the copies is always in progress, unless the run holds the next one back.
    """
    monkeypatch.setattr(keep_open, "DRAIN_SECONDS", 0.2)
    file, opened = writing
    ending = threading.Event()

    def write_all_the_time(target: Target, seconds: float) -> None:
        while not ending.is_set():
            with target.begin() as connection:
                connection.exec_driver_sql("INSERT INTO t VALUES (1)")
                time.sleep(seconds)

    with opened() as target, target.running():
        write(target)
        with target.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE seen (a INT)")
        threads = [
            threading.Thread(target=write_all_the_time, args=(target, seconds), daemon=True)
            for seconds in (1.0, 1.0, 0.02)
        ]
        for thread in threads:
            thread.start()
        try:
            command = [sys.executable, "-c", OTHER.replace("range(20)", "range(6)"), str(file)]
            other = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        finally:
            ending.set()
            for thread in threads:
                thread.join(PATIENCE)
    assert other.returncode == 0, other.stderr
    waits = [float(line) for line in other.stdout.splitlines()]
    assert len(waits) == 6
    assert max(waits) < 5.0, waits
