"""What SQLite's pragmas tell of a table."""

from __future__ import annotations

import pytest

from subscriber.errors import ConflictError
from subscriber.targets.sqlite.catalog import SQLiteColumn, SQLiteTable, places
from tests.unit.targets.tables import execute, reflected


def sqlite_table(target):
    """A function that gives a table by its name."""

    def read(name: str) -> SQLiteTable:
        table = reflected(target, name)
        assert isinstance(table, SQLiteTable)
        return table

    return read


def test_a_tables_shape(target):
    execute(
        target,
        'CREATE TABLE "T ""1""" (a INT, "b.c" VARCHAR(3) NOT NULL, g AS (a + 1) STORED, PRIMARY KEY ("b.c", a))',
    )
    table = reflected(target, 'T "1"')
    assert table.key == ("b.c", "a")
    assert [(c.name, c.declared_type, c.storage, c.nullable, c.generated) for c in table.columns] == [
        ("a", "INT", "INTEGER", True, False),
        ("b.c", "VARCHAR(3)", "TEXT", False, False),
        ("g", "", "BLOB", True, True),
    ]
    assert table.locators == ("rowid",)
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, "public", "absent") is None


@pytest.mark.parametrize(
    ("ddl", "locator"),
    [
        ("CREATE TABLE t (a)", "rowid"),
        ("CREATE TABLE t (RowId, a)", "_rowid_"),
        ("CREATE TABLE t (rowid, _rowid_, a)", "oid"),
        ("CREATE TABLE t (rowid, _rowid_, oid)", None),
        ("CREATE TABLE t (a PRIMARY KEY) WITHOUT ROWID", None),
    ],
)
def test_rows_are_located_by_a_name_that_no_column_has(target, ddl, locator):
    """C16"""
    execute(target, ddl)
    assert reflected(target, "t").locators == (() if locator is None else (locator,))


@pytest.mark.parametrize(
    ("ddl", "generates"),
    [
        ("CREATE TABLE t (a INTEGER PRIMARY KEY)", True),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT)", True),
        ("CREATE TABLE t (a INT PRIMARY KEY)", False),
        ("CREATE TABLE t (a INTEGER, b, PRIMARY KEY (a, b))", False),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY) WITHOUT ROWID", False),
    ],
)
def test_a_null_in_a_rowid_column_becomes_a_number(target, ddl, generates):
    """absence_is_typed: SQLite is asked"""
    execute(target, ddl)
    assert reflected(target, "t").columns[0].null_is_generated is generates
    try:
        execute(target, "INSERT INTO t (a) VALUES (NULL)")
    except ConflictError:
        became_number = False
    else:
        with target.begin() as connection:
            became_number = connection.exec_driver_sql("SELECT a FROM t").scalar_one() is not None
    assert became_number is generates


def test_virtual_tables_and_views_are_told_apart(target):
    execute(target, "CREATE VIEW v AS SELECT 1 AS a", "CREATE VIRTUAL TABLE f USING fts5(a)")
    assert reflected(target, "v").kind == "view"
    assert reflected(target, "f").kind == "virtual table"


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ("public", [("main", "t")]),
        ("s", [("main", "s.t"), ("s", "t")]),
        ("main", [("main", "main.t")]),
        ("temp", [("main", "temp.t")]),
    ],
)
def test_a_schema_is_part_of_the_name_or_an_attached_database(schema, found):
    """C1"""
    assert list(places(schema, "t")) == found


@pytest.mark.parametrize(
    ("ddl", "required"),
    [
        ("a INT NOT NULL", True),
        ("a INT NOT NULL DEFAULT 1", False),
        ("a INT", False),
        ("a INTEGER NOT NULL PRIMARY KEY", False),
        ("a INT NOT NULL AS (1), b", False),
    ],
    ids=["not null", "default", "nullable", "rowid", "generated"],
)
def test_an_insert_needs_a_column_for_which_nothing_makes_a_value(target, ddl, required):
    execute(target, f"CREATE TABLE t ({ddl})")
    assert reflected(target, "t").columns[0].required is required


@pytest.mark.parametrize(
    ("ddl", "resolves"),
    [
        ("CREATE TABLE t (a PRIMARY KEY ON CONFLICT REPLACE)", True),
        ("CREATE TABLE t (a PRIMARY KEY)", False),
    ],
)
def test_a_constraint_may_resolve_conflicts_itself(target, ddl, resolves):
    execute(target, ddl)
    table = reflected(target, "t")
    assert isinstance(table, SQLiteTable)
    assert table.resolves_conflicts is resolves


def test_a_trigger_may_depend_on_the_columns_of_set(target):
    execute(
        target,
        "CREATE TABLE t (a)",
        "CREATE TABLE u (a)",
        "CREATE TRIGGER g AFTER UPDATE OF a ON T BEGIN SELECT 1; END",
    )
    watched = [table.may_watch_columns for table in map(sqlite_table(target), ("t", "u"))]
    assert watched == [True, False]


@pytest.mark.parametrize(
    ("ddl", "collation"),
    [
        ("CREATE TABLE t (a TEXT PRIMARY KEY)", "BINARY"),
        ("CREATE TABLE t (a TEXT COLLATE NOCASE PRIMARY KEY)", "NOCASE"),
        ("CREATE TABLE t (a TEXT, PRIMARY KEY (a COLLATE NOCASE))", "NOCASE"),
        ("CREATE TABLE t (a TEXT COLLATE NOCASE)", None),
    ],
)
def test_the_collation_of_a_key_is_that_of_its_index(target, ddl, collation):
    execute(target, ddl)
    (column,) = reflected(target, "t").columns
    assert isinstance(column, SQLiteColumn)
    assert column.key_collation == collation
