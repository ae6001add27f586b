"""A named consumer reads the journal of ``subscriber run``, which applies the same changes at its
own speed and trims the journal behind itself.

::

    publisher ──▶ journal ──▶ subscriber run ──▶ SQLite     equal after each round
                     └──────▶ consumer "feed" ──▶ fold      one round behind, then equal
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from subscriber.base.lsn import parse_lsn
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.storage import LocalStorage
from tests.change_feeds import FoldedTable, feed_reader
from tests.conftest import Database
from tests.crash.harness import Runner, wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

COLUMNS: Final = ("id", "n", "note")
ROUNDS: Final = (
    "INSERT INTO t SELECT i, i, repeat('x', 200) FROM generate_series(1, 300) i",
    "UPDATE t SET n = n + 1 WHERE id % 2 = 0; UPDATE t SET id = id + 1000 WHERE id <= 20",
    "DELETE FROM t WHERE id % 7 = 0; INSERT INTO t VALUES (-1, NULL, NULL)",
    "UPDATE t SET note = note || 'y' WHERE id > 100; DELETE FROM t WHERE id = -1",
)


class Consumer:
    """A query that registers as ``feed``; each :meth:`follow` is a query started again."""

    def __init__(self, journal: Path, conninfo: str) -> None:
        self.table = FoldedTable(COLUMNS, ("id",))
        self._conninfo = conninfo
        self._journal = journal
        self._offset: dict[str, Any] | None = None

    def follow(self) -> None:
        """Read to the end of the journal in small batches, and commit each."""
        reader = feed_reader(self._journal, connection=self._conninfo, consumer="feed", maxBytesPerTrigger="2000")
        reader.prepareForTriggerAvailableNow()
        begin = self._offset or reader.initialOffset()
        while (end := reader.latestOffset(begin, reader.getDefaultReadLimit())) != begin:
            for partition in reader.partitions(begin, end):
                self.table.fold(row for batch in reader.read(partition) for row in batch.to_pylist())
            reader.commit(end)
            begin = end
        self._offset = begin

    def is_trimmed_behind(self) -> bool:
        """Whether the journal was trimmed since the run has passed what this consumer has."""
        assert self._offset is not None
        control = read_control(LocalStorage(self._journal))
        return control is not None and parse_lsn(self._offset["lsn"]) <= control.begin

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.table.rows.values())


def test_a_slower_consumer_has_exactly_the_rows_that_a_run_applies(publisher_database: Database, tmp_path: Path):
    database, target = publisher_database, tmp_path / "target.db"
    database.execute("CREATE TABLE t (id int PRIMARY KEY, n int, note text); CREATE PUBLICATION p FOR TABLE t")
    with closing(sqlite3.connect(target)) as own:
        own.execute("CREATE TABLE t (id integer PRIMARY KEY, n integer, note text)")
    runner = Runner(f"sqlite:///{target}", tmp_path / "runner")
    runner.sql(f"CREATE SUBSCRIPTION s CONNECTION '{database.conninfo}' PUBLICATION p")

    def published() -> list[tuple[Any, ...]]:
        return database.execute("SELECT id, n, note FROM t ORDER BY id")

    def applied() -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(target)) as own:
            return own.execute("SELECT id, n, note FROM t ORDER BY id").fetchall()

    try:
        runner.start()
        wait_until(lambda: runner.status()["s"]["state"] == "streaming", "the run to stream", runner=runner)
        (folder,) = (one for one in runner.journal.iterdir() if one.is_dir())
        consumer = Consumer(folder, database.conninfo)
        consumer.follow()  # registers, where nothing has been sent
        before: list[tuple[Any, ...]] = []
        for statements in ROUNDS:
            consumer.follow()
            assert consumer.rows() == before
            for statement in statements.split("; "):
                database.execute(statement)
            before = published()
            wait_until(lambda: applied() == published(), "the run to apply", runner=runner)
            wait_until(consumer.is_trimmed_behind, "the journal to be trimmed", runner=runner)
        consumer.follow()
        assert consumer.rows() == applied() == published()
        positions = runner.call("journal", "ls").stdout
        assert "feed" in positions, positions
    finally:
        runner.close()
