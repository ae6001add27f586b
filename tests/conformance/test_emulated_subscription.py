"""Publications that the subscriber evaluates, the whole way.

::

    publisher ──carrier all_rows──▶ journal ──p1, p2 of ours──▶ SQLite     equal to what passes the filters at the publisher

The publisher is asked for no filter of its own, as one before PostgreSQL 15 would be.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from subscriber.testing.servers.open_servers import PostgreSQL
from tests.conftest import Database, fresh_database
from tests.crash.harness import Runner

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

TABLES = (
    "CREATE TABLE t (a int PRIMARY KEY, b int, c text); ALTER TABLE t REPLICA IDENTITY FULL;"
    "CREATE TABLE keyed (id int PRIMARY KEY, note text);"
    "CREATE TABLE listed (id int PRIMARY KEY, kept text, secret text);"
    "CREATE TABLE sales (id int, region text, amount numeric(10,2), PRIMARY KEY (id, region)) PARTITION BY LIST (region);"
    "CREATE TABLE sales_nsw PARTITION OF sales FOR VALUES IN ('NSW');"
    "CREATE TABLE sales_rest (amount numeric(10,2), region text NOT NULL, id int NOT NULL);"
    "ALTER TABLE sales ATTACH PARTITION sales_rest DEFAULT; CREATE TABLE hidden (id int PRIMARY KEY)"
)
PUBLICATIONS = (
    "CREATE PUBLICATION p1 FOR TABLE t WHERE (b > 10 AND c = 'NSW'), keyed WHERE (id % 2 = 0), listed (id, kept)",
    (
        "CREATE PUBLICATION p2 FOR TABLE t WHERE (b < 0 OR c IS NULL), TABLE sales WHERE (id > 5)"
        " WITH (publish_via_partition_root = true)"
    ),
)
BEFORE = (
    (
        "INSERT INTO t SELECT i, i % 30 - 5, CASE WHEN i % 3 = 0 THEN 'NSW' WHEN i % 7 = 0 THEN NULL ELSE 'VIC' END"
        " FROM generate_series(1, 500) i"
    ),
    "INSERT INTO keyed SELECT i, 'n' || i FROM generate_series(1, 50) i",
    "INSERT INTO listed SELECT i, 'k' || i, 's' || i FROM generate_series(1, 50) i",
    "INSERT INTO sales SELECT i, CASE WHEN i % 2 = 0 THEN 'NSW' ELSE 'VIC' END, i / 4.0 FROM generate_series(1, 60) i",
)
AFTER = (
    "UPDATE t SET b = b + 8 WHERE a % 2 = 0",
    "UPDATE t SET c = 'NSW' WHERE a % 5 = 0",
    "UPDATE t SET b = NULL WHERE a % 11 = 0",
    "DELETE FROM t WHERE a % 13 = 0",
    "UPDATE keyed SET id = id + 1000 WHERE id < 10",
    "UPDATE keyed SET id = id + 101 WHERE id BETWEEN 20 AND 30",
    "UPDATE listed SET secret = 'other'",
    "UPDATE listed SET kept = 'changed' WHERE id < 5",
    "UPDATE sales SET region = 'QLD' WHERE id % 4 = 0",
    "DELETE FROM sales WHERE id % 9 = 0",
    "UPDATE sales SET id = id - 500 WHERE id > 52",
    "INSERT INTO hidden VALUES (1)",
)


PASSING = {
    "t": "SELECT a, b, c FROM t WHERE (b > 10 AND c = 'NSW') OR b < 0 OR c IS NULL ORDER BY 1",
    "keyed": "SELECT id, note FROM keyed WHERE id % 2 = 0 ORDER BY 1",
    "listed": "SELECT id, kept FROM listed ORDER BY 1",
    "sales": "SELECT id, region, amount::text FROM sales WHERE id > 5 ORDER BY 1, 2",
}


@dataclass
class Replication:
    """A publisher, and a subscriber that evaluates the publications."""

    publisher: Database
    runner: Runner

    def write(self, statements: tuple[str, ...]) -> None:
        for statement in statements:
            self.publisher.execute(statement)

    def run(self) -> None:
        answer = self.runner.once()
        assert answer.returncode == 0, answer.stderr

    def same_rows(self) -> dict[str, list[tuple[object, ...]]]:
        """The target's rows, which must be those that match the filters at the publisher."""
        rows = {}
        file = self.runner.target.removeprefix("sqlite:///")
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            for table, query in PASSING.items():
                rows[table] = connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
                assert rows[table] == self.publisher.execute(query), table
        assert all(rows.values())
        return rows


@contextmanager
def subscribed(database: Database, tmp_path: Path) -> Iterator[Replication]:
    runner = Runner(
        f"sqlite:///{tmp_path / 'target.db'}",
        tmp_path,
        {"SUBSCRIBER_PUBLISHER": database.conninfo, "SUBSCRIBER_JOURNAL_KEEP_SIZE": "100"},
    )
    replication = Replication(database, runner)
    replication.write((TABLES, *PUBLICATIONS, "CREATE PUBLICATION all_rows FOR ALL TABLES", *BEFORE))
    try:
        yield replication
    finally:
        runner.close()


@pytest.fixture
def without_filters(postgresql16: PostgreSQL, tmp_path: Path) -> Iterator[Replication]:
    """PostgreSQL 16, whose row filters are not used, as if it were a version before 15."""
    with contextmanager(fresh_database)(postgresql16) as database, subscribed(database, tmp_path) as replication:
        yield replication


@pytest.fixture
def replication(publisher_database: Database, tmp_path: Path) -> Iterator[Replication]:
    with subscribed(publisher_database, tmp_path) as replication:
        yield replication


def test_the_rows_are_those_that_the_server_would_have_sent(without_filters):
    """B2, B8-B20, D7-D9: copied, then changed. Identities cover the filters, so what is here is
    what passes them now.
    """
    ours = without_filters.runner
    for publication in PUBLICATIONS:
        assert ours.sql(publication) == "CREATE PUBLICATION\n"
    ours.sql(
        f"CREATE SUBSCRIPTION ours CONNECTION '{without_filters.publisher.conninfo}' PUBLICATION p1, p2"
        " WITH (create_tables = true, carrier = 'all_rows')"
    )
    without_filters.run()
    copied = without_filters.same_rows()
    without_filters.write(AFTER)
    without_filters.run()
    changed = without_filters.same_rows()
    assert all(changed[table] != copied[table] for table in copied)

    explained = ours.call("explain", "--table", "public.t", "--json")
    assert explained.returncode == 0, explained.stderr
    outcomes = {(one["operation"], one["sent"]) for one in map(json.loads, explained.stdout.splitlines())}
    assert {("update", "insert"), ("update", "delete"), ("update", "update"), ("update", None)} <= outcomes


def test_a_servers_publications_become_the_subscribers_by_one_command(replication):
    """With filters, as psql shows them at the server; existing publications are replaced only on
    request.
    """
    runner = replication.runner
    take_over = ("publication", "import", "--connection", replication.publisher.conninfo, "p1", "p2")
    done = runner.call(*take_over)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        'NOTICE:  imported publication "p1": 3 tables, 2 row filters',
        'NOTICE:  imported publication "p2": 2 tables, 2 row filters',
    ]
    shown = runner.call("sql", "-c", "\\dRp+").stdout
    assert "\"public.t\" WHERE ((b > 10) AND (c = 'NSW'::text))" in shown
    assert '"public.listed" (id, kept)' in shown
    again = runner.call(*take_over)
    assert (again.returncode, again.stderr) == (1, 'ERROR:  publication "p1" already exists\n')
    assert runner.call(*take_over, "--replace").returncode == 0
    unknown = runner.call(*take_over[:-1], "gone")
    assert unknown.stderr.startswith('ERROR:  publication "gone" does not exist\nHINT:')


def test_tables_of_later_are_known_when_they_come(replication):
    """B2, C4: a partition that is attached later is a part of its root; the publisher's tables are
    read again automatically
    """
    runner = replication.runner
    runner.sql(PUBLICATIONS[1])
    runner.sql(
        f"CREATE SUBSCRIPTION ours CONNECTION '{replication.publisher.conninfo}' PUBLICATION p2"
        " WITH (create_tables = true, carrier = 'all_rows')"
    )
    replication.run()
    replication.write(
        (
            "CREATE TABLE sales_wa (region text NOT NULL, id int NOT NULL, amount numeric(10,2))",
            "ALTER TABLE sales ATTACH PARTITION sales_wa FOR VALUES IN ('WA')",
            "INSERT INTO sales VALUES (1, 'WA', 1), (700, 'WA', 7)",
            "ALTER TABLE t ADD COLUMN d int",
            "INSERT INTO t VALUES (9001, -1, 'x', NULL)",
        )
    )
    file = runner.target.removeprefix("sqlite:///")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("ALTER TABLE t ADD COLUMN d int")
        connection.commit()
    replication.run()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT id, region FROM sales WHERE region = 'WA'").fetchall() == [(700, "WA")]
        assert connection.execute("SELECT a, b, c, d FROM t WHERE a = 9001").fetchall() == [(9001, -1, "x", None)]


def rows_of(runner: Runner, table: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(runner.target.removeprefix("sqlite:///"))) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


def subscribe_via_root(replication: Replication) -> None:
    replication.write(
        (
            "CREATE TABLE r (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k)",
            "CREATE TABLE r1 PARTITION OF r FOR VALUES IN (1)",
            "CREATE TABLE alone (id int, k int, PRIMARY KEY (id, k))",
        )
    )
    replication.runner.sql("CREATE PUBLICATION p FOR TABLE r, r1, alone WITH (publish_via_partition_root = true)")
    replication.runner.sql(
        f"CREATE SUBSCRIPTION ours CONNECTION '{replication.publisher.conninfo}' PUBLICATION p"
        " WITH (create_tables = true, carrier = 'all_rows')"
    )
    replication.run()


def test_a_backlog_is_published_by_the_places_that_its_tables_had(replication):
    """B2: the rows before and after DETACH and ATTACH wait in the journal together, and a TRUNCATE
    of the root is one although a partition was attached after it.
    """
    subscribe_via_root(replication)
    # The subscription does not know r1, so its changes are ignored after DETACH.
    with closing(sqlite3.connect(replication.runner.target.removeprefix("sqlite:///"))) as connection:
        connection.execute("CREATE TABLE r1 (id int, k int, PRIMARY KEY (id, k))")
        connection.commit()
    replication.write(
        (
            "INSERT INTO r VALUES (1, 1)",
            "INSERT INTO alone VALUES (2, 2)",
            "TRUNCATE r",
            "INSERT INTO r VALUES (3, 1)",
            "ALTER TABLE r DETACH PARTITION r1",
            "ALTER TABLE r ATTACH PARTITION alone FOR VALUES IN (2)",
            "INSERT INTO r1 VALUES (4, 1)",
            "INSERT INTO r VALUES (5, 2)",
        )
    )
    replication.run()
    assert rows_of(replication.runner, "r") == [(3, 1), (5, 2)]
    assert rows_of(replication.runner, "alone") == [(2, 2)]
    assert rows_of(replication.runner, "r1") == []


def test_what_was_between_two_alterations_of_a_backlog_is_refused(replication):
    """refuse_not_guess: the catalog shows the last alteration only."""
    subscribe_via_root(replication)
    replication.write(
        (
            "INSERT INTO alone VALUES (1, 2)",
            "ALTER TABLE r ATTACH PARTITION alone FOR VALUES IN (2)",
            "INSERT INTO r VALUES (2, 2)",
            "ALTER TABLE r DETACH PARTITION alone",
            "INSERT INTO alone VALUES (3, 2)",
        )
    )
    answer = replication.runner.once()
    assert answer.returncode == 1
    assert 'cannot tell as which table changes of table "public.alone" were published' in answer.stderr
    assert "has attached, detached or renamed the table" in answer.stderr
    assert rows_of(replication.runner, "r") == []


def test_a_carrier_that_was_altered_stops_what_it_would_leave_out(replication):
    """The carrier was checked when the subscription was created; its column list came later."""
    subscribe_via_root(replication)
    replication.write(
        (
            "INSERT INTO alone VALUES (1, 2)",
            "BEGIN; DROP PUBLICATION all_rows; CREATE PUBLICATION all_rows FOR TABLE r, alone WHERE (id > 5); COMMIT",
            "INSERT INTO alone VALUES (6, 2)",
        )
    )
    answer = replication.runner.once()
    assert answer.returncode == 1
    assert 'publication "all_rows" does not carry all that is published of table "public.alone"' in answer.stderr
    assert "REFRESH TABLE public.alone" in answer.stderr
    replication.write(("ALTER PUBLICATION all_rows SET TABLE r, alone",))
    replication.run()
    assert rows_of(replication.runner, "alone") == [(1, 2), (6, 2)]


@pytest.mark.parametrize(
    ("publication", "carrier", "message"),
    [
        ("CREATE PUBLICATION p FOR TABLE t", "gone", 'publication "gone" does not exist'),
        (
            "CREATE PUBLICATION p FOR TABLE hidden",
            "p1",
            'publication "p1" does not carry all that is published of table "public.hidden"',
        ),
        ("CREATE PUBLICATION p FOR TABLE keyed WHERE (note = 'x')", "all_rows", 'cannot update table "keyed"'),
        ("CREATE PUBLICATION other FOR TABLE t", "all_rows", 'publication "p" does not exist'),
    ],
)
def test_what_cannot_be_exact_is_refused_when_it_is_given(replication, publication, carrier, message):
    """refuse_not_guess, B33"""
    runner = replication.runner
    runner.sql(publication)
    answer = runner.call(
        "sql",
        "-c",
        f"CREATE SUBSCRIPTION s CONNECTION '{replication.publisher.conninfo}' PUBLICATION p"
        f" WITH (create_tables = true, carrier = '{carrier}')",
    )
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[0] == f"ERROR:  {message}"
    assert any(line.startswith("HINT:") for line in answer.stderr.splitlines())
    assert replication.publisher.execute(
        "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    ) == [(0,)]
