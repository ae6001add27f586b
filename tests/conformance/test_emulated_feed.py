"""The typed change feed of a subscription with emulated publications: it has exactly the changes
that ``subscriber run`` applies.

::

    publisher ──carrier──▶ journal ──p1, p2──▶ subscriber run ──▶ SQLite     equal after each run, whatever
                              └──────p1, p2──▶ feed ──────────▶ fold         was altered meanwhile
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from subscriber.apply.exact import ExactApplier
from subscriber.base.lsn import LSN, format_lsn
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.publication.publishing import Publishing
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.server_publications import read_publications
from subscriber.stream.decode.publication_history import record_publishing
from subscriber.stream.journal.named_consumers import register
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.retention import list_consumers, write_consumer
from subscriber.stream.journal.storage import LocalStorage
from subscriber.targets import Target, open_target
from subscriber.targets.ddl import create_table
from subscriber.testing.emulate import emulate
from tests.change_feeds import feed_reader
from tests.conformance.test_emulated_subscription import BEFORE, PUBLICATIONS, TABLES, Replication, subscribed
from tests.conformance.test_walreceiver import make_slot, receiving
from tests.conftest import Database
from tests.journals import consumer
from tests.random_seed import random_seed
from tests.table_shapes import read_shape

pytestmark = pytest.mark.server

COLUMNS: Final = {
    "t": ("a", "b", "c"),
    "keyed": ("id", "note"),
    "listed": ("id", "kept"),
    "sales": ("id", "region", "amount"),
}
KEYS: Final = {"t": ("a", "b", "c"), "keyed": ("id",), "listed": ("id",), "sales": ("id", "region")}
ALTERED: Final = (
    "ALTER PUBLICATION p1 SET TABLE t WHERE (b > 5), keyed, listed (id, kept)",
    "ALTER PUBLICATION p2 SET TABLE t WHERE (b < 3 OR c IS NULL), sales",
)
"""What is altered between the runs. Filters become wider: otherwise rows that the target has would
be inserted again.
"""


def statements(source: random.Random, first: int) -> list[str]:
    """Random changes; keys from ``first`` on are new."""
    keys = iter(range(first, first + 10_000))
    found = []
    for _ in range(40):
        a = source.randint(1, 60)
        b, c = source.randint(-10, 30), source.choice(["'NSW'", "'VIC'", "NULL"])
        region = source.choice(["'NSW'", "'VIC'", "'QLD'"])
        new = next(keys)
        found.append(
            source.choice(
                [
                    f"INSERT INTO t VALUES ({new}, {b}, {c})",
                    f"UPDATE t SET b = {b} WHERE a = {a}",
                    f"UPDATE t SET b = {b}, c = {c} WHERE a % 20 = {a % 20}",
                    f"DELETE FROM t WHERE a = {a}",
                    f"UPDATE keyed SET id = {new} WHERE id = {a}",
                    f"INSERT INTO keyed VALUES ({new}, 'new')",
                    f"DELETE FROM keyed WHERE id % 25 = {a % 25}",
                    f"UPDATE listed SET kept = 'k{b}', secret = 's{b}' WHERE id = {a}",
                    f"INSERT INTO listed VALUES ({new}, 'k', 's')",
                    f"INSERT INTO sales VALUES ({new}, {region}, {b})",
                    f"UPDATE sales SET amount = {b}, region = {region} WHERE id = {a}",
                    f"UPDATE sales SET id = {new} WHERE id = {a}",
                    f"DELETE FROM sales WHERE id % 30 = {a % 30}",
                ]
            )
        )
    return found


class Fold:
    """A table as the changes of its feed make it, with PostgreSQL's rules: an UPDATE or DELETE of a
    row that is missing changes nothing.
    """

    def __init__(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        self.table = table
        self.columns = COLUMNS[table]
        places = [self.columns.index(name) for name in KEYS[table]]
        self.rows = {tuple(row[place] for place in places): row for row in rows}
        self.kinds: set[str] = set()
        self._offset: str | None = None
        self._left: tuple[Any, ...] | None = None

    def follow(self, journal: Path, start: str, **options: str) -> None:
        """Fold what the journal has of the feed, in small batches, each with a new reader."""
        options |= {"maxBytesPerTrigger": "2000", "startingLsn": start}
        while True:
            reader = feed_reader(journal, f"public.{self.table}", **options)
            reader.prepareForTriggerAvailableNow()
            begin = reader.initialOffset() if self._offset is None else json.loads(self._offset)
            end = reader.latestOffset(begin, reader.getDefaultReadLimit())
            if end == begin:
                return
            self._offset = json.dumps(end)
            for partition in reader.partitions(begin, end):
                for batch in reader.read(partition):
                    for row in batch.to_pylist():
                        self._change(row)

    def _change(self, row: dict[str, Any]) -> None:
        self.kinds.add(row["_change_type"])
        key = tuple(row[name] for name in KEYS[self.table])
        match row["_change_type"]:
            case "insert":
                assert key not in self.rows, f"{self.table} {row}"
                self.rows[key] = self._row(row)
            case "delete":
                self.rows.pop(key, None)
            case "update_preimage":
                self._left = self.rows.pop(key, None)
            case "update_postimage" if self._left is not None:
                self.rows[key] = self._row(row)

    def _row(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(str(row[name]) if name == "amount" else row[name] for name in self.columns)


@pytest.fixture
def replication(publisher_database: Database, tmp_path: Path) -> Iterator[Replication]:
    with subscribed(publisher_database, tmp_path) as replication:
        yield replication


def stored(url: str, table: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return connection.execute(f"SELECT {', '.join(COLUMNS[table])} FROM {table}").fetchall()


def assert_equal(followed: list[Fold], url: str, where: object) -> None:
    for fold in followed:
        expected = sorted(stored(url, fold.table), key=str)
        assert sorted(fold.rows.values(), key=str) == expected, (where, fold.table)


class Applied:
    """A target that applies a journal as ``subscriber run`` does, in this process."""

    def __init__(self, target: Target, folder: Path, start: LSN) -> None:
        self.target = target
        self.storage = LocalStorage(folder)
        self.applied = start
        self.reader = JournalReader(self.storage)
        self._applier = ExactApplier(target, subscription="s", subid=1)
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, start)

    def create(self, publisher: psycopg.Connection[Any]) -> None:
        shapes = [read_shape(publisher, "public", table) for table in COLUMNS]
        with self.target.begin() as connection:
            for shape in shapes:
                assert shape is not None
                create_table(self.target, shape).create(connection)

    def apply(self, publisher: psycopg.Connection[Any], most_bytes: int) -> None:
        """Apply one batch by the publications as they are now."""
        known = read_publisher_tables(publisher).without_system()
        publishing = Publishing(tuple(read_publications(publisher, ["p1", "p2"])), known)
        record_publishing(self.storage, publishing, self.applied)
        self._record()
        end = self.reader.latest(self.applied, most_bytes)
        result = emulate(self.reader, self._applier, self.applied, end, publishing=publishing)
        assert result.progress == end
        self.applied = end
        self._record()

    def _record(self) -> None:
        write_consumer(self.storage, consumer(), self.applied, subscription="s", place="", carrier="p")


def test_the_feed_follows_publications_that_are_altered_between_any_two_batches(publisher_database, tmp_path):
    """What is received and not yet applied is published as the next batch publishes it."""
    seed = random_seed()
    source, database, folder = random.Random(seed), publisher_database, tmp_path / "journal"
    for statement in (TABLES, *PUBLICATIONS, "CREATE PUBLICATION p FOR ALL TABLES"):
        database.execute(statement)
    url, start = f"sqlite:///{tmp_path / 'target.db'}", make_slot(database)
    with (
        psycopg.connect(database.conninfo, autocommit=True) as publisher,
        open_target(url) as target,
        receiving(database, folder, start) as receiver,
    ):
        applied = Applied(target, folder, start)
        applied.create(publisher)
        receiver.wait((folder / "journal.json").exists)
        register(LocalStorage(folder), "feed", start)
        followed = [Fold(table, []) for table in COLUMNS]
        commands = [list(BEFORE), *(statements(source, 100_000 * number) for number in range(1, 5))]
        for number, written in enumerate(commands):
            for statement in written:
                database.execute(statement)
            receiver.wait_received()
            if number in (1, 3):
                database.execute(ALTERED[number // 2])
            for _ in range(source.randint(1, 3)):
                applied.apply(publisher, source.choice([1, 2_000, 10_000]))
                for fold in source.sample(followed, 2):
                    fold.follow(folder, format_lsn(start), connection=database.conninfo)
        while applied.reader.latest(applied.applied) != applied.applied:
            applied.apply(publisher, source.choice([1, 5_000, 100_000]))
        for fold in followed:
            fold.follow(folder, format_lsn(start), connection=database.conninfo)
        assert_equal(followed, url, seed)
    assert {"insert", "delete", "update_preimage", "update_postimage"} <= followed[0].kinds


@pytest.mark.spark
@pytest.mark.slow
def test_the_feed_of_emulated_publications_has_exactly_what_the_run_applies(replication):
    """Rules B8-B20 and C35; whatever is altered while changes wait."""
    seed = random_seed()
    source, runner = random.Random(seed), replication.runner
    for publication in PUBLICATIONS:
        runner.sql(publication)
    runner.sql(
        f"CREATE SUBSCRIPTION ours CONNECTION '{replication.publisher.conninfo}' PUBLICATION p1, p2"
        " WITH (create_tables = true, carrier = 'all_rows')"
    )
    replication.run()
    (journal,) = (one.parent for one in runner.journal.glob("*/journal.json"))
    (applied,) = {one.lsn for one in list_consumers(LocalStorage(journal))}
    start = format_lsn(register(LocalStorage(journal), "feed", applied))
    followed = [Fold(table, stored(runner.target, table)) for table in COLUMNS]
    for number, altered in enumerate((ALTERED, ())):
        replication.write(tuple(statements(source, 100_000 * (number + 1))))
        replication.run()
        for fold in followed:
            fold.follow(journal, start)
        assert_equal(followed, runner.target, seed)
        replication.write(tuple(statements(source, 100_000 * (number + 1) + 50_000)))
        for command in altered:  # which holds for what is not applied yet
            runner.sql(command)
    assert {"insert", "delete", "update_preimage", "update_postimage"} <= followed[0].kinds
