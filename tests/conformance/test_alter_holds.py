"""ALTER SUBSCRIPTION returns when the change is in effect: what is committed at the publisher after
it is published by the new list (slot_after_disk).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import threading

import pytest

from tests.crash.harness import Runner, wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

TABLES = ("a", "b", "c", "d")


@pytest.fixture
def running(publisher_database, tmp_path):
    """A run with a subscription to publication ``a``; other publications exist and can be added."""
    file = tmp_path / "target.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)")
            publisher_database.execute(
                f"CREATE TABLE {table} (id int PRIMARY KEY); CREATE PUBLICATION {table} FOR TABLE {table}"
            )
    runner = Runner(f"sqlite:///{file}", tmp_path)
    with contextlib.closing(runner):
        slot = publisher_database.name
        runner.sql(
            f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION a"
            f" WITH (copy_data = false, slot_name = {slot})"
        )
        runner.start()
        wait_until(lambda: runner.status()["s"]["slot_active"], "the run to stream")
        yield publisher_database, runner, file


def keys(file, table):
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return [key for (key,) in connection.execute(f"SELECT id FROM {table} ORDER BY id")]


def wait_for_row(file, table):
    wait_until(lambda: keys(file, table) == [1], f"the row of {table}")


def stop_between_transactions(runner, file):
    """Stop the run, unless it is in a transaction in the target: it would keep the file locked.
    Returns whether it is stopped.
    """
    os.kill(runner.process.pid, signal.SIGSTOP)
    with contextlib.closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            os.kill(runner.process.pid, signal.SIGCONT)
            return False
        connection.execute("ROLLBACK")
    return True


def test_a_row_that_is_inserted_right_after_add_publication_came_back_arrives(running):
    """Without a copy, only the stream can bring the row."""
    publisher, runner, file = running
    for number, table in enumerate(TABLES[1:], start=1):
        # Insert rows all the time, so that a receiver with the old list would confirm something.
        publisher.execute(f"INSERT INTO a VALUES ({number})")
        runner.sql(f"ALTER SUBSCRIPTION s ADD PUBLICATION {table} WITH (copy_data = false)")
        publisher.execute(f"INSERT INTO {table} VALUES (1)")
        wait_for_row(file, table)
    assert keys(file, "a") == [1, 2, 3]
    assert runner.status()["s"]["apply_errors"] == 0
    assert runner.interrupt() == 0


def test_a_run_that_does_not_notice_loses_its_walsender(running):
    """As a run on another machine that cannot reach the target: its receiver streams with the old
    list until its walsender is terminated.
    """
    publisher, runner, file = running
    wait_until(lambda: stop_between_transactions(runner, file), "the run to be stopped outside a transaction")
    try:
        runner.sql("ALTER SUBSCRIPTION s ADD PUBLICATION b WITH (copy_data = false)")
        active = publisher.execute(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{publisher.name}'")
        assert active == [(False,)]
        publisher.execute("INSERT INTO b VALUES (1)")
    finally:
        os.kill(runner.process.pid, signal.SIGCONT)
    wait_until(lambda: keys(file, "b") == [1], "the row of b")


@pytest.mark.long
def test_a_receiver_that_was_just_about_to_start_does_not_confirm_by_the_old_list(running):
    """The command finds the slot inactive; the receiver reads the catalog again when it has the
    slot.
    """
    publisher, runner, file = running
    ending = threading.Event()

    def end_walsenders():
        while not ending.is_set():
            publisher.execute(
                f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{publisher.name}' AND active"
            )
            ending.wait(0.05)

    thread = threading.Thread(target=end_walsenders)
    thread.start()
    try:
        for table in TABLES[1:]:
            runner.sql(f"ALTER SUBSCRIPTION s ADD PUBLICATION {table} WITH (copy_data = false)")
            publisher.execute(f"INSERT INTO {table} VALUES (1)")
    finally:
        ending.set()
        thread.join()
    for table in TABLES[1:]:
        wait_for_row(file, table)
