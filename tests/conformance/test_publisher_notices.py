"""What the publisher says on its replication connection, and a publication that is gone while it is
streamed.

On 18 the walsender goes on without the publication, and what is written meanwhile is lost. Before,
it ends with an error.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from subscriber.base.errors import PublisherNotReady, SubscriberError
from subscriber.base.lsn import LSN, parse_lsn
from subscriber.base.settings import Settings
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.stream.journal.positions import journal_positions
from subscriber.testing.servers.open_servers import PostgreSQL
from subscriber.worker.receiver_process import Assignment, receive
from tests.conformance.test_walreceiver import PATIENCE_SECONDS, make_slot, receiving, slot_of
from tests.conftest import Database, fresh_database
from tests.crash.harness import Runner, wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]


# The receiver -------------------------------------------------------------------------------------


class Heard:
    """A receiver in a thread that waits until what it has heard is recorded."""

    def __init__(self, database: Database, journal: Path, start: LSN) -> None:
        self.events: list[dict[str, Any]] = []
        self.go, self.stop = threading.Event(), threading.Event()
        self.error: SubscriberError | None = None
        with connect_publisher(database.conninfo, "test") as server:
            system = PublisherClient(server).system_identifier()
        assignment = Assignment(
            "test", database.conninfo, slot_of(database), ("p", "q"), "parallel", False, False, "any", system, str(journal), start
        )  # fmt: skip
        self.thread = threading.Thread(target=partial(self._work, assignment, Settings(journal=str(journal))))
        self.thread.start()
        self.go.set()

    def _work(self, assignment: Assignment, settings: Settings) -> None:
        try:
            receive(assignment, settings, self.stop, self._tell, self.go)
        except SubscriberError as error:
            self.error = error

    def _tell(self, event: str, **fields: Any) -> None:
        self.events.append({"event": event, **fields})

    def notices(self) -> list[dict[str, Any]]:
        return [one for one in self.events if one["event"] == "notice"]

    def end(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


@contextlib.contextmanager
def heard(database: Database, journal: Path, start: LSN) -> Iterator[Heard]:
    receiver = Heard(database, journal, start)
    try:
        yield receiver
    finally:
        receiver.end()


def publish(database: Database) -> LSN:
    database.execute("CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE u (a int PRIMARY KEY)")
    database.execute("CREATE PUBLICATION p FOR TABLE t; CREATE PUBLICATION q FOR TABLE u")
    return make_slot(database)


def confirmed(database: Database) -> LSN:
    with connect_publisher(database.conninfo, "test") as server:
        slot = PublisherClient(server).slot(slot_of(database))
    assert slot is not None
    return slot.confirmed_flush_lsn


def test_nothing_after_the_warning_is_stored_or_confirmed_before_it_is_recorded(publisher_database, tmp_path):
    """A receiver that ends before hears it again."""
    start = publish(publisher_database)
    publisher_database.execute("INSERT INTO u VALUES (1)")
    publisher_database.execute("DROP PUBLICATION p")
    ((before,),) = publisher_database.execute("SELECT pg_current_wal_insert_lsn()::text")
    for statement in ("INSERT INTO t VALUES (1)", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (2)"):
        publisher_database.execute(statement)
    for _ in range(2):
        with heard(publisher_database, tmp_path, start) as receiver:
            wait_until(receiver.notices, "the warning")
            (notice,) = receiver.notices()
            assert notice["skipped"] == ("p",)
            assert notice["severity"] == "WARNING"
            assert notice["report"] == (
                'WARNING:  skipped loading publication "p"\n'
                "DETAIL:  The publication does not exist at this point in the WAL.\n"
                "HINT:  Create the publication if it does not exist."
            )
            skipped_at = parse_lsn(notice["lsn"])
            assert skipped_at >= parse_lsn(before)
        assert journal_positions(str(tmp_path))[0] <= skipped_at
        assert confirmed(publisher_database) <= skipped_at
    with heard(publisher_database, tmp_path, start) as receiver:
        wait_until(receiver.notices, "the warning")
        receiver.go.set()
        wait_until(lambda: journal_positions(str(tmp_path))[0] > skipped_at, "the rest")
        assert len(receiver.notices()) == 1


def test_a_publication_that_was_replaced_while_nothing_was_written_has_lost_nothing(publisher_database, tmp_path):
    """Its OID is another one; the walsender reads publications as of the point in the WAL."""
    start = publish(publisher_database)
    for statement in ("DROP PUBLICATION p", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1)"):
        publisher_database.execute(statement)
    publisher_database.execute(
        "BEGIN; DROP PUBLICATION p; CREATE PUBLICATION p FOR TABLE t; COMMIT; INSERT INTO t VALUES (2)"
    )
    ((end,),) = publisher_database.execute("SELECT pg_current_wal_flush_lsn()::text")
    with heard(publisher_database, tmp_path, start) as receiver:
        wait_until(lambda: journal_positions(str(tmp_path))[0] >= parse_lsn(end), "both rows")
        assert receiver.notices() == []


@pytest.mark.parametrize("version", ["postgresql16", "postgresql15"])
def test_before_18_the_stream_ends_with_an_error_and_loses_nothing(version, request, tmp_path):
    """Also after the publication was created again: it does not exist at this point of the WAL."""
    (database,) = request.getfixturevalue("_one")(request.getfixturevalue(version))
    start = publish(database)
    for statement in (
        "DROP PUBLICATION p",
        "INSERT INTO t VALUES (1)",
        "CREATE PUBLICATION p FOR TABLE t",
    ):
        database.execute(statement)
    with receiving(database, tmp_path, start) as receiver:
        wait_until(lambda: receiver.error is not None, "the error")
    assert isinstance(receiver.error, PublisherNotReady)
    assert receiver.error.message == 'publication "p" does not exist'
    assert "ALTER SUBSCRIPTION … RECREATE SLOT" in str(receiver.error.hint)
    assert journal_positions(str(tmp_path))[0] <= start


@pytest.fixture
def _one() -> Iterator[Any]:
    """A function that gives a database of a server."""
    with contextlib.ExitStack() as stack:

        def give(server: PostgreSQL) -> tuple[Database]:
            return (stack.enter_context(contextlib.contextmanager(fresh_database)(server)),)

        yield give


# A run --------------------------------------------------------------------------------------------


class Run:
    """A run of a subscription to two publications, with a short timeout for the receiver."""

    def __init__(self, publisher: Database, folder: Path) -> None:
        self.publisher = publisher
        self.name = publisher.name
        self.file = folder / "target.db"
        publisher.execute("CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE u (a int PRIMARY KEY)")
        publisher.execute("CREATE PUBLICATION p FOR TABLE t; CREATE PUBLICATION q FOR TABLE u")
        self.runner = Runner(f"sqlite:///{self.file}", folder, {"SUBSCRIBER_WAL_RECEIVER_TIMEOUT": "4s"})
        self.runner.sql(
            f"CREATE SUBSCRIPTION {self.name} CONNECTION '{publisher.conninfo}' PUBLICATION p, q WITH (create_tables)"
        )
        self.runner.start()

    def rows(self, table: str) -> list[int]:
        with contextlib.closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=30)) as connection:
            return [row[0] for row in connection.execute(f"SELECT a FROM {table} ORDER BY a")]

    def differing(self) -> list[tuple[str, str]]:
        """The tables whose rows may differ, and why."""
        changes = self.runner.status()[self.name]["schema_changes"]
        return [(one["name"], one["reason"]) for one in changes if one["difference"] and not one["resolved_at"]]

    def insert(self, table: str, number: int) -> None:
        self.publisher.execute(f"INSERT INTO {table} VALUES ({number})")

    def wait_for(self, table: str, rows: list[int]) -> None:
        wait_until(lambda: self.rows(table) == rows, f"the rows {rows} in {table}")


@pytest.fixture(scope="module")
def run(postgresql18, tmp_path_factory) -> Iterator[Run]:
    with contextlib.contextmanager(fresh_database)(postgresql18) as publisher:
        running = Run(publisher, tmp_path_factory.mktemp("notices"))
        with contextlib.closing(running.runner):
            running.insert("u", 1)
            running.wait_for("u", [1])
            wait_until(lambda: running.runner.status()[running.name]["tables"] == {"r": 2}, "the tables to be ready")
            yield running
            running.runner.sql(f"DROP SUBSCRIPTION {running.name}")


@pytest.mark.spark
def test_rows_that_a_dropped_publication_has_lost_are_said_until_the_tables_are_copied_again(run):
    run.publisher.execute("DROP PUBLICATION p")
    run.insert("t", 1)
    run.insert("u", 2)
    run.wait_for("u", [1, 2])
    reason = 'Publication "p" did not exist at the publisher.'
    assert run.differing() == [("t", reason), ("u", reason)]
    said = run.runner.said()
    assert said.count('says: WARNING:  skipped loading publication "p"') == 1
    assert 'publication "p" did not exist at the publisher at' in said
    worker = run.runner.status()[run.name]["worker"]
    assert re.fullmatch(r'host "[^"]+", port [0-9]+, PostgreSQL 18\.[0-9]+', worker["server"])
    assert f" of {worker['server']}" in said
    assert worker["notices"] >= 1
    text = run.runner.call("status").stdout
    assert f"streaming from {worker['server']}: {run.name}" in text
    assert f'WARNING:  publication "p" of {run.name} does not exist at the publisher' in text
    assert "WARNING:  rows of 2 tables, public.t, public.u" in text
    # The tables are copied again too early: what is written after the copy is lost, too.
    refresh = f"ALTER SUBSCRIPTION {run.name} REFRESH TABLE public.t, public.u;"
    assert refresh in text
    run.runner.sql(refresh)
    run.wait_for("t", [1])
    wait_until(lambda: run.runner.status()[run.name]["tables"] == {"r": 2}, "the tables to be ready")
    assert len(run.differing()) == 2
    run.publisher.execute("CREATE PUBLICATION p FOR TABLE t")
    run.insert("t", 2)
    run.wait_for("t", [1, 2])
    text = run.runner.call("status").stdout
    assert "does not exist at the publisher" not in text
    assert "WARNING:  rows of 2 tables, public.t, public.u" in text
    run.runner.sql(refresh)
    wait_until(lambda: run.differing() == [], "the tables to be copied again")
    run.wait_for("t", [1, 2])


@pytest.mark.spark
def test_a_receiver_that_gives_no_sign_of_life_is_replaced(run):
    (stopped,) = run.runner.walreceivers()
    os.kill(stopped, signal.SIGSTOP)
    run.insert("u", 3)
    run.wait_for("u", [1, 2, 3])
    said = run.runner.said()
    assert f'the walreceiver of subscription "{run.name}" gave no sign of life for' in said
    assert stopped not in run.runner.processes()
    assert run.runner.status()[run.name]["apply_errors"] >= 1
