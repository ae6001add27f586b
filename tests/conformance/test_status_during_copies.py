"""``subscriber status`` answers whenever it is asked, while ``subscriber run`` copies large tables
of several subscriptions into one DuckDB file, and applies changes to others.
"""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from tests.crash.harness import Runner

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

ROWS = 300_000
TABLES = ("a", "b", "c")
PATIENCE = 150.0
LONGEST = 25.0
"""A command waits ten seconds for the file, and then reads what the run has left beside it."""


def write(conninfo: str, ending: threading.Event) -> None:
    """Write small transactions until the end."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        while not ending.wait(0.02):
            connection.execute("UPDATE small SET n = n + 1")


def test_status_answers_while_tables_are_copied(publisher_database, tmp_path):
    publisher_database.execute("CREATE TABLE small (id int PRIMARY KEY, n int); INSERT INTO small VALUES (1, 0)")
    for name in TABLES:
        publisher_database.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, t text);"
            f" INSERT INTO {name} SELECT n, repeat('x', 50) || n FROM generate_series(1, {ROWS}) n;"
            f" CREATE PUBLICATION p_{name} FOR TABLE {name}"
        )
    publisher_database.execute("CREATE PUBLICATION p_small FOR TABLE small")
    runner = Runner(f"duckdb:///{tmp_path / 'target.duckdb'}", tmp_path / "runner")
    names = [*TABLES, "small"]
    for name in names:
        runner.sql(
            f"CREATE SUBSCRIPTION s_{name} CONNECTION '{publisher_database.conninfo}' PUBLICATION p_{name}"
            " WITH (create_tables = true)"
        )
    ending = threading.Event()
    writer = threading.Thread(target=write, args=(publisher_database.conninfo, ending), daemon=True)
    try:
        writer.start()
        runner.start()
        deadline, asked, longest = time.monotonic() + PATIENCE, 0, 0.0
        while True:
            began = time.monotonic()
            found = runner.status()  # fails if the command fails
            asked, longest = asked + 1, max(longest, time.monotonic() - began)
            if all(set(found[f"s_{name}"]["tables"]) == {"r"} for name in names):
                break
            assert time.monotonic() < deadline, runner.said()[-3000:]
        assert asked > 3
        assert longest < LONGEST
    finally:
        ending.set()
        writer.join()
        runner.close()
