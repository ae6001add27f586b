"""A slot goes from one subscription to the next while changes are received and not applied: the
next one gets them (slot_after_disk).

PostgreSQL's own procedure: DISABLE, SET (slot_name = NONE), DROP SUBSCRIPTION; then CREATE
SUBSCRIPTION … WITH (create_slot = false).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Database
from tests.crash.harness import Runner, wait_until

ROWS = 50


class HandedOn:
    """A subscription that has received ROWS rows and applied none, because a conflict stops the
    first one.
    """

    def __init__(self, publisher: Database, folder: Path) -> None:
        self.publisher = publisher
        self.folder = folder
        self.runner = self.runner_of("first")

    def runner_of(self, name: str, journal: Path | None = None) -> Runner:
        """A separate target with an empty table."""
        file = self.folder / f"{name}.db"
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
        runner = Runner(f"sqlite:///{file}", self.folder / name)
        runner.environment["SUBSCRIBER_JOURNAL"] = str(journal or self.folder / "journal")
        return runner

    @property
    def slot(self) -> str:
        return self.publisher.name

    def sql(self, runner: Runner, statement: str) -> str:
        answer = runner.call("sql", "-c", statement)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout + answer.stderr

    def create(self, options: str) -> str:
        return (
            f"CREATE SUBSCRIPTION s CONNECTION '{self.publisher.conninfo}' PUBLICATION p"
            f" WITH (slot_name = {self.slot}, copy_data = false, {options})"
        )

    def fall_behind(self) -> None:
        runner = self.runner
        self.sql(runner, self.create("create_slot = true"))
        self.write(runner, "INSERT INTO t VALUES (1, 'in the way')")
        runner.start()
        wait_until(lambda: runner.status()["s"]["slot_active"], "the run to stream")
        for number in range(1, ROWS + 1):
            self.publisher.execute(f"INSERT INTO t VALUES ({number}, 'x')")
        end = self.publisher.execute("SELECT pg_current_wal_flush_lsn()::text")[0][0]
        wait_until(
            lambda: (
                self.publisher.execute(
                    f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = '{self.slot}'"
                )
                == [(True,)]
            ),
            "everything to be received and confirmed",
        )
        wait_until(lambda: runner.status()["s"]["apply_errors"], "the conflict")
        assert runner.interrupt() == 0

    def let_go(self) -> str:
        """Run DISABLE, SET (slot_name = NONE) and DROP; returns their messages."""
        return "".join(
            self.sql(self.runner, statement)
            for statement in (
                "ALTER SUBSCRIPTION s DISABLE",
                "ALTER SUBSCRIPTION s SET (slot_name = NONE)",
                "DROP SUBSCRIPTION s",
            )
        )

    def write(self, runner: Runner, statement: str) -> None:
        with contextlib.closing(sqlite3.connect(runner.target.removeprefix("sqlite:///"))) as connection:
            connection.execute(statement)
            connection.commit()

    def keys(self, runner: Runner) -> list[int]:
        with contextlib.closing(sqlite3.connect(runner.target.removeprefix("sqlite:///"))) as connection:
            return [key for (key,) in connection.execute("SELECT id FROM t ORDER BY id")]

    def consumers(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "journal").glob("*/consumer-*"))


@pytest.fixture
def handed_on(publisher_database: Database, tmp_path: Path) -> Iterator[HandedOn]:
    publisher_database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION p FOR TABLE t")
    case = HandedOn(publisher_database, tmp_path)
    with contextlib.closing(case.runner):
        case.fall_behind()
        yield case


def test_the_next_subscription_of_the_target_gets_what_was_received_and_not_applied(handed_on):
    said = handed_on.let_go()
    assert 'WARNING:  subscription "s" has not applied' in said
    assert "bytes of changes that it has received, from" in said
    runner = handed_on.runner
    handed_on.sql(runner, handed_on.create("create_slot = false"))
    handed_on.write(runner, "DELETE FROM t")
    answer = runner.once()
    assert answer.returncode == 0, answer.stderr
    assert handed_on.keys(runner) == list(range(1, ROWS + 1))
    assert len(handed_on.consumers()) == 1


@pytest.mark.long
def test_a_subscription_of_another_target_goes_on_where_the_old_one_had_applied(handed_on):
    handed_on.let_go()
    with contextlib.closing(handed_on.runner_of("second")) as second:
        handed_on.sql(second, handed_on.create("create_slot = false"))
        answer = second.once()
        assert answer.returncode == 0, answer.stderr
        assert handed_on.keys(second) == list(range(1, ROWS + 1))
        # Only the new subscription still needs the journal.
        assert len(handed_on.consumers()) == 1


def test_where_the_journal_is_elsewhere_the_slot_is_refused_with_both_positions(handed_on):
    handed_on.let_go()
    elsewhere = handed_on.folder / "another machine"
    answer = handed_on.runner.call(
        "sql", "-c", handed_on.create("create_slot = false"), SUBSCRIBER_JOURNAL=str(elsewhere)
    )
    assert answer.returncode == 1
    assert f'replication slot "{handed_on.slot}" is confirmed up to' in answer.stderr
    assert "but its changes were applied up to" in answer.stderr
    assert "there is no journal of this slot here" in answer.stderr


@pytest.mark.long
def test_a_slot_that_is_taken_back_needs_its_journal(handed_on):
    """SET (slot_name = NONE) and back again, but the run is started on another machine."""
    runner = handed_on.runner
    for statement in (
        "ALTER SUBSCRIPTION s DISABLE",
        "ALTER SUBSCRIPTION s SET (slot_name = NONE)",
        f"ALTER SUBSCRIPTION s SET (slot_name = {handed_on.slot})",
        "ALTER SUBSCRIPTION s ENABLE",
    ):
        handed_on.sql(runner, statement)
    handed_on.write(runner, "DELETE FROM t")
    elsewhere = str(handed_on.folder / "another machine")
    answer = runner.call("run", "--once", "--master", "local[2]", SUBSCRIBER_JOURNAL=elsewhere)
    assert answer.returncode == 1
    assert "there is no journal of this slot here" in answer.stderr
    assert handed_on.keys(runner) == []
    answer = runner.once()
    assert answer.returncode == 0, answer.stderr
    assert handed_on.keys(runner) == list(range(1, ROWS + 1))


@pytest.mark.long
def test_a_subscription_that_copies_its_tables_does_not_need_what_was_not_applied(handed_on):
    handed_on.let_go()
    runner = handed_on.runner
    handed_on.write(runner, "DELETE FROM t")
    elsewhere = handed_on.folder / "another machine"
    runner.environment["SUBSCRIBER_JOURNAL"] = str(elsewhere)
    handed_on.sql(runner, handed_on.create("create_slot = false").replace("copy_data = false, ", ""))
    answer = runner.once()
    assert answer.returncode == 0, answer.stderr
    assert handed_on.keys(runner) == list(range(1, ROWS + 1))


def test_a_slot_that_a_subscription_of_another_target_uses_is_refused_with_its_name(handed_on):
    """With and without copies; also by SET (slot_name), and while the other one streams."""
    slot, publisher = handed_on.slot, handed_on.publisher
    with contextlib.closing(handed_on.runner_of("second")) as second:
        for copy in ("copy_data = false, ", ""):
            said = second.call(
                "sql", "-c", handed_on.create("create_slot = false").replace("copy_data = false, ", copy)
            )
            assert said.returncode == 1
            assert f'replication slot "{slot}" is used by subscription "s" of {handed_on.runner.target}' in said.stderr
            assert "subscriber journal forget" in said.stderr
        own = f"{slot}_own"
        handed_on.sql(
            second, handed_on.create("create_slot = true").replace(f"slot_name = {slot}", f"slot_name = {own}")
        )
        try:
            refused = second.call("sql", "-c", f"ALTER SUBSCRIPTION s SET (slot_name = {slot})")
            assert refused.returncode == 1
            assert "is used by subscription" in refused.stderr
            elsewhere = {"SUBSCRIBER_JOURNAL": str(handed_on.folder / "another machine")}
            handed_on.runner.start()
            wait_until(lambda: handed_on.runner.status()["s"]["slot_active"], "the first run to stream")
            streamed = second.call("sql", "-c", f"ALTER SUBSCRIPTION s SET (slot_name = {slot})", **elsewhere)
            assert streamed.returncode == 1
            assert f'replication slot "{slot}" is active for PID' in streamed.stderr
            assert 'application "s"' in streamed.stderr
        finally:
            second.sql("DROP SUBSCRIPTION s")
    assert publisher.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(1,)]
