"""``subscriber.spark.apply_changes`` gives tables of Delta Lake and of Iceberg what the publisher
has.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's documentation calls it so

from subscriber.base.errors import TargetRelationError
from subscriber.spark import append_changes, apply_changes
from subscriber.spark.lakehouse.delta import DeltaSink
from subscriber.spark.lakehouse.iceberg import IcebergSink
from subscriber.spark.session import spark_session
from tests.changing_table import KEYS, SCHEMA, ChangingTable

pytestmark = pytest.mark.spark

ROW = {"note": "long", "total": None, "Placed At": None, "tags": ["x"]}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than these few rows
        yield session


def delta(folder: Path) -> DeltaSink:
    return DeltaSink(str(folder / "delta"))


def iceberg(folder: Path) -> IcebergSink:
    folder.mkdir(exist_ok=True)
    catalog = SqlCatalog("shop", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace_if_not_exists("shop")
    return IcebergSink(catalog, "shop.orders")


Sink = DeltaSink | IcebergSink
each_sink = pytest.mark.parametrize("opened", [delta, iceberg])


def contents(sink: Sink) -> list[tuple[Any, ...]]:
    match sink:
        case DeltaSink():
            table = pa.table(DeltaTable(sink.uri).scan())
        case IcebergSink():
            table = sink.catalog.load_table(sink.identifier).scan().to_arrow()
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return sorted(
        (tuple(value.astimezone(UTC) if hasattr(value, "tzinfo") else value for value in row) for row in rows),
        key=lambda row: row[:2],
    )


def apply(spark: SparkSession, commits: list[list[tuple[Any, ...]]], sink: Sink) -> None:
    rows = [row for commit in commits for row in commit]
    apply_changes(spark.createDataFrame(rows, SCHEMA).repartition(3), sink, keys=KEYS)


@each_sink
@pytest.mark.parametrize("feed", [{}, {"updates": False}, {"full": True}], ids=str)
def test_random_histories_give_what_the_publisher_has(spark, tmp_path, opened, feed):
    chance = random.Random(f"{opened.__name__} {feed}")
    table, sink = ChangingTable(chance, **feed), opened(tmp_path)
    for _ in range(3):
        begin = len(table.commits)
        for _ in range(chance.randint(1, 20)):
            table.commit(chance.randint(1, 6))
        apply(spark, table.commits[begin:], sink)
        assert contents(sink) == table.stored()


@each_sink
def test_a_value_that_was_not_sent_follows_the_row_through_its_keys(spark, tmp_path, opened):
    """In the batch and from the table, where other rows take the keys that it had."""
    table, sink = ChangingTable(random.Random(1)), opened(tmp_path)
    table.commit(0)
    table.insert((1, "a"), {**ROW, "note": "first"})
    table.insert((2, "a"), {**ROW, "note": "second"})
    apply(spark, table.commits, sink)
    unsent = ("note", "tags")
    table.commit(0)
    table.update((1, "a"), (3, "a"), {"total": Decimal(1)}, unsent=unsent)
    table.update((2, "a"), (1, "a"), {"total": Decimal(2)}, unsent=unsent)
    table.insert((2, "a"), {**ROW, "note": "third"})
    table.commit(0)
    table.update((3, "a"), (4, "a"), {"total": Decimal(3)}, unsent=unsent)
    table.update((4, "a"), (4, "a"), {"total": Decimal(4)}, unsent=unsent)
    table.update((2, "a"), (5, "a"), {"total": Decimal(5), "tags": None}, unsent=("note",))
    table.update((5, "a"), (6, "a"), {}, unsent=unsent)
    apply(spark, table.commits[1:], sink)
    assert [(row[0], row[2], row[5]) for row in contents(sink)] == [
        (1, "second", ["x"]), (4, "first", ["x"]), (6, "third", None),
    ]  # fmt: skip
    assert contents(sink) == table.stored()


@each_sink
def test_changes_before_a_truncate_leave_nothing_behind(spark, tmp_path, opened):
    table, sink = ChangingTable(random.Random(1)), opened(tmp_path)
    table.commit(0)
    table.insert((1, "a"), ROW)
    table.insert((2, "a"), ROW)
    apply(spark, table.commits, sink)
    table.commit(0)
    table.insert((3, "a"), ROW)
    table.truncate()
    table.insert((4, "a"), ROW)
    apply(spark, table.commits[1:], sink)
    assert [row[0] for row in contents(sink)] == [4]


@each_sink
def test_a_batch_that_comes_again_changes_nothing_even_from_another_checkpoint(spark, tmp_path, opened):
    """Invariant progress_with_data: the commits that a table has are stored with its rows."""
    table, sink = ChangingTable(random.Random(2), truncates=False), opened(tmp_path)
    for _ in range(6):
        table.commit(4)
    apply(spark, table.commits[:4], sink)
    apply(spark, table.commits[:4], sink)
    assert sink.applied() == table.commits[3][0][7]
    apply(spark, table.commits[2:], sink)
    assert contents(sink) == table.stored()
    assert sink.applied() == table.commits[-1][0][7]


@each_sink
def test_of_two_queries_that_write_one_batch_the_second_fails(spark, tmp_path, opened, monkeypatch):
    table, sink = ChangingTable(random.Random(3), truncates=False), opened(tmp_path)
    table.commit(3)
    apply(spark, table.commits, sink)
    stored = contents(sink)
    table.commit(0)
    table.insert((99, "a"), ROW)
    other = stale(sink)
    apply(spark, table.commits[1:], sink)
    monkeypatch.setattr(type(sink), "_open", lambda _self: other)
    monkeypatch.setattr(type(sink), "_open_or_create", lambda _self, _schema: other)
    with pytest.raises(Exception, match=r"concurrent transactions? added|Added data files were found"):
        apply(spark, table.commits[1:], sink)
    monkeypatch.undo()
    assert len(contents(sink)) == len(stored) + 1


def stale(sink: Sink) -> Any:
    """What a query has opened that was suspended before another one went on."""
    return sink._open()


@each_sink
def test_a_value_that_neither_batch_nor_table_has_is_refused(spark, tmp_path, opened):
    """Invariant refuse_not_guess."""
    table, sink = ChangingTable(random.Random(1)), opened(tmp_path)
    table.rows[1, "a"] = dict(ROW)
    table.commit(0)
    table.update((1, "a"), (1, "a"), {"total": Decimal(1)}, unsent=("note",))
    with pytest.raises(TargetRelationError, match='column "note" was not sent') as caught:
        apply(spark, table.commits, sink)
    assert "REPLICA IDENTITY FULL" in str(caught.value.hint)
    assert sink.applied() is None


# Columns that the table lacks ---------------------------------------------------------------------


def frame_with_column(spark: SparkSession, commits: list[list[tuple[Any, ...]]]) -> DataFrame:
    """The feed of a table that has one more column."""
    rows = [row for commit in commits for row in commit]
    return spark.createDataFrame(rows, SCHEMA).withColumn("added on", F.lit(5))


@each_sink
def test_a_column_that_the_table_lacks_is_refused_with_the_statement_to_run(spark, tmp_path, opened):
    table, sink = ChangingTable(random.Random(4), truncates=False), opened(tmp_path)
    table.commit(3)
    apply(spark, table.commits, sink)
    stored, version = contents(sink), sink.applied()
    table.commit(0)
    table.insert((99, "a"), ROW)
    with pytest.raises(TargetRelationError, match='has no column "added on"') as caught:
        apply_changes(frame_with_column(spark, table.commits[1:]), sink, keys=KEYS)
    assert f"ALTER TABLE {sink.sql_name} ADD COLUMNS (`added on` INT)" in str(caught.value.hint)
    assert (contents(sink), sink.applied()) == (stored, version)


@each_sink
def test_a_column_that_the_table_lacks_is_added_if_asked_for(spark, tmp_path, opened):
    table, sink = ChangingTable(random.Random(4), truncates=False), replace(opened(tmp_path), merge_schema=True)
    table.commit(3)
    apply(spark, table.commits, sink)
    before = contents(sink)
    table.commit(0)
    table.insert((99, "a"), ROW)
    apply_changes(frame_with_column(spark, table.commits[1:]), sink, keys=KEYS)
    assert [row[-1] for row in contents(sink)] == [*[None] * len(before), 5]
    assert [row[:-1] for row in contents(sink)] == table.stored()
    table.commit(0)
    table.truncate()
    table.insert((98, "a"), ROW)
    apply_changes(frame_with_column(spark, table.commits[2:]), sink, keys=KEYS)
    assert contents(sink)[-1][-1] == 5


def test_a_history_that_lacks_a_column_refuses_it_or_gets_it(spark, tmp_path):
    table, sink = ChangingTable(random.Random(4), truncates=False), delta(tmp_path)
    table.commit(3)
    append_changes(spark.createDataFrame(table.commits[0], SCHEMA), sink)
    table.commit(2)
    more = frame_with_column(spark, table.commits[1:])
    with pytest.raises(TargetRelationError, match='has no column "added on"'):
        append_changes(more, sink)
    append_changes(more, replace(sink, merge_schema=True))
    append_changes(more, replace(sink, merge_schema=True))
    added = pa.table(DeltaTable(sink.uri).scan())["added on"].to_pylist()
    assert sorted(map(str, added)) == ["5"] * len(table.commits[1]) + ["None"] * len(table.commits[0])
