"""Shapes of DuckDB's tables."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.targets import UniqueIndex
from tests.frames import relation, transaction
from tests.unit.targets.tables import execute, insert, reflected, rows


def test_a_tables_shape(target):
    execute(
        target,
        'CREATE TABLE "T ""1""" (a INT, "b.c" VARCHAR NOT NULL, d DECIMAL(5,2), g AS (a + 1), UNIQUE (d), PRIMARY KEY ("b.c", a))',
        "CREATE VIEW v AS SELECT 1 AS a",
        "CREATE TABLE r (rowid int)",
    )
    table = reflected(target, 'T "1"')
    assert (table.key, table.kind, table.locators) == (("b.c", "a"), "table", ("rowid",))
    assert [(c.name, c.declared_type, c.storage, c.nullable, c.generated) for c in table.columns] == [
        ("a", "INTEGER", "INTEGER", False, False),
        ("b.c", "VARCHAR", "VARCHAR", False, False),
        ("d", "DECIMAL(5,2)", "DECIMAL", True, False),
        ("g", "INTEGER", "INTEGER", True, True),
    ]
    assert reflected(target, "v").kind == "view"
    assert reflected(target, "r").locators == ()


def test_names_compare_exactly(target):
    """C1"""
    execute(target, "CREATE TABLE t (a int)")
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, "public", "T") is None
        assert target.shapes.reflect(connection, "main2", "t") is None


def test_a_schema_is_the_one_of_its_name(target):
    """C1: though it has a dot, which duckdb-engine takes for a database's"""
    execute(target, 'CREATE SCHEMA "s.x"', 'CREATE TABLE "s.x".t (a int)')
    table = reflected(target, "t", "s.x")
    with target.begin() as connection:
        connection.execute(sa.insert(table.clause()).values(a=1))
    assert rows(target, 'SELECT a FROM "s.x".t') == [{"a": 1}]


def test_a_schema_may_have_the_databases_name(apply, target):
    """C1: which DuckDB by itself calls ambiguous"""
    execute(target, "CREATE SCHEMA target.target", "CREATE TABLE target.target.t (a int PRIMARY KEY, b text)")
    apply([relation("target.t", {"a": "int4", "b": "text"}, ["a"])], *transaction(200, insert("1", "x")))
    assert rows(target, "SELECT * FROM target.target.t") == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    ("declared", "required"),
    [("a INT NOT NULL", True), ("a INT NOT NULL DEFAULT 1", False), ("a INT", False), ("b INT, a AS (b + 1)", False)],
    ids=["not null", "default", "nullable", "generated"],
)
def test_an_insert_needs_a_column_that_is_not_null_and_has_no_default(target, declared, required):
    execute(target, f"CREATE TABLE t ({declared})")
    column = reflected(target, "t").column("a")
    assert column is not None
    assert column.required is required


def test_the_primary_key_comes_before_the_other_unique_indexes(target):
    """C22: indexes of expressions are left out."""
    execute(
        target,
        "CREATE TABLE t (a INT, b INT, c VARCHAR, UNIQUE (b, a), PRIMARY KEY (a))",
        "CREATE UNIQUE INDEX i ON t (c)",
        "CREATE UNIQUE INDEX e ON t (lower(c))",
        "CREATE INDEX plain ON t (b)",
    )
    with target.engine.connect() as connection:
        found = target.shapes.unique_indexes(connection, reflected(target, "t"))
    assert [index.keys for index in found] == [("a",), ("b", "a"), ("c",)]
    assert found[2] == UniqueIndex("i", ("c",))


def test_a_key_that_no_row_has_is_refused_until_its_index_is_created_again(target):
    """The hint names the statements, for names that must be quoted, too."""
    execute(target, 'CREATE TABLE "t t" (a INT PRIMARY KEY, b INT)')
    with target.engine.connect() as connection:
        assert target.shapes.refused_key_hint(connection, reflected(target, "t t")) is None
    execute(target, 'CREATE UNIQUE INDEX "i i" ON "t t" (b)', 'CREATE INDEX other ON "t t" (b)')
    with target.engine.connect() as connection:
        hint = target.shapes.refused_key_hint(connection, reflected(target, "t t"))
    _, _, statements = hint.partition("again: ")
    assert statements == 'DROP INDEX "main"."i i"; CREATE UNIQUE INDEX "i i" ON "t t"(b);'
    for statement in statements.rstrip(";").split("; "):
        execute(target, statement)
