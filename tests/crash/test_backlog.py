"""A backlog of many small transactions, received while apply cannot continue, and applied when it
can (bounded_memory).

What is bounded does not depend on how fast the machine is; the times are printed (``-s``).
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

import pytest

from subscriber.base.lsn import parse_lsn
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.targets import open_target
from subscriber.verify.compare_tables import compare_tables
from tests.crash.harness import Runner, usage, wait_until

TRANSACTIONS = 50_000
NAME = "backlog"
MEBIBYTE = 1024 * 1024
MOST_FILES = TRANSACTIONS // 10
"""Measured: 5 while the publisher wrote 18,000 transactions a second, 1 when all of them had been
written before.
"""
RECEIVER_MEMORY = 300 * MEBIBYTE
SUPERVISOR_MEMORY = 400 * MEBIBYTE
"""Measured: 170 and 214 MiB, most of which are the modules."""

ONE_BY_ONE = """
CREATE PROCEDURE one_by_one(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN first..last LOOP
        INSERT INTO t VALUES (i, 'row ' || i);
        COMMIT;
    END LOOP;
END $$;
"""


def segments(runner: Runner) -> int:
    return len(list(runner.journal.glob("*/*.arrow")))


def execute(database: Path, statement: str) -> list[tuple]:
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        return connection.execute(statement).fetchall()


@pytest.fixture
def runner(own_server, tmp_path):
    """A run that cannot apply the very first transaction."""
    own_server.create_database(NAME)
    own_server.execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION p FOR TABLE t", NAME)
    own_server.execute(ONE_BY_ONE, NAME)
    database = tmp_path / "target.db"
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, v text)")
    execute(database, "INSERT INTO t VALUES (1, 'in the way')")
    runner = Runner(f"sqlite:///{database}", tmp_path, {"SUBSCRIBER_WAL_RETRIEVE_RETRY_INTERVAL": "2s"})
    try:
        runner.sql(
            f"CREATE SUBSCRIPTION {NAME} CONNECTION '{own_server.conninfo(NAME)}' PUBLICATION p WITH (copy_data = false)"
        )
        yield runner
    finally:
        runner.close()
        own_server.drop_database(NAME)


def test_fifty_thousand_small_transactions_are_received_and_drained_in_bounded_space(own_server, runner):
    database = runner.folder / "target.db"
    runner.start()
    own_server.execute("CALL one_by_one(1, 1)", NAME)
    wait_until(lambda: "conflict" in runner.said(), "apply to be stuck", runner=runner)
    began = time.monotonic()
    own_server.execute(f"CALL one_by_one(2, {TRANSACTIONS})", NAME)
    ((end,),) = own_server.execute("SELECT pg_current_wal_flush_lsn()::text", NAME)

    def confirmed() -> bool:
        ((lsn,),) = own_server.execute(
            f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{NAME}'"
        )
        return parse_lsn(lsn) >= parse_lsn(end)

    wait_until(confirmed, "all to be received", patience=600)
    received = time.monotonic() - began
    files = segments(runner)
    assert execute(database, "SELECT * FROM t") == [(1, "in the way")]

    execute(database, "DELETE FROM t")
    began = time.monotonic()
    wait_until(lambda: len(execute(database, "SELECT id FROM t")) == TRANSACTIONS, "all to be applied", patience=600)
    drained = time.monotonic() - began
    (receiver,) = runner.walreceivers()
    of_receiver, of_supervisor = usage(receiver), usage(runner.process.pid)
    print(  # noqa: T201 - for whoever asks with -s
        f"{TRANSACTIONS} transactions received in {received:.1f} s into {files} files, applied in {drained:.1f} s;"
        f" at most {of_receiver.highest_memory // MEBIBYTE} MiB in the receiver,"
        f" {of_supervisor.highest_memory // MEBIBYTE} MiB in the supervisor"
    )
    assert files <= MOST_FILES
    assert of_receiver.highest_memory < RECEIVER_MEMORY
    assert of_supervisor.highest_memory < SUPERVISOR_MEMORY
    with open_target(runner.target) as target:
        (compared,) = compare_tables(own_server.conninfo(NAME), target, [PublishedTable("public", "t")])
        assert compared.is_equal, compared
    wait_until(lambda: segments(runner) <= 1, f"the journal to be trimmed: {segments(runner)} files are left")
    assert runner.interrupt() == 0
    assert "Traceback" not in runner.said()
