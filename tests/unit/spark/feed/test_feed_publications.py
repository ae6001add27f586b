"""Row filters and column lists of emulated publications in the typed feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from subscriber.base.errors import NotSupportedError, RowFilterError, UsageError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.decode.publication_history import record_publishing
from subscriber.stream.journal.retention import write_consumer
from subscriber.stream.journal.storage import LocalStorage
from tests.change_feeds import batch_read, batches_of, changes, feed_reader, relation_of, rows_of_feed
from tests.frames import transaction, values
from tests.journals import commit_prepared, consumer, prepare, publish, writing
from tests.publications import as_sent, entry, table, tables

FULL = table("public.t", {"a": "int4", "b": "text", "c": "text"}, identity="full", oid=1)
OTHER = table("public.other", {"a": "int4", "b": "text"}, key=["a"], oid=2)
ROOT = table("public.root", {"a": "int4", "b": "text"}, key=["a"], oid=3, partitioned=True)
LEAF = table("public.leaf", {"b": "text", "a": "int4"}, key=["a"], oid=4, partition_of=ROOT)
KNOWN = tables(FULL, OTHER, ROOT, LEAF)
T, U, L = as_sent(FULL), as_sent(OTHER), as_sent(LEAF)


def publishing(*entries: TableEntry, via_root: bool = False) -> Publishing:
    return Publishing((Publication("p", tables=entries, via_root=via_root),), KNOWN)


BIG = publishing(entry(FULL, "(a > 10)"))
ALL = publishing(entry(FULL))


def row(a: int, b: str = "x", c: str = "y") -> tuple[m.ColumnValue, ...]:
    return values(str(a), b, c)


def insert(a: int) -> m.Insert:
    return m.Insert(T.relation_id, row(a))


def update(before: int, after: int) -> m.Update:
    return m.Update(T.relation_id, "O", row(before), row(after))


def journal(folder: Path, *transactions: list[m.Message], applied: int | None = None) -> LocalStorage:
    """A journal of a carrier with these transactions, which end at 0/200, 0/300 and so on."""
    storage = LocalStorage(folder)
    with writing(storage) as writer:
        known: dict[int, m.Relation] = {}
        for number, messages in enumerate(transactions, start=2):
            publish(writer, number * 0x100, transaction(number * 0x100, *messages), relations=dict(known))
            known |= {one.relation_id: one for one in messages if isinstance(one, m.Relation)}
    apply_up_to(storage, (len(transactions) + 1) * 0x100 if applied is None else applied)
    return storage


def apply_up_to(storage: LocalStorage, lsn: int) -> None:
    write_consumer(storage, consumer(), LSN(lsn), subscription="s", place="", carrier="everything")


def test_rows_are_filtered_and_updates_are_transformed_as_they_are_applied(tmp_path):
    storage = journal(
        tmp_path, [T, insert(1), insert(11)], [update(11, 12), update(12, 2), update(2, 20), update(1, 2)]
    )
    record_publishing(storage, BIG, LSN(0x100))
    assert changes(rows_of_feed(tmp_path), "a") == [
        ("insert", 11), ("update_preimage", 11), ("update_postimage", 12), ("delete", 12), ("insert", 20),
    ]  # fmt: skip


def test_columns_that_a_list_leaves_out_are_no_columns_of_the_feed(tmp_path):
    storage = journal(tmp_path, [T, insert(1)])
    record_publishing(storage, publishing(entry(FULL, columns=["a", "c"])), LSN(0x100))
    reader = feed_reader(tmp_path)
    assert [column.name for column in relation_of(reader).columns] == ["a", "c"]
    assert changes(rows_of_feed(tmp_path), "a", "c") == [("insert", 1, "y")]


def test_a_partition_s_changes_are_those_of_the_root_that_is_published(tmp_path):
    storage = journal(tmp_path, [L, m.Insert(4, values("x", "1"))], [m.Delete(4, "K", values(None, "1"))])
    record_publishing(storage, publishing(entry(ROOT), via_root=True), LSN(0x100))
    assert changes(rows_of_feed(tmp_path, "root"), "a", "b") == [("insert", 1, "x"), ("delete", 1, None)]
    with pytest.raises(UsageError, match=r'no change of the table "public\.leaf"'):
        rows_of_feed(tmp_path, "leaf")


@pytest.mark.parametrize("partition_bytes", ["1", "1000000"])
def test_publications_that_are_altered_hold_from_where_they_were_applied(tmp_path, partition_bytes):
    storage = journal(tmp_path, [T, insert(1)], [insert(2)], [insert(3)], [insert(4)])
    for since, one in ((0x100, ALL), (0x200, BIG), (0x300, ALL), (0x400, None)):
        record_publishing(storage, one, LSN(since))
    record_publishing(storage, ALL, LSN(0x480))
    rows = rows_of_feed(tmp_path, partitionBytes=partition_bytes)
    assert changes(rows, "a") == [("insert", 1), ("insert", 3), ("insert", 4)]
    assert changes(batch_read(tmp_path)[0], "a") == [("insert", 1), ("insert", 3), ("insert", 4)]


def test_publications_that_are_altered_within_a_file_hold_from_the_transaction_on(tmp_path):
    storage = LocalStorage(tmp_path)
    with writing(storage) as writer:
        run = [*transaction(0x200, T, insert(1)), *transaction(0x300, insert(2)), *transaction(0x400, insert(30))]
        publish(writer, 0x400, run)
    apply_up_to(storage, 0x400)
    record_publishing(storage, ALL, LSN(0x100))
    record_publishing(storage, BIG, LSN(0x200))
    assert changes(rows_of_feed(tmp_path), "a") == [("insert", 1), ("insert", 30)]


def test_the_feed_goes_as_far_as_the_target_has_gone(tmp_path):
    """The publications may be altered before the target applies the rest."""
    storage = journal(tmp_path, [T, insert(1)], [insert(2)], [insert(3)], applied=0x200)
    record_publishing(storage, ALL, LSN(0x100))
    assert changes(rows_of_feed(tmp_path), "a") == [("insert", 1)]
    assert changes(batch_read(tmp_path)[0], "a") == [("insert", 1)]
    reader = feed_reader(tmp_path)
    end = reader.latestOffset({"lsn": "0/100"}, reader.getDefaultReadLimit())
    assert end["lsn"] == "0/200"
    record_publishing(storage, BIG, LSN(0x200))
    apply_up_to(storage, 0x400)
    end = reader.latestOffset(end, reader.getDefaultReadLimit())
    assert end["lsn"] == "0/400"
    partitions = reader.partitions({"lsn": "0/200"}, end)
    assert [batch for one in partitions for batch in reader.read(one)] == []


def test_several_tables_are_filtered_too_and_others_are_left_out(tmp_path):
    storage = journal(tmp_path, [T, U, insert(1), insert(11), m.Insert(2, values("1", "x"))])
    record_publishing(storage, publishing(entry(FULL, "(a > 10)", ["a"])), LSN(0x100))
    reader_rows = rows_of_feed(tmp_path, None, tables="*")
    assert [(one["_table"], one["row"]) for one in reader_rows] == [("public.t", '{"a": 11}')]


def test_a_filter_of_another_table_that_fails_does_not_matter(tmp_path):
    storage = journal(tmp_path, [T, U, m.Insert(2, values("0", "x")), insert(1)])
    record_publishing(storage, publishing(entry(FULL), entry(OTHER, "(1 / a > 0)")), LSN(0x100))
    assert changes(rows_of_feed(tmp_path), "a") == [("insert", 1)]
    with pytest.raises(RowFilterError, match="division by zero"):
        rows_of_feed(tmp_path, "other")


def test_a_micro_batch_counts_the_rows_of_the_feed_s_tables(tmp_path):
    others = [m.Insert(2, values(str(key), "x")) for key in range(5)]
    storage = journal(tmp_path, [T, U, insert(1), *others], [*others], [insert(2)], [insert(3)])
    record_publishing(storage, publishing(entry(FULL), entry(OTHER)), LSN(0x100))
    batches = batches_of(feed_reader(tmp_path, maxRowsPerTrigger="2"))
    assert [[one["a"] for one in batch] for batch in batches if batch] == [[1, 2], [3]]


def test_a_truncate_that_is_not_published_is_left_out(tmp_path):
    storage = journal(tmp_path, [T, insert(1), m.Truncate((1,), False, False)])
    only_rows = replace(ALL, publications=(replace(ALL.publications[0], publish=frozenset({"insert"})),))
    record_publishing(storage, only_rows, LSN(0x100))
    assert changes(rows_of_feed(tmp_path, truncate="event"), "a") == [("insert", 1)]
    record_publishing(storage, ALL, LSN(0x100))
    assert changes(rows_of_feed(tmp_path, truncate="event"), "a") == [("insert", 1), ("truncate", None)]


def test_a_column_list_that_is_altered_is_another_shape(tmp_path):
    storage = journal(tmp_path, [T, insert(1)], [insert(2)])
    record_publishing(storage, publishing(entry(FULL, columns=["a", "c"])), LSN(0x100))
    record_publishing(storage, ALL, LSN(0x200))
    with pytest.raises(UsageError, match="has another shape from 0/300 on") as caught:
        rows_of_feed(tmp_path)
    assert "(a integer, b text, c text)" in str(caught.value)
    assert changes(rows_of_feed(tmp_path, startingVersion="768"), "a", "b") == [("insert", 2, "x")]


# What is refused ----------------------------------------------------------------------------------


def test_what_the_journal_does_not_say_is_refused_unless_all_of_it_is_wanted(tmp_path):
    journal(tmp_path, [T, insert(1)])
    with pytest.raises(NotSupportedError, match='all changes of publication "everything"') as caught:
        rows_of_feed(tmp_path)
    assert "Start `subscriber run`" in str(caught.value)
    assert len(rows_of_feed(tmp_path, emulatedPublications="ignore")) == 1


def test_changes_of_before_the_record_are_refused_with_the_place_to_begin_at(tmp_path):
    storage = journal(tmp_path, [T, insert(1)], [insert(2)])
    record_publishing(storage, ALL, LSN(0x200))
    with pytest.raises(NotSupportedError, match='option\\("startingLsn", "0/200"\\)'):
        rows_of_feed(tmp_path)
    assert changes(rows_of_feed(tmp_path, startingLsn="0/200"), "a") == [("insert", 2)]


def test_a_journal_whose_subscription_is_gone_is_refused(tmp_path):
    storage = journal(tmp_path, [T, insert(1)])
    record_publishing(storage, ALL, LSN(0x100))
    reader = feed_reader(tmp_path)
    storage.delete([consumer().file])
    with pytest.raises(NotSupportedError, match="its subscription is gone"):
        rows_of_feed(tmp_path)
    with pytest.raises(NotSupportedError, match="its subscription is gone"):
        reader.latestOffset({"lsn": "0/100"}, reader.getDefaultReadLimit())


def test_a_transaction_that_was_prepared_while_publications_were_altered_is_refused(tmp_path):
    storage = LocalStorage(tmp_path)
    with writing(storage) as writer:
        publish(writer, 0x200, prepare(0x200, T, insert(1), xid=8), kind="p", xid=8)
        publish(writer, 0x300, commit_prepared(0x300, xid=8), kind="k", xid=8)
    apply_up_to(storage, 0x300)
    record_publishing(storage, ALL, LSN(0x100))
    assert changes(rows_of_feed(tmp_path), "a") == [("insert", 1)]
    record_publishing(storage, BIG, LSN(0x200))
    with pytest.raises(NotSupportedError, match="while the transaction was prepared that ends at 0/300"):
        rows_of_feed(tmp_path)


def test_a_snapshot_of_emulated_publications_is_refused(tmp_path):
    storage = journal(tmp_path, [T, insert(1)])
    record_publishing(storage, ALL, LSN(0x100))
    with pytest.raises(NotSupportedError, match="startingSnapshot of emulated publications is not possible"):
        feed_reader(tmp_path, startingSnapshot="true", connection="dbname=x", publication="p")


# All tables of publications -----------------------------------------------------------------------


def received(folder: Path, *publications: Sequence[str]) -> None:
    """A journal that is received from these publications, a transaction from each."""
    for number, names in enumerate(publications, start=2):
        with writing(LocalStorage(folder)) as writer:
            writer.receive_on(1, names)
            publish(writer, number * 0x100, transaction(number * 0x100, T, insert(number)))


def tables_of(folder: Path, names: str, **options: str) -> list[tuple[str, str]]:
    return [(one["_table"], one["row"]) for one in rows_of_feed(folder, None, publication=names, **options)]


def test_a_publication_without_a_table_is_all_of_its_tables(tmp_path):
    received(tmp_path, ["p", "q"], ["q", "p"])
    found = tables_of(tmp_path, "p, q")
    assert found == [("public.t", f'{{"a": {a}, "b": "x", "c": "y"}}') for a in (2, 3)]
    assert batch_read(tmp_path, table=None, publication="p, q")[0] == rows_of_feed(tmp_path, None, tables="*")


def test_publications_that_are_not_those_of_the_journal_are_refused(tmp_path):
    received(tmp_path, ["p", "q"])
    with pytest.raises(UsageError, match="changes of the publications p, q, and not of p\n") as caught:
        tables_of(tmp_path, "p")
    assert 'option("publication", "p, q")' in str(caught.value)


def test_changes_that_were_received_from_other_publications_are_refused(tmp_path):
    received(tmp_path, ["q"], ["p"])
    with pytest.raises(UsageError, match="changes up to 0/200"):
        tables_of(tmp_path, "p")
    assert len(tables_of(tmp_path, "p", startingLsn="0/200")) == 1
    reader = feed_reader(tmp_path, None, publication="p", startingLsn="0/200")
    received_on = LocalStorage(tmp_path)
    with writing(received_on) as writer:
        writer.receive_on(1, ["p", "q"])
        publish(writer, 0x400, transaction(0x400, T, insert(4)))
    with pytest.raises(UsageError, match="changes up to 0/300"):
        reader.latestOffset({"lsn": "0/200"}, reader.getDefaultReadLimit())


def test_a_journal_of_an_earlier_version_says_nothing_of_its_publications(tmp_path):
    with writing(LocalStorage(tmp_path)) as writer:
        publish(writer, 0x200, transaction(0x200, T, insert(1)))
    with pytest.raises(UsageError, match="does not say from which publications"):
        tables_of(tmp_path, "p")


def test_emulated_publications_are_named_as_the_subscription_names_them(tmp_path):
    storage = journal(tmp_path, [T, U, insert(1), insert(11), m.Insert(2, values("1", "x"))])
    record_publishing(storage, BIG, LSN(0x100))
    assert tables_of(tmp_path, "p") == [("public.t", '{"a": 11, "b": "x", "c": "y"}')]
    with pytest.raises(UsageError, match="changes of the publications p, and not of everything"):
        tables_of(tmp_path, "everything")
