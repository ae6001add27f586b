"""Publications that the subscriber evaluates, the whole way: one server's rows through its own filters and through ours.

::

    publisher ──┬── p1, p2 of the server ───────────────────▶ SQLite ──┐
                └── carrier all_rows ──▶ p1, p2 of ours ────▶ SQLite ──┴─ equal, row by row

One server does both. Of a server before 15, which knows no filters, ours would ask what it asks of this one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from subscriber.scenario.servers import PostgreSQL
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


@dataclass
class Both:
    """A publisher, and two subscribers of it: one of the server's publications, one with its own."""

    publisher: Database
    runners: dict[str, Runner]

    def write(self, statements: tuple[str, ...]) -> None:
        for statement in statements:
            self.publisher.execute(statement)

    def run(self) -> None:
        with ThreadPoolExecutor() as pool:
            for answer in pool.map(Runner.once, self.runners.values()):
                assert answer.returncode == 0, answer.stderr

    def rows(self, name: str) -> dict[str, list[tuple[object, ...]]]:
        file = self.runners[name].target.removeprefix("sqlite:///")
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            tables = ("t", "keyed", "listed", "sales")
            return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables}

    def same_rows(self) -> dict[str, list[tuple[object, ...]]]:
        """The rows of both, which must be equal."""
        server, ours = self.rows("server"), self.rows("ours")
        for table, rows in server.items():
            assert ours[table] == rows, table
        return ours


@contextmanager
def subscribed(database: Database, tmp_path: Path) -> Iterator[Both]:
    runners = {
        name: Runner(
            f"sqlite:///{tmp_path / name / 'target.db'}",
            tmp_path / name,
            {"SUBSCRIBER_PUBLISHER": database.conninfo, "SUBSCRIBER_JOURNAL_KEEP_SIZE": "100"},
        )
        for name in ("server", "ours")
    }
    both = Both(database, runners)
    both.write((TABLES, *PUBLICATIONS, "CREATE PUBLICATION all_rows FOR ALL TABLES", *BEFORE))
    try:
        yield both
    finally:
        for runner in runners.values():
            runner.close()


@pytest.fixture
def without_filters(postgresql16: PostgreSQL, tmp_path: Path) -> Iterator[Both]:
    """PostgreSQL 16, of which ours asks no filter, as of a server before 15."""
    with contextmanager(fresh_database)(postgresql16) as database, subscribed(database, tmp_path) as both:
        yield both


@pytest.fixture
def both(publisher_database: Database, tmp_path: Path) -> Iterator[Both]:
    with subscribed(publisher_database, tmp_path) as both:
        yield both


def test_the_rows_are_those_that_the_server_would_have_sent(without_filters):
    """B2, B8-B20, D7-D9: copied, then changed; and after a filter has been altered at its place in the history"""
    both = without_filters
    subscribe = (
        "CREATE SUBSCRIPTION {name} CONNECTION '{conninfo}' PUBLICATION p1, p2 WITH (create_tables = true{more})"
    )
    for name, more in (("server", ""), ("ours", ", carrier = 'all_rows'")):
        if name == "ours":
            for publication in PUBLICATIONS:
                assert both.runners[name].sql(publication) == "CREATE PUBLICATION\n"
        both.runners[name].sql(subscribe.format(name=name, conninfo=both.publisher.conninfo, more=more))
    both.run()
    copied = both.same_rows()
    assert all(copied.values())

    both.write(AFTER)
    both.run()
    changed = both.same_rows()
    assert all(changed[table] != copied[table] for table in copied)

    explained = both.runners["ours"].call("explain", "--table", "public.t", "--json")
    assert explained.returncode == 0, explained.stderr
    outcomes = {(one["operation"], one["sent"]) for one in map(json.loads, explained.stdout.splitlines())}
    assert {("update", "insert"), ("update", "delete"), ("update", "update"), ("update", None)} <= outcomes

    alter = PUBLICATIONS[0].replace("CREATE PUBLICATION p1 FOR TABLE", "ALTER PUBLICATION p1 SET TABLE")
    alter = alter.replace("id % 2 = 0", "id % 3 = 0")
    both.write((alter,))
    both.runners["ours"].sql(alter)
    both.write(("INSERT INTO keyed SELECT i, 'new' FROM generate_series(5001, 5020) i",))
    both.run()
    new = [row for row in both.same_rows()["keyed"] if row not in changed["keyed"]]
    assert [key for key, _ in new] == [key for key in range(5001, 5021) if key % 3 == 0]


def test_a_servers_publications_become_the_subscribers_by_one_command(both):
    """Filters and all, as psql shows them at the server; what is there is replaced only when that is asked for."""
    runner = both.runners["ours"]
    take_over = ("publication", "import", "--connection", both.publisher.conninfo, "p1", "p2")
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


def test_tables_of_later_are_known_when_they_come(both):
    """B2, C4: a partition that is attached later is a part of its root; the publisher's tables are read anew by themselves"""
    runner = both.runners["ours"]
    runner.sql(PUBLICATIONS[1])
    runner.sql(
        f"CREATE SUBSCRIPTION ours CONNECTION '{both.publisher.conninfo}' PUBLICATION p2"
        " WITH (create_tables = true, carrier = 'all_rows')"
    )
    del both.runners["server"]
    both.run()
    both.write(
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
    both.run()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT id, region FROM sales WHERE region = 'WA'").fetchall() == [(700, "WA")]
        assert connection.execute("SELECT a, b, c, d FROM t WHERE a = 9001").fetchall() == [(9001, -1, "x", None)]


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
def test_what_cannot_be_exact_is_refused_when_it_is_given(both, publication, carrier, message):
    """refuse_not_guess, B33"""
    runner = both.runners["ours"]
    runner.sql(publication)
    answer = runner.call(
        "sql",
        "-c",
        f"CREATE SUBSCRIPTION s CONNECTION '{both.publisher.conninfo}' PUBLICATION p"
        f" WITH (create_tables = true, carrier = '{carrier}')",
    )
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[0] == f"ERROR:  {message}"
    assert any(line.startswith("HINT:") for line in answer.stderr.splitlines())
    assert both.publisher.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [
        (0,)
    ]
