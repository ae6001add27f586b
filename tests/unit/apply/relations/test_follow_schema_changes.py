"""Relation messages that differ from the last one. With a publisher:
tests/conformance/test_followed_schema_changes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.apply.relations.follow_schema_changes import Answer, Following
from subscriber.apply.relations.target_relations import RelationMap
from subscriber.base.errors import ColumnsToAdd, TargetRelationError
from subscriber.base.lsn import LSN
from subscriber.catalog.schema_changes import SchemaChanges, forget_oids, read_shape, schema_changes_of
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.publisher_tables import PublisherColumn, TableAttributes
from subscriber.postgres.schema.stored_shape import Baseline, columns_of
from tests.frames import relation

AB = {"a": "int4", "b": "text"}
BEFORE = relation("public.t", {"a": "int4"}, ["a"])
NOW = relation("public.t", AB, ["a"])


@pytest.fixture
def connection(target, execute):
    """A transaction of the target, in which the relation had only column a before."""
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    execute("INSERT INTO t VALUES (1)")
    with target.begin() as opened:
        SchemaChanges(1, "sub").store(opened, BEFORE, None)
        yield opened


@pytest.fixture
def follow(target, connection) -> Callable[..., RelationMap]:
    """The relations of a transaction that follows schema changes."""

    def call(*, add_columns: bool = True, prepared: bool = False, **following: Any) -> RelationMap:
        rules = Following(SchemaChanges(1, "sub"), **following)
        return RelationMap(target, connection, add_columns=add_columns, prepared=prepared, following=rules)

    return call


def kept(connection: sa.Connection) -> object:
    shape = read_shape(connection, 1, ("public", "t"))
    return None if shape is None else shape.columns


def test_the_publisher_is_asked_before_a_column_is_added(follow, connection):
    with pytest.raises(ColumnsToAdd, match='must get column: "b" first') as raised:
        follow().open(NOW)
    assert (raised.value.shape, kept(connection)) == (NOW, columns_of(BEFORE))


def test_a_column_is_added_and_the_shape_is_stored(follow, connection):
    relations = follow(answers={NOW: Answer(LSN(200))})
    assert [column.name for column in relations.open(NOW).columns] == ["a", "b"]
    ((alteration),) = relations.alterations
    assert (alteration.column, alteration.lsn) == ("b", 200)
    assert str(alteration.difference).startswith('Existing rows have NULL in column "b"')
    assert kept(connection) == columns_of(NOW)


def test_a_transaction_that_is_prepared_alters_no_table(follow):
    """It would keep the lock on the table."""
    with pytest.raises(ColumnsToAdd):
        follow(prepared=True, answers={NOW: Answer()}).open(NOW)


def test_rows_that_another_subscription_writes_get_no_value(follow):
    relations = follow(answers={NOW: Answer()}, is_shared=lambda _: True)
    relations.open(NOW)
    assert "another subscription writes to the table, too" in str(relations.alterations[0].difference)


def test_a_table_that_is_about_to_be_copied_needs_no_answer(follow):
    relations = follow(copies=True)
    assert [column.name for column in relations.open(NOW).columns] == ["a", "b"]
    assert relations.alterations[0].difference is None


def test_a_renamed_column_is_not_a_new_one(follow):
    renamed = relation("public.t", {"z": "int4"}, ["z"])
    with pytest.raises(TargetRelationError, match='missing replicated column: "z"') as raised:
        follow(answers={renamed: Answer()}).open(renamed)
    assert "RENAME COLUMN a TO z" in str(raised.value.hint)


@pytest.mark.parametrize(("remote", "unchanged"), [(BEFORE, True), (NOW, False)])
def test_only_a_relation_with_its_last_shape_is_opened_without_an_examination(follow, remote: m.Relation, unchanged):
    assert (follow().open_unchanged(remote) is not None) is unchanged


def test_columns_in_another_order_are_recorded(follow, execute, target, connection):
    """Their names were exchanged, or they were dropped and added again."""
    connection.exec_driver_sql("CREATE TABLE o (a INTEGER PRIMARY KEY, b TEXT, c TEXT)")
    remote = relation("public.o", {"a": "int4", "b": "text", "c": "text"}, ["a"])
    SchemaChanges(1, "sub").store(connection, remote, None)
    a, b, c = remote.columns
    relations = follow()
    relations.open(replace(remote, columns=(a, c, b)))
    assert "have another order at the publisher than before" in relations.alterations[0].reason


def test_a_table_that_was_created_again_is_recorded_once(follow, connection):
    """The columns are the same, only the OID is another one."""
    again = replace(BEFORE, relation_id=BEFORE.relation_id + 7)
    assert follow().open_unchanged(again) is None
    relations = follow()
    relations.open(again)
    (note,) = relations.alterations
    assert note.reason == (
        "The publisher's table with this name is another one now, with OID 16391 instead of 16384:"
        " it was dropped and created again, or another table was renamed."
    )
    assert note.difference == "The target still has the rows of the former table."
    assert follow().open_unchanged(again) is not None
    assert len(schema_changes_of(connection, 1)) == 1


def test_a_table_that_was_created_again_with_another_column_has_no_known_older_rows(follow, connection):
    again = replace(NOW, relation_id=BEFORE.relation_id + 7)
    attributes = TableAttributes(
        (PublisherColumn("a", 1, 23), PublisherColumn("b", 2, 25)), last=2, files={}, missing={"b": frozenset({"x"})}
    )
    SchemaChanges(1, "sub").store(connection, BEFORE, Baseline(1, {}))
    exact = follow(answers={NOW: Answer(LSN(200), attributes)})
    exact.open(NOW)
    assert [one.difference for one in exact.alterations] == [None]
    connection.exec_driver_sql("ALTER TABLE t DROP COLUMN b")
    SchemaChanges(1, "sub").store(connection, BEFORE, Baseline(1, {}))
    relations = follow(answers={again: Answer(LSN(300), attributes)})
    relations.open(again)
    added, other = relations.alterations
    assert str(added.difference).startswith('Existing rows have NULL in column "b"')
    assert (str(other.difference), other.lsn) == ("The target still has the rows of the former table.", 300)


def test_an_oid_that_was_not_known_is_stored_without_a_warning(follow, connection):
    """An earlier version of the program, or another cluster."""
    forget_oids(connection, 1)
    relations = follow()
    relations.open(BEFORE)
    assert not relations.alterations
    shape = read_shape(connection, 1, ("public", "t"))
    assert shape is not None
    assert shape.oid == BEFORE.relation_id


def test_a_prepared_transaction_leaves_the_record_to_the_next_one(follow, connection):
    """It must not lock the catalog."""
    again = replace(BEFORE, relation_id=BEFORE.relation_id + 7)
    assert follow(prepared=True).open_unchanged(again) is not None
    assert schema_changes_of(connection, 1) == []
    follow().open(again)
    assert len(schema_changes_of(connection, 1)) == 1


def test_a_column_that_the_target_refuses_stops_with_the_reason(execute, target):
    """SQLite tells names apart by more than their case; PostgreSQL does not."""
    execute("CREATE TABLE t (a INT, B TEXT)")
    with target.begin() as connection, pytest.raises(TargetRelationError) as raised:
        RelationMap(target, connection, add_columns=True).open(relation("public.t", AB))
    error = raised.value
    assert 'missing replicated column: "b"' in error.message
    assert str(error.detail).startswith("They could not be added: SQLite refused a statement")
    assert "schema_changes" not in str(error.hint)


def test_where_ddl_commits_a_table_is_altered_in_a_separate_transaction(execute, target, monkeypatch):
    """MariaDB's way, without one: what the batch has done so far must not be committed."""
    monkeypatch.setattr(target, "capabilities", replace(target.capabilities, transactional_ddl=False))
    execute("CREATE TABLE t (a INT)")
    with target.begin() as connection:
        with pytest.raises(ColumnsToAdd) as raised:
            RelationMap(target, connection, add_columns=True).open(relation("public.t", AB))
        assert raised.value.shape == relation("public.t", AB)
        local = RelationMap(target, connection, add_columns=True, alone=True).open(relation("public.t", AB))
    assert [column.name for column in local.columns] == ["a", "b"]
