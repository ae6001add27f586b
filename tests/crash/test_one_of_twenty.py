"""Many subscriptions of one run, each broken in a different way at the same time: the others are
not affected (one_does_not_end_another).

There are twelve, not twenty: each costs two processes of 100 MB and a query of Spark's, and two
cores have other tests to run beside this one. Ten are broken, each in a way of its own; two are
not. Those whose trouble is tried again go on by themselves when it is over.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import threading
from functools import partial
from pathlib import Path

import psycopg
import pytest

from subscriber.stream.journal.browse import list_journals
from tests.crash.harness import Runner, wait_until

DATABASE = "twenty"
HEALTHY = ("healthy", "a/b")
REASONS = {
    "slot_dropped": 'replication slot "slot_dropped" does not exist',
    "publication_dropped": 'publication "publication_dropped" does not exist',
    "wrong_port": "connection",
    "conflict": "conflict detected",
    "disabled": "conflict detected",
    "no_table": "no_table",
    "control_file": "is not a journal's control file",
    "no_folder": "journal",
    "killed": "ended with exit code -9",
    "row_filter": 'filtering a change of relation "public.row_filter", sent at',
}
"""How each subscription is broken → the error that its ``status`` must show."""
GO_ON = ("wrong_port", "conflict", "killed")
"""Subscriptions that have everything after the cause is removed; a table that was recreated has
only later changes.
"""
NAMES = (*HEALTHY, *REASONS)


class Many:
    """A SQLite target with a subscription, a publication, a slot and a table for each name."""

    def __init__(self, server, folder: Path) -> None:
        self.server = server
        self.database = folder / "target.db"
        environment = {"SUBSCRIBER_PUBLISHER": server.conninfo(DATABASE)}
        self.runner = Runner(f"sqlite:///{self.database}", folder, environment)

    def make(self) -> None:
        for name in NAMES:
            self.publish(f'CREATE TABLE "{name}" (id int PRIMARY KEY); CREATE PUBLICATION "{name}" FOR TABLE "{name}"')
            self.in_target(f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY)')
        self.runner.sql("CREATE PUBLICATION ours FOR TABLE row_filter WHERE (10 / (id - 10) <> 100)")
        for name in NAMES:
            publication, more = (name, "")
            if name == "row_filter":
                publication, more = "ours", f", carrier = '{name}'"
            elif name == "disabled":
                more = ", disable_on_error = true"
            slot = self.slot(name)
            self.runner.sql(
                f"CREATE SUBSCRIPTION \"{name}\" CONNECTION '{self.server.conninfo(DATABASE)}'"
                f' PUBLICATION "{publication}" WITH (copy_data = false, slot_name = {slot}{more})'
            )

    @staticmethod
    def slot(name: str) -> str:
        return name.replace("/", "_")

    def publish(self, statement: str) -> None:
        self.server.execute(statement, DATABASE)

    def in_target(self, statement: str) -> list[tuple]:
        with contextlib.closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            return connection.execute(statement).fetchall()

    def insert(self, *keys: int) -> None:
        for name in NAMES:
            self.publish(f'INSERT INTO "{name}" VALUES {", ".join(f"({key})" for key in keys)}')

    def keys(self, name: str) -> list[int]:
        return [key for (key,) in self.in_target(f'SELECT id FROM "{name}" ORDER BY id')]

    def wait_for(self, names: tuple[str, ...], keys: list[int]) -> None:
        def all_there() -> bool:
            assert self.runner.running, self.runner.said()[-5000:]
            return all(self.keys(name) == keys for name in names)

        wait_until(all_there, f"the rows {keys} of {names}", patience=300)

    def says(self, name: str, reason: str) -> bool:
        return reason in (self.runner.status()[name]["last_error"] or "")

    def journal(self, name: str) -> Path:
        (found,) = (one for one in list_journals(str(self.runner.journal)) if one.control.slot == self.slot(name))
        return Path(found.url)

    def receivers(self, journal: Path) -> list[int]:
        """The walreceiver that has the lock of a journal."""
        found = []
        for pid in self.runner.walreceivers():
            with contextlib.suppress(OSError):
                held = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
                if any(Path(file).parent == journal for file in held):
                    found.append(pid)
        return found

    def kill_receiver(self, journal: Path) -> None:
        for pid in self.receivers(journal):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def many(own_server, tmp_path):
    own_server.create_database(DATABASE)
    many = Many(own_server, tmp_path)
    try:
        many.make()
        yield many
    finally:
        many.runner.close()
        own_server.drop_database(DATABASE)


@contextlib.contextmanager
def killed_again_and_again(many: Many, journal: Path):
    ending = threading.Event()

    def kill() -> None:
        while not ending.wait(0.2):
            many.kill_receiver(journal)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def break_all(many: Many) -> None:
    """Break each subscription, apart from those that the next rows break."""
    journals = {name: many.journal(name) for name in ("control_file", "no_folder")}
    wait_until(lambda: dropped(many, "slot_dropped"), "the slot to be dropped")
    many.publish("DROP PUBLICATION publication_dropped")
    many.runner.sql("ALTER SUBSCRIPTION wrong_port CONNECTION 'host=127.0.0.1 port=1 user=postgres dbname=twenty'")
    for name in ("conflict", "disabled"):
        many.in_target(f"INSERT INTO {name} VALUES (11)")
    many.in_target("DROP TABLE no_table")
    (journals["control_file"] / "journal.json").write_text("nonsense")
    journals["no_folder"].rename(many.runner.folder / "away")
    journals["no_folder"].write_text("a file where the folder was")
    many.publish(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
        " WHERE slot_name IN ('control_file', 'no_folder', 'publication_dropped')"
    )


def dropped(many: Many, slot: str) -> bool:
    """Drop the slot; returns whether that succeeded, because its receiver may connect first."""
    with contextlib.suppress(psycopg.errors.ObjectInUse):
        many.publish(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot}'")
        many.publish(f"SELECT pg_drop_replication_slot('{slot}')")
        return True
    return False


def mend(many: Many) -> None:
    many.runner.sql(f"ALTER SUBSCRIPTION wrong_port CONNECTION '{many.server.conninfo(DATABASE)}'")
    many.in_target("DELETE FROM conflict WHERE id = 11")
    many.in_target("CREATE TABLE no_table (id INTEGER PRIMARY KEY)")


@pytest.mark.long
def test_subscriptions_that_are_broken_in_every_way_leave_the_others_alone(many):
    runner = many.runner
    runner.start()
    many.insert(1)
    many.wait_for(NAMES, [1])

    with killed_again_and_again(many, many.journal("killed")):
        break_all(many)
        many.insert(10, 11)
        many.wait_for(HEALTHY, [1, 10, 11])

        for name, reason in REASONS.items():
            wait_until(partial(many.says, name, reason), f"the status of {name} to say: {reason}")
        many.insert(12)
        many.wait_for(HEALTHY, [1, 10, 11, 12])

    statuses = runner.status()
    assert [name for name, status in statuses.items() if not status["enabled"]] == ["disabled"]
    assert all(statuses[name]["last_error"] is None for name in HEALTHY)
    mend(many)
    many.wait_for((*HEALTHY, *GO_ON), [1, 10, 11, 12])
    many.wait_for(("no_table",), [10, 11, 12])
    assert runner.interrupt() == 1  # some subscriptions stay stopped
    wait_until(lambda: not runner.processes(), f"all processes to end: {runner.processes()}", 30)
    said = runner.said()
    assert "Traceback" not in said
    assert "fault of the program" not in said
