"""``subscriber run`` follows the catalog: CREATE and DROP SUBSCRIPTION given by other processes
while it works.
"""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from tests.crash.harness import Runner, wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]


class Followed:
    """A publisher with tables ``a`` and ``b``, a SQLite target, and a run that was started without
    any subscription.
    """

    def __init__(self, publisher, runner, file):
        self.publisher = publisher
        self.runner = runner
        self._file = file

    def create(self, table):
        """Run CREATE SUBSCRIPTION, and wait until the run has one more walreceiver."""
        before = len(self.runner.walreceivers())
        self.runner.sql(
            f"CREATE SUBSCRIPTION {self.slot(table)} CONNECTION '{self.publisher.conninfo}' PUBLICATION {table}"
            " WITH (copy_data = false)"
        )
        wait_until(lambda: len(self.runner.walreceivers()) > before, "the subscription to be taken up")

    def drop(self, table):
        """Run DROP SUBSCRIPTION, which ends when the run has released the slot."""
        self.runner.sql(f"DROP SUBSCRIPTION {self.slot(table)}")

    def slot(self, table):
        return f"{self.publisher.name}_{table}"

    def insert(self, table, key):
        self.publisher.execute(f"INSERT INTO {table} VALUES ({key})")

    def wait_for(self, table, keys):
        wait_until(lambda: self._keys(table) == keys, f"{table} to have the rows {keys}")

    def _keys(self, table):
        with contextlib.closing(sqlite3.connect(self._file)) as connection:
            return [key for (key,) in connection.execute(f"SELECT id FROM {table} ORDER BY id")]


@pytest.fixture
def followed(publisher_database, tmp_path):
    file = tmp_path / "target.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for table in ("a", "b"):
            connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)")
            publisher_database.execute(
                f"CREATE TABLE {table} (id int PRIMARY KEY); CREATE PUBLICATION {table} FOR TABLE {table}"
            )
    runner = Runner(f"sqlite:///{file}", tmp_path)
    with contextlib.closing(runner):
        runner.start()
        wait_until(lambda: "no subscription is enabled in this target" in runner.said(), "the run to be ready")
        yield Followed(publisher_database, runner, file)


def test_a_run_takes_up_and_lets_go_of_subscriptions_without_a_restart(followed):
    """C53, D1: CREATE, DROP of one of two, and CREATE of the same name again; each given by another
    process
    """
    runner = followed.runner
    process = runner.process
    followed.create("a")
    followed.insert("a", 1)
    followed.wait_for("a", [1])
    followed.create("b")

    followed.drop("a")
    wait_until(lambda: len(runner.walreceivers()) == 1, "the receiver to end, which has let go of the slot")
    assert followed.publisher.execute(
        f"SELECT slot_name FROM pg_replication_slots WHERE database = '{followed.publisher.name}'"
    ) == [(followed.slot("b"),)]
    followed.insert("a", 2)
    followed.insert("b", 1)
    followed.wait_for("b", [1])

    followed.create("a")
    followed.insert("a", 3)
    followed.wait_for("a", [1, 3])  # there was no subscription when 2 was written

    assert runner.process is process
    assert runner.interrupt() == 0
    assert "Traceback" not in runner.said()
