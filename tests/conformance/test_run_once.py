"""``run --once && switch-over``: exit code 0 means that everything is in the target, and everything
else is named with its reason.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Database
from tests.crash.harness import COMMAND, Runner, wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]


class Migration:
    """A publisher with ``good`` and ``bad``, one row each, and a SQLite target."""

    def __init__(self, publisher: Database, folder: Path) -> None:
        self.publisher = publisher
        self.file = folder / "target.db"
        self.runner = Runner(f"sqlite:///{self.file}", folder)
        publisher.execute(
            "CREATE TABLE good (id int PRIMARY KEY); INSERT INTO good VALUES (1);"
            " CREATE TABLE bad (id int PRIMARY KEY); INSERT INTO bad VALUES (1); CREATE PUBLICATION p FOR TABLE good, bad"
        )
        with contextlib.closing(sqlite3.connect(self.file)) as connection:
            connection.execute("CREATE TABLE good (id INTEGER PRIMARY KEY)")

    def create_bad(self, more: str = "") -> None:
        with contextlib.closing(sqlite3.connect(self.file)) as connection:
            connection.execute(f"CREATE TABLE bad (id INTEGER PRIMARY KEY{more})")

    def subscribe(self, conninfo: str = "") -> None:
        self.runner.sql(
            f"CREATE SUBSCRIPTION {self.name} CONNECTION '{conninfo or self.publisher.conninfo}' PUBLICATION p"
        )

    @property
    def name(self) -> str:
        return f"s_{self.publisher.name}"

    def once(self) -> subprocess.CompletedProcess[str]:
        return self.runner.call("run", "--once", "--master", "local[2]", SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL="300ms")

    def count(self, table: str) -> int:
        with contextlib.closing(sqlite3.connect(self.file)) as connection:
            (number,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(number)


@pytest.fixture
def migration(publisher_database: Database, tmp_path: Path) -> Iterator[Migration]:
    made = Migration(publisher_database, tmp_path)
    with contextlib.closing(made.runner):
        yield made


def test_a_table_with_a_not_null_column_of_its_own_is_never_copied_and_that_is_no_success(migration):
    """In an earlier version the exit code was 0, although the table was empty."""
    migration.create_bad(", own TEXT NOT NULL")
    migration.subscribe()
    answer = migration.once()
    assert answer.returncode == 1, answer.stderr
    assert (
        f'table "public.bad" of subscription "{migration.name}" is not ready (state "d", being copied): '
        in answer.stderr
    )
    assert 'table "public.good"' not in answer.stderr.partition("is not ready")[2]
    assert (migration.count("good"), migration.count("bad")) == (1, 0)

    with contextlib.closing(sqlite3.connect(migration.file)) as connection:
        connection.execute("DROP TABLE bad")
    migration.create_bad()
    migration.publisher.execute("CREATE TABLE late (id int PRIMARY KEY); ALTER PUBLICATION p ADD TABLE late")
    answer = migration.once()
    assert (answer.returncode, migration.count("bad")) == (0, 1), answer.stderr
    assert "is not ready" not in answer.stderr
    # Tables that are published later are not in the subscription yet, as in PostgreSQL; there is a
    # warning.
    assert (
        'does not have 1 of the tables of its publications, and they are not replicated: "public.late"' in answer.stderr
    )
    assert f"HINT:  ALTER SUBSCRIPTION {migration.name} REFRESH PUBLICATION;" in answer.stderr


def test_a_publishers_role_that_may_not_read_a_table_is_no_success(migration):
    publisher = migration.publisher
    role = f"reader_{publisher.name}"
    publisher.execute(f"CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON good TO {role}")
    try:
        migration.create_bad()
        migration.subscribe(f"{publisher.conninfo} user={role}")
        answer = migration.once()
    finally:
        migration.runner.sql(f"DROP SUBSCRIPTION {migration.name}")
        publisher.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert answer.returncode == 1, answer.stderr
    assert 'is not ready (state "d", being copied): ' in answer.stderr
    assert "permission denied for table bad" in answer.stderr
    assert migration.count("good") == 1


def test_a_run_that_is_interrupted_has_not_caught_up(migration):
    migration.create_bad(", own TEXT NOT NULL")
    migration.subscribe()
    runner = migration.runner
    environment = {**runner.environ(), "SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL": "60s"}
    with runner.log.open("ab") as log:
        process = subprocess.Popen(
            [*COMMAND, "run", "--once", "--master", "local[2]"], env=environment, stdin=subprocess.DEVNULL, stderr=log
        )
    try:
        wait_until(lambda: ', table "public.bad": ' in runner.said(), "the copy to have failed")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 1
    finally:
        process.kill()
        process.wait()
    assert "the run was stopped before every subscription had caught up" in runner.said()
    assert 'table "public.bad" of subscription' in runner.said()
