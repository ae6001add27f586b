"""A change feed that begins with a snapshot of a real publisher, without Spark's JVM."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from subscriber.base.errors import PublisherNotReady, UsageError
from tests.change_feeds import FoldedTable, Row, feed_reader, relation_of
from tests.conformance.test_walreceiver import make_slot, receiving
from tests.conftest import Database
from tests.journals import writing
from tests.waits import wait_until

SETUP = """
CREATE TABLE t (a int PRIMARY KEY, b text, n numeric(10,2), d date);
CREATE TABLE other (z int);
INSERT INTO t SELECT i, 'old ' || i, i, '2024-01-01' FROM generate_series(1, 2000) i;
CREATE PUBLICATION p FOR TABLE t WHERE (a > 10), other;
"""
COLUMNS = ("a", "b", "n", "d")


def options(database: Database) -> dict[str, str]:
    return {"connection": database.conninfo, "publication": "p", "startingSnapshot": "true"}


def read(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
    return [row for one in reader.partitions(start, end) for batch in reader.read(one) for row in batch.to_pylist()]


def test_snapshot_and_stream_have_every_row_once_while_the_table_is_written(publisher_database, tmp_path):
    database = publisher_database
    database.execute(SETUP)
    start = make_slot(database)
    done = threading.Event()

    def write() -> None:
        for number in range(150):
            database.execute(f"INSERT INTO t VALUES ({3000 + number}, 'new', 1, '2024-02-02')")
            database.execute(f"UPDATE t SET b = 'changed' WHERE a = {number + 5}")
            database.execute(f"DELETE FROM t WHERE a = {1000 + number}")
        done.set()

    with receiving(database, tmp_path, start) as handle:
        writer = threading.Thread(target=write)
        writer.start()
        wait_until(lambda: database.execute("SELECT count(*) FROM t WHERE b = 'new'")[0][0] > 20)
        reader = feed_reader(tmp_path, **options(database), consumer="orders")
        offset = reader.initialOffset()
        end = reader.latestOffset(offset, ReadAllAvailable())
        rows = read(reader, offset, end)
        reader.commit(end)
        writer.join()
        handle.wait_received()
        table = FoldedTable(COLUMNS, ("a",))
        table.fold(rows)
        assert len(rows) > 1500
        assert {row["_change_type"] for row in rows} == {"insert"}
        assert len({row["_sequence"] for row in rows}) == len(rows)
        truth = database.execute("SELECT a, b, n, d FROM t WHERE a > 10")

        def caught_up() -> bool:
            nonlocal end
            last = reader.latestOffset(end, ReadAllAvailable())
            if last != end:
                table.fold(read(reader, end, last))
                end = last
            return sorted(table.rows.values()) == sorted(truth)

        wait_until(caught_up)
        reader.stop()


def test_a_snapshot_that_is_gone_is_refused_and_not_repeated(publisher_database, tmp_path):
    database = publisher_database
    database.execute(SETUP)
    with receiving(database, tmp_path, make_slot(database)):
        wait_until((tmp_path / "journal.json").exists)
        reader = feed_reader(tmp_path, **options(database))
        offset = reader.initialOffset()
        end = reader.latestOffset(offset, ReadAllAvailable())
        reader.stop()
        again = feed_reader(tmp_path, **options(database))
        with pytest.raises(UsageError, match="the query ended before it had read its snapshot"):
            again.partitions(offset, end)


def test_a_table_without_changes_is_described_by_the_publisher(publisher_database, tmp_path):
    database = publisher_database
    database.execute(SETUP)
    with receiving(database, tmp_path, make_slot(database)):
        wait_until((tmp_path / "journal.json").exists)
        reader = feed_reader(tmp_path, connection=database.conninfo)
        assert [column.name for column in relation_of(reader).columns] == list(COLUMNS)
        with pytest.raises(PublisherNotReady, match="not found on publisher"):
            feed_reader(tmp_path, "public.nothing", connection=database.conninfo)
        database.execute("CREATE TABLE unpublished (a int)")
        with pytest.raises(PublisherNotReady, match="is in none of the publications p"):
            feed_reader(tmp_path, "public.unpublished", **options(database))


def test_a_journal_of_another_system_is_refused(publisher_database, tmp_path):
    database = publisher_database
    database.execute(SETUP)
    with writing(tmp_path):
        pass
    reader = feed_reader(tmp_path, **options(database))
    with pytest.raises(UsageError, match="leads to system"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
