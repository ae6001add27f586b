"""Statements: the rows they write, and their records."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.heap_tuples import Datum
from subscriber.postgres.logical_decoding.memory_database import MemoryDatabase
from subscriber.postgres.logical_decoding.memory_tables import Column, Toasted
from subscriber.postgres.protocol.messages import NULL, UNCHANGED


@pytest.fixture
def publisher() -> MemoryDatabase:
    made = MemoryDatabase()
    made.create_table("t", {"a": "integer", "b": "text"}, ["a"])
    made.create_table("p", {"a": "integer", "b": "text"}, ["a"], partition_by="a")
    session = made.session()
    session.create_partition("p_one", "p", [1, 2])
    session.create_partition("p_other", "p", columns={"b": "text", "a": "integer"})
    made.take()
    return made


def texts(values) -> list[str]:
    return [value.text.decode() if isinstance(value, Datum) else value.name for value in values]


def changes(publisher: MemoryDatabase) -> list[list[str]]:
    shown = []
    for record in publisher.records:
        rows = [getattr(record, name, None) for name in ("old", "new")]
        if any(rows):
            name = publisher.catalog.relation(record.relation_oid).name  # type: ignore[union-attr]
            shown.append(
                [
                    type(record).__name__.removesuffix("Record"),
                    name,
                    *("|".join(texts(one.values)) for one in rows if one),
                ]
            )
    return shown


def test_rows_are_written_and_read(publisher):
    session = publisher.session()
    session.insert("t", a=1, b="x")
    session.insert("t", {"a": 2})
    assert session.update("t", {"a": 1}, b="y") == 1
    assert session.delete("t", {"a": 2}) == 1
    assert session.delete("t", {"a": 9}) == 0
    assert publisher.select("t") == [{"a": "1", "b": "y"}]
    assert changes(publisher) == [
        ["Insert", "t", "1|x"], ["Insert", "t", "2|NULL"], ["Update", "t", "1|y"], ["Delete", "t", "2|NULL"],
    ]  # fmt: skip


def test_a_session_does_not_see_what_another_has_not_committed(publisher):
    one, two = publisher.session(), publisher.session()
    one.begin()
    one.insert("t", a=1)
    assert (len(one.select("t")), len(two.select("t"))) == (1, 0)
    one.commit()
    assert len(two.select("t")) == 1


def test_a_row_that_another_session_has_updated_is_locked(publisher):
    one, two = publisher.session(), publisher.session()
    one.insert("t", a=1)
    one.begin()
    one.update("t", {"a": 1}, b="x")
    with pytest.raises(UsageError, match="locked"):
        two.delete("t", {"a": 1})
    one.rollback()
    assert two.delete("t", {"a": 1}) == 1


def test_values_out_of_line_are_unchanged_unless_they_are_written(publisher):
    """B14."""
    session = publisher.session()
    session.insert("t", a=1, b=Toasted("long"))
    session.update("t", {"b": "long"}, a=2)
    session.update("t", {"a": 2}, b=Toasted("longer"))
    updates = [record for record in publisher.records if isinstance(record, wal.UpdateRecord)]
    assert [texts(one.new.values) for one in updates] == [["2", "UNCHANGED"], ["2", "longer"]]
    assert updates[0].old is not None
    assert updates[0].old.values == (Datum(b"1", b"\0\0\0\1"), NULL)
    assert updates[0].new.values[1] is UNCHANGED
    assert updates[1].old is None
    assert publisher.select("t") == [{"a": "2", "b": "longer"}]


def test_a_stored_generated_column_is_computed_and_a_virtual_one_is_not_stored():
    publisher = MemoryDatabase()
    double = Column("d", "integer", "stored", "a * 2", lambda row: row["a"] * 2)
    publisher.create_table("g", [Column("a", "integer"), double, Column("v", "integer", "virtual", "a + 1")], ["a"])
    session = publisher.session()
    session.insert("g", a=1)
    session.update("g", {"a": 1}, a=5)
    assert publisher.select("g") == [{"a": "5", "d": "10", "v": None}]
    with pytest.raises(UsageError, match="can only be updated to DEFAULT"):
        session.insert("g", d=1)


def test_a_row_goes_to_its_partition_and_moves_between_them(publisher):
    session = publisher.session()
    session.insert("p", a=1, b="x")
    session.insert("p", a=7, b="y")
    session.update("p", {"a": 1}, a=2)
    session.update("p", {"a": 2}, a=8)
    assert changes(publisher) == [
        ["Insert", "p_one", "1|x"], ["Insert", "p_other", "y|7"], ["Update", "p_one", "1|NULL", "2|x"],
        ["Delete", "p_one", "2|NULL"], ["Insert", "p_other", "x|8"],
    ]  # fmt: skip
    assert publisher.select("p") == [{"b": "y", "a": "7"}, {"b": "x", "a": "8"}]


def test_a_truncate_names_the_partitions_too(publisher):
    session = publisher.session()
    session.insert("t", a=1)
    session.insert("p", a=1)
    session.truncate("p", "t", cascade=True, restart_identity=True)
    record = publisher.records[-2]
    assert isinstance(record, wal.TruncateRecord)
    names = [publisher.catalog.relation(oid).name for oid in record.relation_oids]
    assert names == ["p", "p_one", "p_other", "t"]
    assert record.cascade
    assert record.restart_seqs
    assert publisher.select("p") == publisher.select("t") == []


def test_a_truncate_gives_tables_new_files_which_changes_the_catalogs(publisher):
    """A24."""
    publisher.take()
    publisher.session().truncate("p")
    begin, change, truncate, commit = publisher.take()
    assert isinstance(change, wal.SchemaChangeRecord)
    invalidated = [publisher.catalog.relation(oid).name for oid in change.change.invalidation.relations]
    assert sorted(invalidated) == ["p_one", "p_other"]  # a partitioned table has no file
    assert [type(one) for one in (begin, truncate, commit)] == [wal.BeginRecord, wal.TruncateRecord, wal.CommitRecord]


def test_tables_that_are_not_logged_leave_only_the_transaction(publisher):
    publisher.create_table("u", {"a": "integer"}, ["a"], persistence="unlogged")
    publisher.take()
    session = publisher.session()
    session.insert("u", a=1)
    session.update("u", {"a": 1}, a=2)
    session.delete("u", {})
    session.truncate("u")
    # TRUNCATE changes the catalogs.
    assert {type(record) for record in publisher.records} == {wal.BeginRecord, wal.SchemaChangeRecord, wal.CommitRecord}


def test_an_insert_on_conflict_is_speculative(publisher):
    """E17."""
    publisher.session().insert("t", a=1, on_conflict=True)
    assert [type(record).__name__.removesuffix("Record") for record in publisher.records] == [
        "Begin",
        "Insert",
        "SpeculativeConfirm",
        "Commit",
    ]


def test_a_message_returns_its_position_and_need_not_be_transactional(publisher):
    """A17."""
    session = publisher.session()
    outside = session.message("p", b"m", transactional=False)
    session.begin()
    session.message("p", "in")
    late = session.message("p", "late", transactional=False)
    session.rollback()
    messages = [record for record in publisher.records if isinstance(record, wal.LogicalMessageRecord)]
    assert [(one.xid, one.transactional, one.content) for one in messages] == [
        (0, False, b"m"), (messages[1].xid, True, b"in"), (messages[1].xid, False, b"late"),
    ]  # fmt: skip
    assert (messages[0].end_lsn, messages[2].end_lsn) == (outside, late)


@pytest.mark.parametrize(
    ("wrong", "sqlstate"),
    [
        (lambda session: session.insert("missing", a=1), "42P01"),
        (lambda session: session.insert("t", z=1), "42703"),
        (lambda session: session.update("t", {"z": 1}, a=1), "42703"),
        (lambda session: session.insert("t", a=5), "23505"),
        (lambda session: session.update("t", {"a": 6}, a=5), "23505"),
    ],
)
def test_a_statement_that_fails_is_rolled_back(publisher, wrong, sqlstate):
    session = publisher.session()
    session.insert("t", a=5)
    session.insert("t", a=6)
    before = list(publisher.records)
    with pytest.raises(UsageError) as caught:
        wrong(session)
    assert caught.value.sqlstate == sqlstate
    assert publisher.records == before
    assert [row["a"] for row in publisher.select("t")] == ["5", "6"]


def test_a_row_without_a_partition_is_postgresqls_error(publisher):
    publisher.session().drop_table("p_other")
    with pytest.raises(UsageError, match=r'^no partition of relation "p" found for row$'):
        publisher.session().insert("p", a=9)


def test_after_an_update_the_key_may_stay_the_same(publisher):
    session = publisher.session()
    session.insert("t", a=5)
    assert session.update("t", {"a": 5}, a=5, b="x") == 1
