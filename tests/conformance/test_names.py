"""Every name that PostgreSQL accepts works: no name becomes the name of a file, and no two names
are confused (names_are_data).
"""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.catalog_upgrade import ensure_catalog, target_identifier
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import (
    delete_subscription,
    find_subscription,
    get_subscription,
    insert_subscription,
    list_subscriptions,
    rename_subscription,
)
from subscriber.catalog.table_states import RelationState, delete_relations, relations_of, set_relation_states
from subscriber.stream.journal.browse import list_journals
from subscriber.stream.journal.retention import Consumer
from subscriber.targets import open_target
from tests.conftest import Database
from tests.crash.harness import Runner, wait_until
from tests.target_databases import KINDS, applied_to

NAMES = ("a/b", "../up", "s", "S", "s ", "a\nb", 'it\'s "quoted"', "." * 63, "日本/" + "é" * 27)
"""Slashes, dots, case, blanks at the end, line breaks, quotes, 63 bytes, more than ASCII."""


REPLICATED = ("a/b", "../up", "a\nb", 'it\'s "quoted" ', "." * 63)
"""The names that are used in a run: each costs a process and a query."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_the_catalog_tells_all_names_apart(kind, request, tmp_path):
    """MariaDB's usual collations treat "S", "s" and "s " as equal."""
    with applied_to(kind, request, tmp_path) as applied:
        target = applied.target
        ensure_catalog(target.engine)
        subids: dict[str, int] = {}
        for name in NAMES:
            with target.begin() as connection:
                options = SubscriptionOptions(slot_name=f"s{len(subids)}", copy_data=False)
                made = insert_subscription(connection, name, "dbname=d", [name], options)
                subids[name] = made.subid
                set_relation_states(connection, 1, [(name, name)], RelationState.SYNCDONE, LSN(made.subid))
        with target.begin() as connection:
            for name in NAMES:
                found = get_subscription(connection, name)
                assert (found.name, found.subid, found.publications) == (name, subids[name], (name,))
            relations = relations_of(connection, 1)
            assert {(one.schema, one.name): one.lsn for one in relations} == {
                (name, name): subid for name, subid in subids.items()
            }
            assert find_subscription(connection, "a/b ") is None
            with pytest.raises(UsageError, match="already exists"):
                rename_subscription(connection, subids["s"], "s ")
            delete_relations(connection, 1, [("s ", "s ")])
            delete_subscription(connection, "s ")
        with target.begin() as connection:
            assert {one.name for one in list_subscriptions(connection)} == set(NAMES) - {"s "}


class Replication:
    """A subscription of each name, with a separate publication and table, into one SQLite file."""

    def __init__(self, publisher: Database, runner: Runner, database) -> None:
        self.publisher = publisher
        self.runner = runner
        self._database = database
        self.slots = {name: f"{publisher.name}_{number}" for number, name in enumerate(REPLICATED)}
        self.tables = {name: self._table(number, name) for number, name in enumerate(REPLICATED)}

    @staticmethod
    def _table(number: int, name: str) -> str:
        # SQLite knows no names that differ in case only.
        return f"{name}{number}" if len(name.encode()) < 63 else f"t{number}"

    def make(self) -> None:
        with contextlib.closing(sqlite3.connect(self._database)) as connection:
            for table in self.tables.values():
                connection.execute(f"CREATE TABLE {quoted(table)} (id INTEGER PRIMARY KEY)")
        for name in REPLICATED:
            table = quoted(self.tables[name])
            self.publisher.execute(f"CREATE TABLE {table} (id int PRIMARY KEY); INSERT INTO {table} VALUES (0)")
            self.publisher.execute(f"CREATE PUBLICATION {quoted(name)} FOR TABLE {table}")
            self.runner.sql(
                f"CREATE SUBSCRIPTION {quoted(name)} CONNECTION '{self.publisher.conninfo}'"
                f" PUBLICATION {quoted(name)} WITH (slot_name = '{self.slots[name]}')"
            )

    def insert(self, key: int) -> None:
        for table in self.tables.values():
            self.publisher.execute(f"INSERT INTO {quoted(table)} VALUES ({key})")

    def rows(self) -> dict[str, list[int]]:
        with contextlib.closing(sqlite3.connect(self._database)) as connection:
            return {
                name: [key for (key,) in connection.execute(f"SELECT id FROM {quoted(table)} ORDER BY id")]
                for name, table in self.tables.items()
            }

    def consumers(self) -> dict[str, set[tuple[str | None, Consumer | None]]]:
        """Slot → who its journal's consumers are."""
        return {
            journal.control.slot: {(one.subscription, one.consumer) for one in journal.consumers}
            for journal in list_journals(str(self.runner.journal))
        }


@pytest.fixture
def replication(publisher_database, tmp_path):
    database = tmp_path / "target.db"
    runner = Runner(f"sqlite:///{database}", tmp_path)
    with contextlib.closing(runner):
        made = Replication(publisher_database, runner, database)
        made.make()
        yield made


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_subscriptions_of_every_name_copy_stream_are_renamed_and_dropped(replication):
    """In an earlier version one of the names ended the run, and consumers that were not removed
    prevented trimming.
    """
    runner = replication.runner
    replication.insert(1)
    answer = runner.once()
    assert answer.returncode == 0, answer.stderr
    assert replication.rows() == {name: [0, 1] for name in REPLICATED}
    assert set(runner.status()) == set(REPLICATED)
    with open_target(runner.target) as target, target.engine.connect() as connection:
        identifier = target_identifier(connection)
        subids = {one.name: one.subid for one in list_subscriptions(connection)}
    whose = {replication.slots[name]: {(name, Consumer(identifier, subids[name]))} for name in REPLICATED}
    assert replication.consumers() == whose

    # A RENAME leaves nothing behind; the run removes what a DROP on another machine leaves.
    runner.start()
    runner.sql('ALTER SUBSCRIPTION "a/b" RENAME TO "b/a"')
    whose[replication.slots["a/b"]] = {("b/a", Consumer(identifier, subids["a/b"]))}
    dropped = runner.call("sql", "-c", 'DROP SUBSCRIPTION "../up"', SUBSCRIBER_JOURNAL=str(runner.folder / "elsewhere"))
    assert dropped.returncode == 0, dropped.stderr
    whose[replication.slots["../up"]] = set()
    replication.insert(2)
    rows = {name: [0, 1] if name == "../up" else [0, 1, 2] for name in REPLICATED}
    wait_until(lambda: replication.rows() == rows, "the rows of all but the dropped one")
    wait_until(lambda: replication.consumers() == whose, "the consumers of those that are left")
    assert runner.interrupt() == 0
    assert "Traceback" not in runner.said()

    for name in ("b/a", *REPLICATED[2:]):
        runner.sql(f"DROP SUBSCRIPTION {quoted(name)}")
    own = {"journal", "tmp", "run.log", "spark.log", "target.db", "target.db.subscriber-lock"}
    assert {path.name for path in runner.folder.iterdir()} == own
