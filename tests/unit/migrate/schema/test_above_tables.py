"""What is built above the partitions of a partitioned table that is not published."""

from __future__ import annotations

import pytest

from subscriber.migrate.schema.above_tables import (
    belongs_to,
    levels_of,
    new_partitions,
    new_table,
    new_view,
    planned_table,
    view_lacks,
    without_brought,
)
from subscriber.migrate.schema.schema_object import Missing
from subscriber.postgres.schema.relation_names import SAME_NAMES
from subscriber.postgres.schema.shape import ForeignKey, Partition
from subscriber.targets import open_target
from subscriber.targets.table_changes import FoundForeignKey, FoundObjects, NewForeignKey, NewPartition, NewView
from subscriber.targets.target_table import TargetColumn, TargetTable
from tests.table_shapes import column_shape, table_shape
from tests.unit.targets.tables import execute, reflected, rows

COLUMNS = (column_shape("id", 23, "integer", identity="d"), column_shape("year", 23, "integer"))
INNER = Partition("public", "rest", ("public", "notes"), "DEFAULT", "LIST (year)")
LEAF = Partition("public", "notes_1", ("public", "notes"), "FOR VALUES IN (1)")
DEEP = Partition("public", "notes_2", ("public", "rest"), "FOR VALUES IN (2)")
ROOT = table_shape(
    "public", "notes", COLUMNS, kind="partitioned table", partition_key="LIST (year)", partitions=(LEAF, INNER, DEEP)
)
REST = table_shape("public", "rest", COLUMNS, kind="partitioned table", partition_key="LIST (year)", partitions=(DEEP,))


def leaf(name: str) -> TargetTable:
    columns = (TargetColumn("year", "integer", "integer", nullable=False), TargetColumn("id", "integer", "integer"))
    return TargetTable("main", name, columns, None)


TABLES = {("public", name): leaf(name) for name in ("notes_1", "notes_2")}


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        for number in (1, 2):
            execute(
                opened,
                f"CREATE TABLE notes_{number} (year INT, id INT)",
                f"INSERT INTO notes_{number} VALUES ({number}, 7)",
            )
        yield opened


def test_a_partitioned_table_has_the_columns_of_a_partition_in_its_own_order_and_is_as_nullable_as_its_own():
    planned = planned_table(ROOT, SAME_NAMES, TABLES)
    assert planned is not None
    assert (planned.name, planned.kind, [one.name for one in planned.columns]) == (
        "notes", "partitioned table", ["id", "year"],
    )  # fmt: skip
    change = new_table(ROOT, planned, TABLES)
    assert (change.key, change.model.name, change.nullable) == ("LIST (year)", "notes_1", ("year",))
    assert planned_table(ROOT, SAME_NAMES, {}) is None


def test_only_the_partitions_below_it_are_attached_to_a_partitioned_table():
    above = planned_table(ROOT, SAME_NAMES, TABLES)
    inner = planned_table(REST, SAME_NAMES, TABLES)
    assert above is not None
    assert inner is not None
    tables = {**TABLES, ("public", "rest"): inner}
    assert dict(new_partitions(ROOT, above, tables, {})) == {
        ("public", "notes_1"): NewPartition(TABLES["public", "notes_1"], above, "FOR VALUES IN (1)", ("id",)),
        ("public", "rest"): NewPartition(inner, above, "DEFAULT"),
    }
    attached = {TABLES["public", "notes_1"]: FoundObjects(parents=frozenset({("public", "notes")}))}
    assert list(dict(new_partitions(ROOT, above, tables, attached))) == [("public", "rest")]


def test_the_levels_of_partitions_and_what_belongs_to_which():
    assert levels_of([ROOT, REST]) == {("public", "notes"): 2, ("public", "rest"): 1}
    assert belongs_to(ROOT, "identity", [ROOT, REST])
    assert not belongs_to(REST, "identity", [ROOT, REST])
    assert belongs_to(REST, "index", [ROOT, REST])
    assert not belongs_to(ROOT, "column type", [ROOT, REST])


def test_a_foreign_key_that_comes_with_the_partitioned_table_is_not_built_before():
    key = Missing("foreign key", "f", NewForeignKey(ForeignKey(("id",), "public", "u", ("id",)), "f", leaf("u")))
    other = Missing("comment", "", None)
    brought = FoundObjects(foreign_keys=(FoundForeignKey(("id",), "u", ("id",)),))
    assert without_brought([key, other], brought) == [other]
    assert without_brought([key, other], FoundObjects()) == without_brought([key, other], None) == [key, other]


def test_a_view_shows_the_rows_of_all_partitions_until_a_partition_or_column_is_new(target):
    view = new_view(target, ROOT, SAME_NAMES, TABLES)
    assert view is not None
    assert new_view(target, ROOT, SAME_NAMES, {}) is None
    with target.objects.building() as connection:
        made = target.objects.statements(connection, leaf("notes"), view)
        for statement in made.sql:
            connection.exec_driver_sql(statement)
    assert made.note == "a view: it is read through, and the tables below it are written"
    assert rows(target, "SELECT id, year FROM notes ORDER BY year") == [{"id": 7, "year": 1}, {"id": 7, "year": 2}]
    with target.engine.connect() as connection:
        found = reflected(target, "notes")
        more = NewView(view.schema, view.name, view.columns, (*view.tables, leaf("notes_3")))
        assert view_lacks(target, connection, found, view) == ""
        assert view_lacks(target, connection, found, more) == "the target's view lacks partition notes_3"
        wider = NewView(view.schema, view.name, (*view.columns, "text"), view.tables)
        assert view_lacks(target, connection, found, wider) == "the target's view lacks column text"
