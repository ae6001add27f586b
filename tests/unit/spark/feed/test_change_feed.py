"""The rows of the typed feed, from journals without a publisher."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructType

from subscriber.base.errors import JournalGap, UnsupportedValue, UsageError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.spark.feed.feed_schema import METADATA
from tests.change_feeds import batch_read, batches_of, changes, feed_reader, feed_source, relation_of, rows_of_feed
from tests.frames import relation, transaction, values
from tests.journals import commit_prepared, prepare, publish, rollback_prepared, writing

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])
FULL = relation("public.t", {"a": "int4", "b": "text"}, identity="f")
OTHER = relation("public.other", {"a": "int4"}, key=["a"], oid=99)
SECOND = datetime(2000, 1, 1, 0, 0, 1, tzinfo=UTC)


def insert(key: object, text: str | None = "x", shape: m.Relation = T) -> m.Insert:
    return m.Insert(shape.relation_id, values(str(key), text))


def update(key: object, text: str | m.Absence | None, old: tuple[str, object] | None = None) -> m.Update:
    kind, was = old or (None, None)
    return m.Update(T.relation_id, kind, values(*was) if isinstance(was, tuple) else None, values(str(key), text))  # type: ignore[arg-type]


def delete(key: object) -> m.Delete:
    return m.Delete(T.relation_id, "K", values(str(key), None))


def write(folder: Path, *transactions: list[m.Message], apart: bool = True) -> Path:
    """A journal with these transactions, which end at 0/200, 0/300 and so on."""
    with writing(folder) as journal:
        known: dict[int, m.Relation] = {}
        for number, messages in enumerate(transactions, start=2):
            end = number * 0x100
            publish(journal, end, transaction(end, *messages, xid=700 + number), relations=dict(known))
            known |= {one.relation_id: one for one in messages if isinstance(one, m.Relation)}
    return folder


def test_a_row_has_the_table_s_columns_and_those_that_describe_the_change(tmp_path):
    write(tmp_path, [T, m.Origin(5, "elsewhere"), insert(1), insert(2, None)])
    first, second = rows_of_feed(tmp_path)
    assert first == {
        "a": 1, "b": "x", "_change_type": "insert", "_commit_version": 0x200, "_commit_timestamp": SECOND,
        "_sequence": first["_sequence"], "_xid": 702, "_commit_lsn": "0/200", "_origin": "elsewhere", "_unchanged": [],
    }  # fmt: skip
    assert (second["a"], second["b"], second["_unchanged"]) == (2, None, [])
    assert first["_sequence"] < second["_sequence"]


def test_without_the_full_identity_an_old_row_has_only_the_key(tmp_path):
    write(tmp_path, [T, insert(1)], [update(1, "y")], [update(2, "y", ("K", ("1", None)))], [delete(2)])
    assert changes(rows_of_feed(tmp_path), "a", "b", "_unchanged") == [
        ("insert", 1, "x", []),
        ("update_preimage", 1, None, ["b"]), ("update_postimage", 1, "y", []),
        ("update_preimage", 1, None, ["b"]), ("update_postimage", 2, "y", []),
        ("delete", 2, None, ["b"]),
    ]  # fmt: skip


def test_with_the_full_identity_an_old_row_is_complete_and_gives_what_the_new_one_lacks(tmp_path):
    write(tmp_path, [FULL, insert(1, "large")], [update(2, m.UNCHANGED, ("O", ("1", "large")))])
    assert changes(rows_of_feed(tmp_path), "a", "b", "_unchanged")[1:] == [
        ("update_preimage", 1, "large", []),
        ("update_postimage", 2, "large", []),
    ]


def test_an_unchanged_large_value_is_named_and_is_not_a_null_that_was_sent(tmp_path):
    write(tmp_path, [T, insert(1), update(1, m.UNCHANGED), update(1, None)])
    posts = [row for row in rows_of_feed(tmp_path) if row["_change_type"] == "update_postimage"]
    assert [(row["b"], row["_unchanged"]) for row in posts] == [(None, ["b"]), (None, [])]


def test_rows_are_in_the_order_of_their_changes_whatever_their_kinds_are(tmp_path):
    write(tmp_path, [T, insert(1), delete(1), insert(1), update(1, "y"), insert(2), delete(2)], [insert(3)])
    rows = rows_of_feed(tmp_path)
    assert changes(rows, "a") == [
        ("insert", 1), ("delete", 1), ("insert", 1), ("update_preimage", 1), ("update_postimage", 1), ("insert", 2),
        ("delete", 2), ("insert", 3),
    ]  # fmt: skip
    places = [(row["_commit_version"], row["_sequence"]) for row in rows]
    assert places == sorted(set(places))


def test_the_order_in_a_transaction_is_the_same_however_much_is_read(tmp_path):
    write(tmp_path, [T, insert(1), insert(2)], [insert(3), update(3, "y")])
    first = {row["a"]: row["_sequence"] for row in rows_of_feed(tmp_path) if row["_change_type"] == "insert"}
    again = {row["a"]: row["_sequence"] for row in rows_of_feed(tmp_path, startingVersion=str(0x300))
             if row["_change_type"] == "insert"}  # fmt: skip
    assert again == {3: first[3]}
    assert first[1] == first[3]


def test_a_transaction_in_several_segments_has_one_order_and_one_origin(tmp_path):
    begin, *body, commit = transaction(0x200, T, *(insert(key) for key in range(6)), xid=7)
    with writing(tmp_path) as journal:
        publish(journal, 0x200, [begin], [m.Origin(5, "elsewhere"), *body[:3]], body[3:5], [*body[5:], commit], xid=7)
    rows = rows_of_feed(tmp_path, partitionBytes="1")
    assert [row["a"] for row in rows] == list(range(6))
    assert [row["_sequence"] for row in rows] == sorted({row["_sequence"] for row in rows})
    assert {(row["_origin"], row["_xid"], row["_commit_version"]) for row in rows} == {("elsewhere", 7, 0x200)}


def test_the_origin_is_that_of_the_row_s_own_transaction(tmp_path):
    first = transaction(0x200, m.Origin(5, "one"), T, insert(1), xid=7)
    with writing(tmp_path) as journal:
        publish(
            journal, 0x400,
            [*first, *transaction(0x300, insert(2), xid=8), *transaction(0x400, m.Origin(5, "two"), insert(3), xid=9)],
        )  # fmt: skip
    rows = rows_of_feed(tmp_path)
    assert [(row["a"], row["_xid"], row["_origin"]) for row in rows] == [(1, 7, "one"), (2, 8, None), (3, 9, "two")]


def test_a_prepared_transaction_comes_where_it_is_committed_and_not_at_all_if_it_is_rolled_back(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, prepare(0x200, T, insert(1), xid=8), kind="p", xid=8)
        publish(journal, 0x300, prepare(0x300, T, insert(2), xid=9), kind="p", xid=9)
        publish(journal, 0x400, transaction(0x400, T, insert(3)))
        publish(journal, 0x500, rollback_prepared(0x500, xid=9), kind="r", xid=9)
        publish(journal, 0x600, commit_prepared(0x600, xid=8), kind="k", xid=8)
    rows = rows_of_feed(tmp_path)
    assert [(row["a"], row["_commit_version"], row["_xid"]) for row in rows] == [(3, 0x400, 731), (1, 0x600, 8)]


def test_changes_of_other_tables_are_left_out(tmp_path):
    write(tmp_path, [OTHER, m.Insert(99, values("1")), T, insert(2)], [m.Insert(99, values("3"))])
    assert changes(rows_of_feed(tmp_path), "a") == [("insert", 2)]
    assert changes(rows_of_feed(tmp_path, "public.other"), "a") == [("insert", 1), ("insert", 3)]


def test_updates_come_as_delete_and_insert_if_asked_for(tmp_path):
    write(tmp_path, [FULL, insert(1), update(1, "y", ("O", ("1", "x")))])
    assert changes(rows_of_feed(tmp_path, computeUpdates="false"), "a", "b") == [
        ("insert", 1, "x"), ("delete", 1, "x"), ("insert", 1, "y"),
    ]  # fmt: skip


def test_a_change_of_the_key_comes_as_delete_and_insert_if_asked_for(tmp_path):
    write(tmp_path, [T, insert(1), update(1, "y"), update(2, "z", ("K", ("1", None)))])
    assert changes(rows_of_feed(tmp_path, keyChanges="deleteInsert"), "a", "b") == [
        ("insert", 1, "x"), ("update_preimage", 1, None), ("update_postimage", 1, "y"), ("delete", 1, None), ("insert", 2, "z"),
    ]  # fmt: skip


def test_a_truncate_is_an_error_a_row_or_nothing(tmp_path):
    write(
        tmp_path,
        [T, OTHER, insert(1), m.Truncate((99,), False, False)],
        [m.Truncate((99, T.relation_id), False, False), insert(2)],
    )
    with pytest.raises(UsageError, match=r'"public.t" was truncated by the transaction that ends at 0/300') as caught:
        rows_of_feed(tmp_path)
    assert 'option("truncate", "event")' in str(caught.value)
    assert changes(rows_of_feed(tmp_path, truncate="event"), "a") == [("insert", 1), ("truncate", None), ("insert", 2)]
    assert changes(rows_of_feed(tmp_path, truncate="ignore"), "a") == [("insert", 1), ("insert", 2)]


def test_values_have_spark_s_types(tmp_path):
    shape = relation(
        "public.v", {"n": "numeric", "d": "date", "t": "timestamptz", "l": "int4[]", "y": "bytea"}, key=["n"]
    )
    declared = replace(shape, columns=(replace(shape.columns[0], type_modifier=(10 << 16 | 2) + 4), *shape.columns[1:]))
    row = values("1.50", "2024-02-03", "2024-02-03 04:05:06.7+00", "{1,NULL}", "\\x00ff")
    write(tmp_path, [declared, m.Insert(declared.relation_id, row)])
    (found,) = rows_of_feed(tmp_path, "public.v")
    assert [found[name] for name in "ndtly"] == [
        Decimal("1.50"), date(2024, 2, 3), datetime(2024, 2, 3, 4, 5, 6, 700000, UTC), [1, None], b"\x00\xff",
    ]  # fmt: skip


def test_a_value_that_spark_cannot_hold_ends_the_query_with_its_place_unless_told_otherwise(tmp_path):
    shape = relation("public.v", {"a": "int4", "d": "date"}, key=["a"])
    rows = [m.Insert(shape.relation_id, values("1", text)) for text in ("2024-02-03", "infinity")]
    write(tmp_path, [shape, *rows])
    with pytest.raises(UnsupportedValue, match='date cannot hold a value of column "d"') as caught:
        rows_of_feed(tmp_path, "public.v")
    assert (caught.value.relation, caught.value.column, caught.value.sqlstate) == ("public.v", "d", "22003")
    assert caught.value.lsn == 0x13
    assert "infinity" not in str(caught.value)
    assert [row["d"] for row in rows_of_feed(tmp_path, "public.v", unsupportedValues="null")] == [
        date(2024, 2, 3),
        None,
    ]
    texts = rows_of_feed(tmp_path, "public.v", unsupportedValues="string")
    assert [row["d"] for row in texts] == ["2024-02-03", "infinity"]


# Where a query begins -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, 1),
        ({"startingVersion": str(0x300)}, 2),
        ({"startingVersion": str(0x300), "startingBoundInclusive": "false"}, 3),
        ({"startingVersion": str(0x201)}, 2),
        ({"startingLsn": "0/300"}, 3),
        ({"startingVersion": "latest"}, None),
    ],
    ids=str,
)
def test_a_query_begins_where_it_is_told(tmp_path, options, first):
    write(tmp_path, [T, insert(1)], [insert(2)], [insert(3)])
    rows = rows_of_feed(tmp_path, **options)
    assert next((row["a"] for row in rows), None) == first


def test_a_start_before_the_journal_is_refused(tmp_path):
    write(tmp_path, [T, insert(1)])
    with pytest.raises(JournalGap, match="after 0/32, but the journal begins at 0/100"):
        feed_reader(tmp_path, startingVersion="51").initialOffset()
    with pytest.raises(JournalGap, match="after 0/32, but the journal begins at 0/100"):
        batch_read(tmp_path, startingVersion="51")


def test_a_query_goes_on_from_its_checkpoint_although_its_first_start_was_trimmed(tmp_path):
    write(tmp_path, [T, insert(1)], [insert(2)])
    reader = feed_reader(tmp_path, startingVersion="51")
    assert reader.latestOffset({"lsn": "0/200"}, ReadAllAvailable())["lsn"] == "0/300"


def test_a_checkpoint_before_the_journal_is_refused(tmp_path):
    write(tmp_path, [T, insert(1)])
    reader = feed_reader(tmp_path)
    with pytest.raises(JournalGap, match="the query needs the changes after 0/50"):
        reader.latestOffset({"lsn": "0/50"}, reader.getDefaultReadLimit())
    with pytest.raises(JournalGap, match="the query needs the changes after 0/50"):
        reader.partitions({"lsn": "0/50"}, {"lsn": "0/200"})


# The table's shape --------------------------------------------------------------------------------

WIDER = relation("public.t", {"a": "int4", "b": "text", "c": "bool"}, key=["a"])


def test_the_columns_are_those_of_the_first_change_after_the_start(tmp_path):
    write(tmp_path, [T, insert(1)], [insert(2)], [WIDER, m.Insert(T.relation_id, values("3", "x", "t"))])
    assert relation_of(feed_reader(tmp_path, startingVersion=str(0x300))) == T
    assert relation_of(feed_reader(tmp_path, startingVersion=str(0x400))) == WIDER
    assert relation_of(feed_reader(tmp_path, startingVersion="latest")) == WIDER


def test_a_table_without_changes_is_refused_with_the_tables_that_have_some(tmp_path):
    write(tmp_path, [T, OTHER, m.Insert(99, values("1")), insert(1)])
    with pytest.raises(UsageError, match=r'no change of the table "public.orders"') as caught:
        feed_source(tmp_path, "orders").schema()
    assert "public.other, public.t" in str(caught.value)


def test_another_shape_ends_the_query_with_both_and_the_way_on(tmp_path):
    write(tmp_path, [T, insert(1)], [WIDER, m.Insert(T.relation_id, values("3", "x", "t"))])
    with pytest.raises(UsageError, match="has another shape from 0/300 on") as caught:
        rows_of_feed(tmp_path)
    for part in ("(a integer, b text)", "(a integer, b text, c boolean)", 'option("startingVersion", "768")'):
        assert part in str(caught.value)


def test_a_shape_with_fewer_columns_fits(tmp_path):
    """A column that did not exist yet is NULL in a new row."""
    write(tmp_path, [T, insert(1)], [WIDER, m.Insert(T.relation_id, values("3", "x", "t"))])
    late = feed_reader(tmp_path, startingVersion=str(0x300))
    rows = [
        row
        for one in late.partitions({"lsn": "0/100"}, {"lsn": "0/300"})
        for b in late.read(one)
        for row in b.to_pylist()
    ]
    assert [(row["a"], row["c"], row["_unchanged"]) for row in rows] == [(1, None, []), (3, True, [])]


@pytest.mark.parametrize("name", [name for name, _ in METADATA])
def test_a_column_with_the_name_of_a_metadata_column_is_refused(tmp_path, name):
    shape = relation("public.v", {"a": "int4", name.upper(): "text"}, key=["a"])
    write(tmp_path, [shape, m.Insert(shape.relation_id, values("1", "x"))])
    with pytest.raises(UsageError, match="has the name of a column that describes the change"):
        feed_source(tmp_path, "public.v").schema()


def test_a_schema_of_the_user_is_refused(tmp_path):
    write(tmp_path, [T, insert(1)])
    with pytest.raises(UsageError, match="has a schema of its own"):
        feed_source(tmp_path).streamReader(StructType().add("a", LongType()))


# Batches and processes ----------------------------------------------------------------------------


def test_a_micro_batch_ends_at_a_commit(tmp_path):
    write(tmp_path, [T, insert(1), insert(2)], [insert(3)])
    batches = batches_of(feed_reader(tmp_path, maxBytesPerTrigger="1"))
    assert [[row["a"] for row in batch] for batch in batches] == [[1, 2], [3]]


def test_partitions_of_any_size_give_the_same_rows(tmp_path):
    write(tmp_path, [T, insert(1), update(1, "y")], [delete(1), insert(2)])
    assert rows_of_feed(tmp_path, partitionBytes="1") == rows_of_feed(tmp_path)


def test_readers_and_partitions_travel_to_executors_of_the_feed(tmp_path):
    write(tmp_path, [T, insert(1)])
    reader = feed_reader(tmp_path)
    partitions = reader.partitions(reader.offset(LSN(0x100)), reader.offset(LSN(0x200)))
    far, there = pickle.loads(pickle.dumps((reader, partitions)))
    assert [list(far.read(one)) for one in there] == [list(reader.read(one)) for one in partitions]
