"""``subscriber receive`` that is killed: its journal is the one of a receiver that was not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.base.lsn import INVALID_LSN, MAX_LSN
from subscriber.publisher.connection import ReplicationConnection
from subscriber.publisher.slots import create_slot
from subscriber.stream.journal.browse import browse
from tests.conftest import Database
from tests.crash.harness import Failpoints
from tests.receivers import TABLE, ReceiveCommand

RECEIVERS_FAILPOINTS = (
    "journal.sync.before",
    "journal.sync.after",
    "journal.rename.before",
    "journal.rename.after",
    "feedback.before",
    "feedback.after",
)


@pytest.fixture
def load(publisher_database: Database) -> Iterator[None]:
    """Transactions of one row, and some of many."""
    publisher_database.execute(TABLE)
    end = threading.Event()

    def write() -> None:
        number = 0
        while not end.wait(0.05):
            rows = 1 if number % 10 else 1000
            publisher_database.execute(
                f"INSERT INTO t SELECT {number} * 1000 + i, 'x' FROM generate_series(1, {rows}) i"
            )
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    yield
    end.set()
    thread.join()


def content(command: ReceiveCommand) -> list[tuple[int, int, int, str]]:
    """Every message with its place, except descriptions, which each connection sends again."""
    lines = browse(command.journal, INVALID_LSN, MAX_LSN, show_values=True)
    return [(one.finish_lsn, one.lsn, one.xid, one.description) for one in lines if one.action not in "RY"]


def test_a_receiver_that_is_killed_in_mid_stream_leaves_the_journal_of_one_that_was_not(
    publisher_database: Database, load: None, tmp_path: Path
) -> None:
    failpoints = Failpoints(tmp_path / "failpoints")
    killed = ReceiveCommand(publisher_database, tmp_path / "killed", failpoints.environment(), "killed")
    calm = ReceiveCommand(publisher_database, tmp_path / "calm", prefix="calm")
    for one in (killed, calm):
        one.folder.mkdir()
        one.environment["SUBSCRIBER_SEGMENT_BYTES"] = "64kB"
        with ReplicationConnection(publisher_database.conninfo, "test") as connection:
            create_slot(connection, one.slot, snapshot="nothing")
    try:
        for number, name in enumerate(RECEIVERS_FAILPOINTS, start=1):
            killed.start()
            killed.wait_for("receiving slot", number)
            failpoints.unlock(name)
            assert killed.wait() < 0, killed.said()
            assert failpoints.fired(name), name
        killed.start()
        killed.wait_for("receiving slot", len(RECEIVERS_FAILPOINTS) + 1)
        killed.close()  # at any place
        publisher_database.execute("INSERT INTO t VALUES (-1, 'the last one')")
        begins = [one.call("--once") for one in (killed, calm)]
        assert [ended.returncode for ended in begins] == [0, 0], [ended.stderr for ended in begins]
    finally:
        killed.close()
    both = [content(one) for one in (killed, calm)]
    # The load goes on between the creation of the slots, and between the last two commands.
    first = max(lines[0][0] for lines in both)
    last = min(lines[-1][0] for lines in both)
    of_killed, of_calm = ([line for line in lines if first <= line[0] <= last] for lines in both)
    assert of_killed == of_calm
    assert any("the last one" in line[3] for line in of_calm)
