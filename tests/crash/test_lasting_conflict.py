"""A conflict that lasts uses no resources, however long it takes to resolve it (bounded_memory)."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import psycopg
import pytest

from tests.crash.conftest import replicating
from tests.crash.harness import Usage, catch_up, usage, wait_until

NAME = "lasting"
MEBIBYTE = 1024 * 1024
RESTARTS = 10


@pytest.fixture(scope="module")
def replication(own_server, tmp_path_factory):
    often = {"SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL": "10ms"}
    with replicating(own_server, tmp_path_factory.mktemp(NAME), NAME, environment=often) as replication:
        yield replication


def execute(database: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(database, timeout=30, isolation_level=None)) as connection:
        connection.execute(statement)


def attempts(database: Path) -> int:
    with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection:
        ((number,),) = connection.execute("SELECT apply_error_count FROM subscriber_stat_subscription_stats")
    return int(number)


def test_a_conflict_of_300_retries_costs_no_thread_and_no_descriptor(replication):
    """In an earlier version each retry left a thread and two descriptors in Python and two threads
    in the JVM, until the run failed.
    """
    runner = replication.runner
    runner.start()
    catch_up(replication.conninfo, replication.database, runner)
    execute(replication.database, "INSERT INTO orders VALUES (1000, 'in the way', NULL, NULL)")
    with psycopg.connect(replication.conninfo, autocommit=True) as publisher:
        publisher.execute("INSERT INTO orders VALUES (999, 'before', NULL, NULL)")
        publisher.execute("INSERT INTO orders VALUES (1000, 'conflict', NULL, NULL)")
        publisher.execute("INSERT INTO orders VALUES (1001, 'after', NULL, NULL)")

    def retried(times: int) -> tuple[Usage, Usage]:
        wait_until(lambda: attempts(replication.database) >= times, f"{times} retries", runner=runner)
        return usage(runner.process.pid), usage(runner.java())

    # The first attempts are made while Spark starts the query, which needs threads, too.
    python_before, java_before = retried(100)
    python, java = retried(300)
    assert runner.said().count("apply of subscription") == 1, "the query was started anew"
    assert python.threads <= python_before.threads + 3
    assert python.descriptors <= python_before.descriptors + 4, "an attempt in progress has a few open"
    assert python.memory < python_before.memory + 32 * MEBIBYTE
    # The JVM's thread pools grow and shrink, and on a busy machine Spark still starts its query
    # after 100 attempts. One thread an attempt would be 200.
    assert java.threads <= java_before.threads + 40
    assert java.descriptors <= java_before.descriptors + 40
    assert java.memory < java_before.memory + 192 * MEBIBYTE
    status = runner.status()[NAME]
    assert status["conflicts"].keys() == {"insert_exists"}
    # On a busy disk SQLite's lock may not be had for five seconds. That error is counted, too.
    assert 250 <= status["conflicts"]["insert_exists"] <= status["apply_errors"]
    assert runner.said().count("conflict=insert_exists") < 10, "the log has one line a minute"


def test_once_it_is_mended_everything_arrives(replication):
    """C35"""
    execute(replication.database, "DELETE FROM orders WHERE id = 1000")
    catch_up(replication.conninfo, replication.database, replication.runner)
    replication.compare()
    said = replication.runner.said()
    assert said.count("apply of subscription") == 1
    assert f'subscription "{NAME}" works again (apply)' in said
    assert "Traceback" not in said


@pytest.mark.long
def test_queries_that_are_stopped_and_started_leave_nothing_in_python(replication):
    """DISABLE and ENABLE start a query and a receiver again; docs/architecture.md says what Spark
    leaves in the JVM.
    """
    runner = replication.runner

    def said_after(command: str, text: str) -> None:
        before = runner.said().count(text)
        runner.sql(f"ALTER SUBSCRIPTION {NAME} {command}")
        wait_until(lambda: runner.said().count(text) > before, f"the log to say: {text}", runner=runner)

    def cycle() -> None:
        said_after("DISABLE", "was dropped, disabled or changed")
        said_after("ENABLE", "apply of subscription")

    if runner.process is None:  # the tests before were not selected
        runner.start()
        catch_up(replication.conninfo, replication.database, runner)
    for _ in range(3):
        cycle()
    before = usage(runner.process.pid)
    for _ in range(RESTARTS):
        cycle()
    after = usage(runner.process.pid)
    assert after.threads <= before.threads + 2
    assert after.descriptors <= before.descriptors + 4
