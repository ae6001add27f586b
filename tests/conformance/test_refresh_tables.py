"""ALTER SUBSCRIPTION … REFRESH TABLE against real targets: rows that had gone wrong are replaced,
and readers never see less than the whole table.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa

from subscriber.targets import open_target
from tests.conftest import Database
from tests.crash.harness import Runner, differences, wait_until
from tests.target_databases import opened

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

KINDS = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.long),
    pytest.param("duckdb", marks=pytest.mark.long),
    pytest.param("mariadb", marks=pytest.mark.long),
)
PUBLISHER = """
CREATE TABLE t (id int PRIMARY KEY, note text, amount numeric(10, 2));
CREATE TABLE twins (a int, b text); ALTER TABLE twins REPLICA IDENTITY FULL;
CREATE TABLE u (id int PRIMARY KEY, note text);
CREATE PUBLICATION p FOR TABLE t, twins, u;
INSERT INTO t SELECT n, 'note ' || n, n / 4.0 FROM generate_series(1, 2000) n;
INSERT INTO twins SELECT n % 5, 'x' FROM generate_series(1, 50) n;
INSERT INTO u SELECT n, 'u' FROM generate_series(1, 100) n;
"""
DAMAGE = (
    "DELETE FROM t WHERE id <= 100",
    "UPDATE t SET note = 'wrong' WHERE id > 1900",
    "INSERT INTO t (id, note, amount) VALUES (100000, 'surplus', NULL)",
    "INSERT INTO twins (a, b) VALUES (1, 'x')",
)
TABLES = ("t", "twins", "u")


@dataclass
class System:
    """A publisher and a target with a subscription to three tables that have been copied."""

    publisher: Database
    runner: Runner
    stop: threading.Event = field(default_factory=threading.Event)
    counts: list[int] = field(default_factory=list)

    def damage(self) -> None:
        """Change rows of t and twins in the target, behind the subscription's back."""
        with open_target(self.runner.target) as target, target.begin() as connection:
            if target.capabilities.postgresql_text:
                connection.exec_driver_sql("SET LOCAL search_path = public")
            for statement in DAMAGE:
                connection.exec_driver_sql(statement)

    def once(self) -> None:
        answer = self.runner.once()
        assert answer.returncode == 0, answer.stderr

    def write(self) -> None:
        """Write to all tables until the test ends."""
        key = 10_000
        while not self.stop.wait(0.02):
            key += 1
            self.publisher.execute(
                f"BEGIN; INSERT INTO t VALUES ({key}, 'new', 1); UPDATE t SET note = note || '.' WHERE id = {key % 500};"
                f" INSERT INTO u VALUES ({key}, 'new'); DELETE FROM t WHERE id = {500 + key % 500};"
                f" INSERT INTO twins VALUES ({key % 5}, 'new'); COMMIT"
            )

    def watch(self) -> None:
        """Count the rows of t as readers of the target see them, until the test ends."""
        with open_target(self.runner.target) as target:
            while not self.stop.wait(0.01):
                with target.engine.connect() as connection:
                    if target.capabilities.postgresql_text:
                        connection.exec_driver_sql("SET search_path = public")
                    self.counts.append(connection.execute(sa.text("SELECT count(*) FROM t")).scalar_one())

    def states(self) -> dict[str, int]:
        states: dict[str, int] = self.runner.status()["s"]["tables"]
        return states


@pytest.fixture(params=KINDS)
def system(request, publisher_database, tmp_path) -> Iterator[System]:
    publisher_database.execute(PUBLISHER)
    with contextlib.ExitStack() as stack:
        url = f"{request.param}:///{tmp_path / f'target.{request.param}'}"
        if request.param in ("mariadb", "postgresql"):
            target = stack.enter_context(opened(request.param, request, tmp_path))
            url = target.engine.url.render_as_string(hide_password=False)
        runner = Runner(url, tmp_path)
        stack.callback(runner.close)
        system = System(publisher_database, runner)
        stack.callback(system.stop.set)
        runner.sql(
            f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION p"
            f" WITH (create_tables, slot_name = {publisher_database.name})"
        )
        yield system


def test_wrong_rows_are_replaced_and_the_stream_goes_on(system):
    """D2, D4: changes between the command and the copy, and of tables that are not copied"""
    system.once()
    system.damage()
    assert differences(system.publisher.conninfo, system.runner.target, TABLES) != []
    assert system.runner.sql("ALTER SUBSCRIPTION s REFRESH TABLE t, twins") == "ALTER SUBSCRIPTION\n"
    system.publisher.execute(
        "UPDATE t SET note = 'later' WHERE id = 50; DELETE FROM twins WHERE a = 2; INSERT INTO u VALUES (1000, 'later')"
    )
    system.once()
    assert system.states() == {"r": 3}
    assert differences(system.publisher.conninfo, system.runner.target, TABLES) == []


@pytest.mark.long
def test_readers_see_the_old_rows_until_the_new_ones_are_there(system):
    """Under writes, with a run that goes on; DuckDB has no other readers"""
    if system.runner.target.startswith("duckdb"):
        pytest.skip("one process at a time has DuckDB's file open")
    runner = system.runner
    runner.start()
    wait_until(lambda: system.states() == {"r": 3}, "all tables to be ready\n" + runner.said())
    system.damage()
    threads = [threading.Thread(target=system.write), threading.Thread(target=system.watch)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            runner.sql("ALTER SUBSCRIPTION s REFRESH TABLE t, twins")
            wait_until(lambda: system.states() == {"r": 3}, "all tables to be ready\n" + runner.said())
    finally:
        system.stop.set()
        for thread in threads:
            thread.join()
    assert min(system.counts) > 1000
    wait_until(
        lambda: differences(system.publisher.conninfo, runner.target, TABLES) == [],
        "the tables to be equal\n" + runner.said(),
        patience=60,
    )
    assert runner.interrupt() == 0
    assert "Traceback" not in runner.said()
