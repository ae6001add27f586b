"""``subscriber run --standby``: a second run waits for the target's run lock, and takes over."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy.exc

from subscriber.testing.servers.open_servers import MariaDB, PostgreSQLServer
from tests.crash.harness import Runner, wait_until

SHARED = '''
"""Lets every process have shared:// as the URL of an object store: files, which appear as a whole,
without a lock.
"""
import contextlib
import os
import uuid

import subscriber.stream.journal.storage as storage

original = storage.filesystem


class Store:
    def __init__(self):
        from pyarrow.fs import LocalFileSystem

        self._files = LocalFileSystem()

    def __getattr__(self, name):
        return getattr(self._files, name)

    @contextlib.contextmanager
    def open_output_stream(self, path):
        upload = f"{os.environ['UPLOADS']}/{uuid.uuid4().hex}"
        with open(upload, "wb") as file:
            yield file
        os.replace(upload, path)


def filesystem(url):
    return (Store(), url.removeprefix("shared://")) if url.startswith("shared://") else original(url)


storage.filesystem = filesystem
'''


class Standby:
    """A publisher, a target on the same server or in MariaDB, and two runs with one journal."""

    def __init__(
        self, server: PostgreSQLServer, folder: Path, name: str, journal: str, mariadb: MariaDB | None = None
    ) -> None:
        self.server = server
        self.of_target = server if mariadb is None else mariadb
        self.journal = journal
        self.publisher = server.conninfo(name, options="-cwal_sender_timeout=3s")
        self.target = f"{name}_target"
        (folder / "sitecustomize.py").write_text(SHARED)
        environment = {
            "SUBSCRIBER_JOURNAL": journal,
            "PYTHONPATH": str(folder),
            "UPLOADS": str(folder),
            "SUBSCRIBER_WAL_RECEIVER_TIMEOUT": "5s",
        }
        url = self.of_target.url(self.target)
        self.first = Runner(url, folder / "first", dict(environment))
        self.second = Runner(url, folder / "second", dict(environment))

    def insert(self, first: int, last: int) -> None:
        with psycopg.connect(self.publisher, autocommit=True) as connection:
            for number in range(first, last + 1):
                connection.execute("INSERT INTO t VALUES (%s, 'a row')", (number,))

    def rows(self) -> list[int]:
        return [number for (number,) in self.of_target.execute("SELECT id FROM t ORDER BY id", self.target)]

    def wait_for(self, last: int) -> None:
        try:
            wait_until(lambda: self.rows() == list(range(1, last + 1)), f"row {last}", 60.0)
        except AssertionError:
            said = f"{self.first.said()[-2000:]}\n--- second\n{self.second.said()[-3000:]}"
            raise AssertionError(f"row {last} has not arrived: {self.rows()}\n{said}") from None

    def start_both(self) -> None:
        self.first.start("local[1]")
        self.insert(1, 1)
        self.wait_for(1)
        self.second.start("local[1]", "--standby")
        wait_until(lambda: "waiting for the run lock" in self.second.said(), f"a standby\n{self.second.said()}")

    def cut_off_first(self) -> None:
        """Stop every process of the first run, and end its sessions in the target, as the server
        does when a machine is gone. The other run also loses its session, and opens another one.
        """
        for pid in self.first.processes():
            os.kill(pid, signal.SIGSTOP)
        if isinstance(self.of_target, MariaDB):
            sessions = self.of_target.execute(
                f"SELECT id FROM information_schema.processlist WHERE db = '{self.target}'"
            )
            for (number,) in sessions:
                with contextlib.suppress(sqlalchemy.exc.OperationalError):  # it has ended
                    self.of_target.execute(f"KILL {number}")
        else:
            self.server.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.target}'"
            )

    def wake_first(self) -> None:
        for pid in self.first.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@pytest.fixture
def standby(own_server, tmp_path, request) -> Iterator[Standby]:
    """With the journal in a shared folder, and at a URL, where there is no lock; and with a target
    in MariaDB.
    """
    name = f"standby_{request.param}"
    mariadb = request.getfixturevalue("mariadb") if request.param == "mariadb" else None
    of_target = mariadb or own_server
    own_server.create_database(name)
    of_target.create_database(f"{name}_target")
    table = "CREATE TABLE t (id int PRIMARY KEY, a text)"
    own_server.execute(f"{table}; CREATE PUBLICATION p FOR TABLE t", name)
    of_target.execute(table, f"{name}_target")
    place = f"{'shared://' if request.param == 'url' else ''}{tmp_path}/journal"
    made = Standby(own_server, tmp_path, name, place, mariadb)
    try:
        made.first.sql(
            f"CREATE SUBSCRIPTION {name} CONNECTION '{made.publisher}' PUBLICATION p WITH (copy_data = false)"
        )
        yield made
    finally:
        made.wake_first()
        made.first.close()
        made.second.close()
        own_server.drop_database(name)
        of_target.drop_database(f"{name}_target")


@pytest.mark.parametrize("standby", ["folder", pytest.param("url", marks=pytest.mark.long), "mariadb"], indirect=True)
def test_a_standby_takes_over_from_a_run_that_is_killed(standby):
    standby.start_both()
    standby.first.kill()
    standby.insert(2, 20)
    standby.wait_for(20)
    assert "standby: the run lock is free, this run takes over" in standby.second.said()
    wait_until(lambda: not standby.first.processes(), "the children of the first run to end")
    assert "Traceback" not in standby.second.said()


@pytest.mark.parametrize(
    "standby",
    ["url", pytest.param("folder", marks=pytest.mark.long), pytest.param("mariadb", marks=pytest.mark.long)],
    indirect=True,
)
def test_a_run_that_was_taken_over_and_wakes_up_changes_nothing_and_ends(standby):
    """progress_with_data, slot_after_disk: a stopped receiver keeps the lock of a folder. At a URL,
    the second run goes on without it.
    """
    standby.start_both()
    standby.insert(2, 10)
    standby.cut_off_first()
    standby.insert(11, 20)
    wait_until(lambda: "apply of subscription" in standby.second.said(), f"a take-over\n{standby.second.said()}")
    if "://" in standby.journal:
        standby.wait_for(20)
    standby.wake_first()
    standby.insert(21, 30)
    assert standby.first.process.wait(60) == 1
    assert "another `subscriber run` has taken over" in standby.first.said()
    standby.insert(31, 40)
    standby.wait_for(40)
    assert standby.second.running
    assert standby.second.status()[standby.target.removesuffix("_target")]["state"] == "streaming"
    # The journal is whole: another run finds nothing wrong with it.
    assert standby.second.terminate() == 0
    standby.insert(41, 50)
    assert standby.second.once().returncode == 0, standby.second.said()
    standby.wait_for(50)
    for runner in (standby.first, standby.second):
        assert "Traceback" not in runner.said()
