"""The typed change feed with Spark itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import Row, SparkSession

from subscriber.postgres.protocol import messages as m
from subscriber.spark.session import spark_session
from subscriber.spark.source import PgoutputSource
from subscriber.stream.journal.named_consumers import list_named
from subscriber.stream.journal.storage import LocalStorage
from tests.conformance.test_walreceiver import make_slot, receiving
from tests.frames import relation, transaction, values
from tests.journals import publish, writing

pytestmark = pytest.mark.spark

T = relation(
    "public.t",
    {"a": "int4", "b": "text", "n": "numeric", "d": "date", "t": "timestamptz", "l": "int4[]", "y": "bytea"},
    key=["a"],
)


def row(key: int, text: str | None = "x") -> tuple[m.ColumnValue, ...]:
    return values(str(key), text, "1.50", "2024-02-03", "2024-02-03 04:05:06+00", "{1,NULL}", "\\x00ff")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
        session.dataSource.register(PgoutputSource)
        yield session


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Three transactions, each in a separate entry."""
    folder = tmp_path / "journal"
    folder.mkdir()
    with writing(folder) as journal:
        publish(journal, 0x200, transaction(0x200, T, m.Insert(T.relation_id, row(1)), m.Insert(T.relation_id, row(2))))
        known = {T.relation_id: T}
        publish(journal, 0x300, transaction(0x300, m.Update(T.relation_id, None, None, row(1, "y"))), relations=known)
        last = transaction(0x400, m.Delete(T.relation_id, "K", values("2", *[None] * 6)))
        publish(journal, 0x400, last, relations=known)
    return folder


def read_all(spark: SparkSession, checkpoint: Path, **options: Any) -> list[list[Row]]:
    """The rows of each micro-batch, until nothing is left."""
    batches: list[list[Row]] = []
    stream = spark.readStream.format("pgoutput").options(**options).load()
    query = (
        stream.writeStream.foreachBatch(lambda batch, _number: batches.append(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [batch for batch in batches if batch]


def test_spark_reads_a_table_s_changes_with_its_types(spark, journal, tmp_path):
    (rows,) = read_all(spark, tmp_path / "checkpoint", journal=journal, table="public.t")
    assert [(one._change_type, one.a, one.b, one._unchanged) for one in rows] == [
        ("insert", 1, "x", []),
        ("insert", 2, "x", []),
        ("update_preimage", 1, None, ["b", "n", "d", "t", "l", "y"]),
        ("update_postimage", 1, "y", []),
        ("delete", 2, None, ["b", "n", "d", "t", "l", "y"]),
    ]
    assert (str(rows[0].d), rows[0].n, rows[0].l, bytes(rows[0].y)) == ("2024-02-03", "1.50", [1, None], b"\x00\xff")


def test_available_now_honours_the_limit_and_divides_no_transaction(spark, journal, tmp_path):
    options = {"journal": journal, "table": "public.t", "maxBytesPerTrigger": "1"}
    batches = read_all(spark, tmp_path / "checkpoint", **options)
    assert [{one._commit_version for one in batch} for batch in batches] == [{0x200}, {0x300}, {0x400}]


def test_a_query_goes_on_where_its_checkpoint_ends_with_the_feed(spark, journal, tmp_path):
    options = {"journal": journal, "table": "public.t"}
    read_all(spark, tmp_path / "checkpoint", **options)
    with writing(journal) as writer:
        publish(writer, 0x500, transaction(0x500, T, m.Insert(T.relation_id, row(9))))
    assert [[one.a for one in batch] for batch in read_all(spark, tmp_path / "checkpoint", **options)] == [[9]]


def test_an_error_is_a_sentence_and_a_hint_without_a_traceback(spark, journal, tmp_path):
    with pytest.raises(AnalysisException) as caught:
        spark.readStream.format("pgoutput").option("table", "public.t").load()
    text = str(caught.value)
    assert 'format "pgoutput" needs the option "journal"' in text.splitlines()[0]
    assert "subscriber journal ls" in text
    assert "Traceback" not in text


def test_an_error_of_an_executor_is_a_sentence_and_a_hint_without_a_traceback_of_python(spark, journal, tmp_path):
    with writing(journal) as writer:
        publish(writer, 0x500, transaction(0x500, T, m.Truncate((T.relation_id,), False, False)))
    stream = spark.readStream.format("pgoutput").options(journal=journal, table="public.t").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException) as caught:
        query.trigger(availableNow=True).start().awaitTermination()
    text = str(caught.value)
    assert 'the table "public.t" was truncated by the transaction that ends at 0/500' in text
    assert 'option("truncate", "event")' in text
    assert "Traceback (most recent call last)" not in text


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_a_batch_read_has_the_rows_that_its_filters_leave(spark, journal, pushed):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
    read = spark.read.format("pgoutput").options(journal=journal, table="public.t").load()
    assert read.count() == 5
    assert [one.a for one in read.where("_commit_version > 768").collect()] == [2]
    assert read.where("_commit_version = 512 AND a = 2").count() == 1
    assert read.where("_commit_timestamp > '2024-01-01'").count() == 0
    assert (
        spark.read.format("pgoutput").options(journal=journal, table="public.t", endingVersion="768").load().count()
        == 4
    )


def test_a_batch_read_of_net_changes_has_one_row_for_each_row_that_changed(spark, journal):
    read = (
        spark.read.format("pgoutput").options(journal=journal, table="public.t", deduplicationMode="netChanges").load()
    )
    assert [(one._change_type, one.a, one.b) for one in read.collect()] == [("insert", 1, "y")]


def test_a_consumer_follows_the_query_and_keeps_what_it_has_not_read(spark, journal, tmp_path):
    options = {"journal": journal, "table": "public.t", "consumer": "orders"}
    read_all(spark, tmp_path / "checkpoint", **options)
    read_all(spark, tmp_path / "checkpoint", **options)
    ((name, lsn),) = [(one.name, one.lsn) for one in list_named(LocalStorage(journal))]
    assert name == "orders"
    assert lsn == 0x400


def test_a_query_that_is_stopped_at_another_shape_goes_on_with_the_new_columns(spark, journal, tmp_path):
    wider = relation("public.t", {**dict.fromkeys("abndtly", "text"), "new": "int4"}, key=["a"])
    with writing(journal) as writer:
        row_of_wider = m.Insert(wider.relation_id, values(*["1"] * 8))
        publish(writer, 0x500, transaction(0x500, wider, row_of_wider))
    options = {"journal": journal, "table": "public.t"}
    with pytest.raises(StreamingQueryException, match="has another shape from 0/500 on") as caught:
        read_all(spark, tmp_path / "checkpoint", **options)
    assert 'option("startingVersion", "1280")' in str(caught.value)
    (rows,) = read_all(spark, tmp_path / "checkpoint", **options, startingVersion="1280")
    assert [(one.a, one.new) for one in rows] == [("1", 1)]


def test_a_feed_that_begins_with_a_snapshot_goes_on_with_the_changes(spark, publisher_database, tmp_path):
    database = publisher_database
    database.execute("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    database.execute("CREATE PUBLICATION p FOR TABLE t")
    folder = tmp_path / "journal"
    options = {
        "journal": folder,
        "table": "t",
        "connection": database.conninfo,
        "publication": "p",
        "startingSnapshot": "true",
    }
    with receiving(database, folder, make_slot(database)) as receiver:
        receiver.wait((folder / "journal.json").exists)
        (copied,) = read_all(spark, tmp_path / "checkpoint", **options)
        database.execute("UPDATE t SET b = 'z' WHERE a = 1")
        receiver.wait_received()
        (changed,) = read_all(spark, tmp_path / "checkpoint", **options)
    assert sorted((one._change_type, one.a, one.b) for one in copied) == [("insert", 1, "x"), ("insert", 2, "y")]
    assert [(one._change_type, one.a, one.b) for one in changed] == [
        ("update_preimage", 1, None),
        ("update_postimage", 1, "z"),
    ]
