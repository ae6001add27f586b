"""A run with ``retain_dead_tuples`` and transactions of the publisher that stay open: a row that
was deleted in the target is ``update_deleted`` as long as a transaction that could conflict is
open, and ``update_missing`` afterwards (rule C18a).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.crash.harness import Runner, wait_until

DATABASE = "retained"


class Retained:
    """A SQLite target with the rows 1 to 4 of table ``t``, and a run that follows the publisher."""

    def __init__(self, server: Any, folder: Path) -> None:
        self.server = server
        self.database = folder / "target.db"
        self.runner = Runner(f"sqlite:///{self.database}", folder)

    def publish(self, sql: str) -> None:
        self.server.execute(sql, DATABASE)

    def in_target(self, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.database, timeout=60)) as target, target:
            return target.execute(sql).fetchall()

    @contextlib.contextmanager
    def updating(self, row: int) -> Iterator[None]:
        """A transaction of the publisher that updates a row, and commits after the block."""
        with psycopg.connect(self.server.conninfo(DATABASE)) as connection:
            connection.execute("UPDATE t SET b = 'late' WHERE a = %s", (row,))
            yield

    def delete(self, *rows: int) -> None:
        """Delete rows in the target, and wait until a round has begun after that."""
        self.in_target(f"DELETE FROM t WHERE a IN ({', '.join(map(str, rows))})")
        wait_until(lambda: not self.in_target("SELECT 1 FROM subscriber_deleted_row WHERE round <= 0"), "a new round")

    def replicate(self, marker: int) -> None:
        """Have a row written at the publisher, and wait until the target has it."""
        self.publish(f"INSERT INTO marker VALUES ({marker})")
        wait_until(lambda: self.in_target(f"SELECT 1 FROM marker WHERE a = {marker}"), f"marker {marker}")

    def recorded(self) -> int:
        return len(self.in_target("SELECT 1 FROM subscriber_deleted_row"))

    def is_active(self) -> bool:
        return bool(self.in_target("SELECT subretentionactive FROM subscriber_subscription")[0][0])

    def wait_for_conflicts(self, *, deleted: int, missing: int) -> None:
        def counts() -> tuple[int, int]:
            ((found, absent),) = self.in_target(
                "SELECT confl_update_deleted, confl_update_missing FROM subscriber_stat_subscription_stats"
            )
            return found, absent

        wait_until(lambda: sum(counts()) == deleted + missing, f"{deleted + missing} conflicts")
        assert counts() == (deleted, missing)


@pytest.fixture
def retained(own_server, tmp_path) -> Iterator[Retained]:
    own_server.create_database(DATABASE)
    retained = Retained(own_server, tmp_path)
    try:
        retained.publish(
            "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE marker (a int PRIMARY KEY);"
            " INSERT INTO t SELECT a, 'x' FROM generate_series(1, 4) a; CREATE PUBLICATION p FOR TABLE t, marker"
        )
        retained.in_target("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        retained.in_target("CREATE TABLE marker (a INTEGER PRIMARY KEY)")
        conninfo = own_server.conninfo(DATABASE)
        retained.runner.sql(
            f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p WITH (retain_dead_tuples = true)"
        )
        retained.runner.start()
        retained.replicate(1)
        wait_until(lambda: len(retained.in_target("SELECT * FROM t")) == 4, "the copied rows")
        yield retained
    finally:
        retained.runner.close()
        own_server.drop_database(DATABASE)


def test_a_deleted_row_is_known_until_no_open_transaction_can_update_it(retained):
    with retained.updating(1):
        retained.delete(1, 2)
        # A round that did not wait for the transaction would be over when these are applied.
        retained.replicate(2)
        retained.replicate(3)
        assert retained.recorded() == 2
    retained.wait_for_conflicts(deleted=1, missing=0)
    wait_until(lambda: retained.recorded() == 0, "the end of the rounds")
    retained.publish("UPDATE t SET b = 'later' WHERE a = 2")
    retained.wait_for_conflicts(deleted=1, missing=1)


def test_deleted_rows_are_unknown_while_a_transaction_takes_longer_than_the_option_allows(retained):
    retained.runner.sql("ALTER SUBSCRIPTION s SET (max_retention_duration = 500)")
    with retained.updating(3):
        retained.in_target("DELETE FROM t WHERE a = 3")
        wait_until(lambda: not retained.is_active(), "the end of the retention")
        assert retained.recorded() == 0
    retained.wait_for_conflicts(deleted=0, missing=1)
    retained.runner.sql("ALTER SUBSCRIPTION s SET (max_retention_duration = 0)")
    wait_until(retained.is_active, "the retention to begin again")
    with retained.updating(4):
        retained.delete(4)
        assert retained.recorded() == 1
    retained.wait_for_conflicts(deleted=1, missing=1)
    log = retained.runner.log.read_text()
    assert 'worker for subscription "s" has stopped retaining the information for detecting conflicts' in log
    assert 'worker for subscription "s" will resume retaining the information for detecting conflicts' in log
