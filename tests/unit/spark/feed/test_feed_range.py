"""How far batches of the feed go, where a time is, consumers, and batch reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable

from subscriber.base.errors import JournalGap, UsageError
from subscriber.postgres.protocol import messages as m
from subscriber.stream.journal.named_consumers import drop, forget, list_named
from subscriber.stream.journal.storage import LocalStorage
from tests.change_feeds import batch_read, batches_of, feed_reader, feed_source, relation_of, rows_of_feed
from tests.frames import relation, transaction, values
from tests.journals import passed, publish, writing

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])
WIDER = relation("public.t", {"a": "int4", "b": "text", "c": "bool"}, key=["a"])
NARROWER = relation("public.t", {"a": "int4"}, key=["a"])
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def insert(key: int, *others: str, text: str = "x") -> m.Insert:
    return m.Insert(T.relation_id, values(str(key), text, *others))


def update(key: int) -> m.Update:
    return m.Update(T.relation_id, None, None, values(str(key), "y"))


def write(folder: Path, *transactions: list[m.Message], together: bool = False) -> Path:
    """Transactions that end at 0/200, 0/300, …, one second after another from 00:00:02 on: each in
    an entry of its own, or all in one entry.
    """
    made: list[tuple[int, list[m.Message]]] = []
    known: dict[int, m.Relation] = {}
    with writing(folder) as journal:
        for number, messages in enumerate(transactions, start=2):
            end = number * 0x100
            made.append((end, transaction(end, *messages, xid=700 + number, timestamp=number * 1_000_000)))
            if not together:
                publish(journal, end, made[-1][1], relations=dict(known))
            known |= {one.relation_id: one for one in messages if isinstance(one, m.Relation)}
        if together:
            publish(journal, made[-1][0], [message for _, messages in made for message in messages])
    return folder


@pytest.fixture(params=[False, True], ids=["in entries of their own", "in one entry"])
def together(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def keys(batches: list[list[dict[str, object]]]) -> list[list[object]]:
    return [[row["a"] for row in batch] for batch in batches]


# Limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("1", [[1, 2], [3], [3, 3], [4]]),
        ("2", [[1, 2], [3], [3, 3], [4]]),
        ("3", [[1, 2, 3], [3, 3, 4]]),
        ("100", [[1, 2, 3, 3, 3, 4]]),
    ],
)
def test_a_batch_has_at_most_so_many_rows_and_at_least_a_transaction(tmp_path, together, limit, expected):
    write(tmp_path, [T, insert(1), insert(2)], [insert(3)], [update(3)], [insert(4)], together=together)
    assert keys(batches_of(feed_reader(tmp_path, maxRowsPerTrigger=limit))) == expected


def test_a_large_transaction_is_one_batch_whatever_the_limit_is(tmp_path):
    begin, *body, commit = transaction(0x200, T, *(insert(key) for key in range(6)), xid=7)
    with writing(tmp_path) as journal:
        publish(journal, 0x200, [begin, *body[:3]], body[3:5], [*body[5:], commit], xid=7)
        publish(journal, 0x300, transaction(0x300, T, insert(9)))
    assert keys(batches_of(feed_reader(tmp_path, maxRowsPerTrigger="1"))) == [list(range(6)), [9]]


# Shapes -------------------------------------------------------------------------------------------


def test_a_batch_ends_before_the_first_change_of_another_shape(tmp_path, together):
    """Started again with the new columns, the query meets no row of the old ones."""
    write(tmp_path, [T, insert(1)], [insert(2)], [NARROWER, m.Insert(T.relation_id, values("3"))], together=together)
    reader = feed_reader(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["lsn"] == "0/400"  # (a) fits (a, b)
    wide = feed_reader(tmp_path, startingVersion=str(0x400))
    with pytest.raises(UsageError, match="has another shape from 0/200 on"):
        wide.latestOffset(start, ReadAllAvailable())


def test_the_query_goes_on_with_new_columns_from_where_its_checkpoint_ends(tmp_path, together):
    write(tmp_path, [T, insert(1)], [insert(2)], [WIDER, insert(3, "t")], [insert(4, "f")], together=together)
    reader = feed_reader(tmp_path)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert end["lsn"] == "0/300"
    with pytest.raises(UsageError, match="has another shape from 0/400 on") as caught:
        reader.latestOffset(end, ReadAllAvailable())
    assert 'option("startingVersion", "1024")' in str(caught.value)
    again = feed_reader(tmp_path, startingVersion="1024")
    last = again.latestOffset(end, ReadAllAvailable())
    rows = [row for one in again.partitions(end, last) for batch in again.read(one) for row in batch.to_pylist()]
    assert [(row["a"], row["c"]) for row in rows] == [(3, True), (4, False)]


def test_with_schema_evolution_a_start_has_all_columns_that_were_added(tmp_path, together):
    write(tmp_path, [T, insert(1)], [WIDER, insert(2, "t")], together=together)
    rows = rows_of_feed(tmp_path, schemaEvolution="addColumns")
    assert [(row["a"], row["c"]) for row in rows] == [(1, None), (2, True)]


def test_with_schema_evolution_a_column_that_is_added_ends_the_query_which_is_started_again(tmp_path):
    write(tmp_path, [T, insert(1)])
    reader = feed_reader(tmp_path, schemaEvolution="addColumns")
    with writing(tmp_path) as journal:
        publish(journal, 0x300, transaction(0x300, WIDER, insert(2, "t")))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    with pytest.raises(UsageError, match="Start the query again: it then has the new columns"):
        reader.latestOffset(end, ReadAllAvailable())
    assert relation_of(feed_reader(tmp_path, schemaEvolution="addColumns")) == WIDER


def test_columns_that_the_table_does_not_have_at_a_place_are_named_as_not_sent(tmp_path):
    """A column that was added later, or has been dropped: an UPDATE leaves its value, and a new row
    has none.
    """
    changed = [m.Update(T.relation_id, None, None, values(key, "y")) for key in ("1", "3")]
    before: list[m.Message] = [NARROWER, m.Insert(T.relation_id, values("1")), T, changed[0]]
    write(tmp_path, before, [WIDER, insert(2, "t")], [T, insert(3), changed[1]])
    reader = feed_reader(tmp_path, schemaEvolution="addColumns")
    assert relation_of(reader) == WIDER
    (batch,) = batches_of(reader)
    assert [(row["a"], row["_unchanged"]) for row in batch if row["_change_type"] != "update_preimage"] == [
        (1, []), (1, ["c"]), (2, []), (3, []), (3, ["c"]),
    ]  # fmt: skip


def test_other_tables_may_have_any_shape(tmp_path):
    other = relation("public.other", {"z": "int4"}, key=["z"], oid=99)
    write(tmp_path, [T, insert(1), other, m.Insert(99, values("1"))], [insert(2)])
    assert keys(batches_of(feed_reader(tmp_path))) == [[1, 2]]


# Times --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingTimestamp": "2000-01-01T00:00:03+00:00"}, [2, 3]),
        ({"startingTimestamp": "2000-01-01 01:00:03+01:00"}, [2, 3]),
        ({"startingTimestamp": "2000-01-01T00:00:03+00:00", "startingBoundInclusive": "false"}, [3]),
        ({"startingTimestamp": "2000-01-01T00:00:02.5+00:00"}, [2, 3]),
        ({"startingTimestamp": "2024-01-01T00:00:00Z"}, []),
    ],
    ids=str,
)
def test_a_query_begins_at_the_first_transaction_of_a_time(tmp_path, together, options, expected):
    write(tmp_path, [T, insert(1)], [insert(2)], [insert(3)], together=together)
    assert [row["a"] for row in rows_of_feed(tmp_path, **options)] == expected


@pytest.mark.parametrize("text", ["2000-01-01T00:00:03", "yesterday", ""])
def test_a_time_without_a_zone_is_refused(tmp_path, text):
    with pytest.raises(UsageError, match="startingTimestamp"):
        feed_source(tmp_path, startingTimestamp=text).schema()


def test_offsets_have_the_lsn_and_the_time_of_the_commit(tmp_path, together):
    write(tmp_path, [T, insert(1)], [insert(2)], together=together)
    reader = feed_reader(tmp_path)
    assert reader.initialOffset() == {"lsn": "0/100"}
    assert reader.latestOffset({"lsn": "0/100"}, ReadAllAvailable()) == {
        "lsn": "0/300",
        "commitTimestamp": "2000-01-01T00:00:03+00:00",
    }
    assert reader.reportLatestOffset() == reader.latestOffset({"lsn": "0/100"}, ReadAllAvailable())


# Batch reads --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 2, 3, 4]),
        ({"endingVersion": str(0x300)}, [1, 2]),
        ({"endingVersion": str(0x300), "endingBoundInclusive": "false"}, [1]),
        ({"startingVersion": str(0x300), "endingVersion": str(0x400)}, [2, 3]),
        ({"startingVersion": str(0x500), "endingVersion": str(0x300)}, []),
        ({"endingTimestamp": "2000-01-01T00:00:03Z"}, [1, 2]),
        ({"endingTimestamp": "2000-01-01T00:00:03Z", "endingBoundInclusive": "false"}, [1]),
        ({"endingTimestamp": "2024-01-01T00:00:03Z"}, [1, 2, 3, 4]),
        ({"endingTimestamp": "1999-01-01T00:00:03Z"}, []),
    ],
    ids=str,
)
def test_a_batch_read_has_the_changes_between_its_bounds(tmp_path, together, options, expected):
    write(tmp_path, [T, insert(1)], [insert(2)], [insert(3)], [insert(4)], together=together)
    rows, _ = batch_read(tmp_path, **options)
    assert [row["a"] for row in rows] == expected


VERSION, TIME = ("_commit_version",), ("_commit_timestamp",)


@pytest.mark.parametrize(
    ("given", "expected", "left"),
    [
        ([EqualTo(VERSION, 0x300)], [2], []),
        ([EqualTo(VERSION, 0x301)], [], []),
        ([GreaterThan(VERSION, 0x300)], [3], []),
        ([GreaterThanOrEqual(VERSION, 0x300), LessThan(VERSION, 0x400)], [2], []),
        ([LessThanOrEqual(VERSION, 0x300)], [1, 2], []),
        ([LessThan(VERSION, 0)], [], []),
        ([GreaterThanOrEqual(TIME, EPOCH + timedelta(seconds=3))], [2, 3], [0]),
        ([GreaterThan(TIME, EPOCH + timedelta(seconds=3))], [3], [0]),
        ([LessThan(TIME, EPOCH + timedelta(seconds=3))], [1, 2, 3], [0]),
        ([EqualTo(("a",), 1), GreaterThan(VERSION, 0x300)], [3], [0]),
    ],
    ids=str,
)
def test_filters_narrow_what_is_read_and_inexact_ones_are_left_to_spark(
    tmp_path, together, given: list[Filter], expected, left
):
    write(tmp_path, [T, insert(1)], [insert(2)], [insert(3)], together=together)
    rows, unhandled = batch_read(tmp_path, *given)
    assert [row["a"] for row in rows] == expected
    assert unhandled == [given[number] for number in left]


def test_a_reader_is_accepted_where_spark_pushes_no_filters(tmp_path):
    """It refuses a reader that has a method of its own for them."""
    write(tmp_path, [T, insert(1)])
    source = feed_source(tmp_path)
    reader = source.reader(source.schema())  # type: ignore[arg-type]
    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters


@pytest.mark.parametrize("name", ["consumer", "maxRowsPerTrigger", "maxBytesPerTrigger"])
def test_options_of_streams_are_refused_in_batch_reads(tmp_path, name):
    write(tmp_path, [T, insert(1)])
    with pytest.raises(UsageError, match=r"are options of spark\.readStream"):
        batch_read(tmp_path, **{name: "1"})


def test_options_of_batch_reads_are_refused_in_streams(tmp_path):
    write(tmp_path, [T, insert(1)])
    with pytest.raises(UsageError, match=r"are options of spark\.read"):
        feed_reader(tmp_path, endingVersion="768")


# Consumers ----------------------------------------------------------------------------------------


def test_a_consumer_is_registered_where_the_query_begins_and_follows_its_commits(tmp_path):
    write(tmp_path, [T, insert(1)], [insert(2)])
    storage = LocalStorage(tmp_path)
    reader = feed_reader(tmp_path, consumer="orders")
    assert list_named(storage) == []
    start = reader.initialOffset()
    assert [(one.name, one.lsn) for one in list_named(storage)] == [("orders", 0x100)]
    end = reader.latestOffset(start, ReadAllAvailable())
    assert [(one.name, one.lsn) for one in list_named(storage)] == [("orders", 0x100)]
    reader.commit(end)
    assert [(one.name, one.lsn) for one in list_named(storage)] == [("orders", 0x300)]


def test_a_consumer_moves_when_spark_asks_for_the_next_batch(tmp_path):
    """It calls commit only when that batch has rows."""
    write(tmp_path, [T, insert(1)], [insert(2)])
    reader = feed_reader(tmp_path, consumer="orders")
    reader.initialOffset()
    reader.latestOffset({"lsn": "0/200"}, ReadAllAvailable())
    assert [one.lsn for one in list_named(LocalStorage(tmp_path))] == [0x200]


def test_a_query_with_a_new_checkpoint_begins_where_its_consumer_is(tmp_path):
    write(tmp_path, [T, insert(1)], [insert(2)])
    reader = feed_reader(tmp_path, consumer="orders")
    reader.initialOffset()
    reader.commit({"lsn": "0/200"})
    assert feed_reader(tmp_path, consumer="orders").initialOffset()["lsn"] == "0/200"


def test_a_query_that_goes_on_registers_at_its_checkpoint(tmp_path):
    write(tmp_path, [T, insert(1)], [insert(2)])
    reader = feed_reader(tmp_path, consumer="orders")
    reader.latestOffset({"lsn": "0/200"}, ReadAllAvailable())
    assert [one.lsn for one in list_named(LocalStorage(tmp_path))] == [0x200]


def test_a_dropped_consumer_is_refused_and_so_is_what_the_journal_no_longer_has(tmp_path):
    write(tmp_path, [T, insert(1)], [insert(2)])
    storage = LocalStorage(tmp_path)
    feed_reader(tmp_path, consumer="orders").initialOffset()
    drop(storage, list_named(storage)[0])
    reader = feed_reader(tmp_path, consumer="orders")
    for call in (
        reader.initialOffset,
        lambda: reader.latestOffset({"lsn": "0/200"}, ReadAllAvailable()),
        lambda: reader.partitions({"lsn": "0/200"}, {"lsn": "0/300"}),
        lambda: reader.commit({"lsn": "0/200"}),
    ):
        with pytest.raises(JournalGap, match='consumer "orders" was dropped'):
            call()


def trimmed(folder: Path) -> None:
    """A subscription has applied everything up to 0/300, and the receiver trims the journal."""
    passed(LocalStorage(folder), 0x300)
    with writing(folder) as journal:
        journal.trim()


def test_what_a_consumer_has_not_read_is_kept(tmp_path):
    write(tmp_path, [T, insert(1)], [insert(2)], [insert(3)])
    feed_reader(tmp_path, consumer="orders").initialOffset()
    trimmed(tmp_path)
    assert keys(batches_of(feed_reader(tmp_path, consumer="orders"))) == [[1, 2, 3]]


@pytest.mark.parametrize("options", [{}, {"consumer": "orders"}], ids=["without", "forgotten"])
def test_without_its_consumer_a_query_is_refused_when_the_journal_was_trimmed(tmp_path, options):
    """It never reads on behind a gap."""
    write(tmp_path, [T, insert(1)], [insert(2)], [insert(3)])
    feed_reader(tmp_path, **options).initialOffset()
    forget(LocalStorage(tmp_path), "orders")
    trimmed(tmp_path)
    reader = feed_reader(tmp_path, **options)
    with pytest.raises(JournalGap, match="the changes after 0/100, but the journal begins at 0/300"):
        reader.latestOffset({"lsn": "0/100"}, ReadAllAvailable())
    with pytest.raises(JournalGap, match="the changes after 0/100, but the journal begins at 0/300"):
        reader.partitions({"lsn": "0/100"}, {"lsn": "0/400"})
