"""Shapes of DuckDB's tables."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.base.errors import SubscriberError
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.targets import UniqueIndex
from subscriber.targets.duckdb.catalog import restart_sequences
from subscriber.targets.target_table import TargetColumn, TargetSequence, TargetTable
from subscriber.verify.canonical_text import texts_of
from tests.frames import relation, transaction
from tests.target_databases import set_sequence
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


def read(target, table):
    with target.engine.connect() as connection:
        return list(target.reader.rows(connection, table, table.columns))


def test_every_type_is_read_as_the_text_that_postgresql_writes(target):
    values = {
        "DECIMAL(12, 10)": ("0.0000000001", 1700, "0.0000000001"),
        "DECIMAL(38, 9)": ("12345678901234567890123456789.123456789", 1700, "12345678901234567890123456789.123456789"),
        "HUGEINT": ("170141183460469231731687303715884105727", 1700, "170141183460469231731687303715884105727"),
        "UBIGINT": ("18446744073709551615", 20, "18446744073709551615"),
        "BOOLEAN": ("false", 16, "f"),
        "BLOB": ("'\\x00\\xFF'::BLOB", 17, "\\x00ff"),
        "DOUBLE": ("0.1", 701, "0.1"),
        "DATE": ("'0044-03-15 (BC)'::DATE", 1082, "0044-03-15 BC"),
        "TIMESTAMP": ("'infinity'::TIMESTAMP", 1114, "infinity"),
        "UUID": ("'11111111-2222-3333-4444-555555555555'", 2950, "11111111-2222-3333-4444-555555555555"),
        "JSON": ("'null'::JSON", 114, "null"),
        "VARCHAR": ("'text'", 25, "text"),
    }
    names = [f"c{number}" for number in range(len(values))]
    with target.begin() as connection:
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, values, strict=True))
        connection.exec_driver_sql(f"CREATE TABLE t ({columns})")
        connection.exec_driver_sql(f"INSERT INTO t VALUES ({', '.join(sql for sql, _, _ in values.values())})")
        connection.exec_driver_sql("INSERT INTO t (c0) VALUES (NULL)")
        table = target.shapes.reflect(connection, "public", "t")
    (part,) = read(target, table)
    assert part.rows == 2
    for (_, oid, text), column in zip(values.values(), part.columns, strict=True):
        assert sorted(texts_of(oid, column).to_pylist(), key=str) == sorted([None, text], key=str)


def test_an_error_of_the_driver_is_translated(target):
    table = TargetTable(None, "nowhere", (TargetColumn("a", "INTEGER", "INTEGER"),), None)
    with pytest.raises(SubscriberError) as raised:
        read(target, table)
    assert "nowhere" in raised.value.report()


# DuckDB's sequences.


@pytest.mark.parametrize(
    ("position", "following"),
    [
        (SequencePosition(last_value=41, is_called=True), 42),
        (SequencePosition(last_value=41, is_called=False), 41),
    ],
)
def test_a_sequence_goes_on_as_the_publishers(target, position, following):
    """D14"""
    execute(target, 'CREATE SEQUENCE "q ""q"', """CREATE TABLE t (a int DEFAULT nextval('"q ""q"'), b int)""")
    table = reflected(target, "t")
    with target.begin() as connection:
        assert set_sequence(target, connection, table, "a", position)
        assert not set_sequence(target, connection, table, "b", position)
        assert not set_sequence(target, connection, table, "absent", position)
    execute(target, "INSERT INTO t (b) VALUES (1)")
    assert rows(target, "SELECT a FROM t") == [{"a": following}]


def sequence_of(target, column: str) -> TargetSequence | None:
    with target.engine.connect() as connection:
        found: TargetSequence | None = target.sequences.of_column(connection, reflected(target, "t"), column)
    return found


@pytest.mark.parametrize("default", ["nextval('s.q')", 'nextval(\'"s"."q"\')'], ids=["plain", "quoted"])
def test_a_columns_sequence_is_found_by_its_default(target, default):
    execute(
        target,
        "CREATE SCHEMA s",
        "CREATE SEQUENCE s.q INCREMENT -2 MINVALUE -9 MAXVALUE -3 START -3",
        f"CREATE TABLE t (a int DEFAULT {default}, b int DEFAULT 7, c int)",
    )
    unused = sequence_of(target, "a")
    assert unused is not None
    assert unused.position == SequencePosition(last_value=-3, is_called=False, increment=-2)
    assert (unused.least, unused.greatest, unused.table) == (-9, -3, None)
    execute(target, "INSERT INTO t (c) VALUES (1), (2)")
    used = sequence_of(target, "a")
    assert used is not None
    assert used.position == SequencePosition(last_value=-5, is_called=True, increment=-2)


@pytest.mark.parametrize("column", ["b", "c", "absent"])
def test_a_column_without_a_sequence_has_none(target, column):
    execute(target, "CREATE TABLE t (a int, b int DEFAULT 7, c int)")
    assert sequence_of(target, column) is None


def test_sequences_of_other_tables_are_not_restarted(target):
    execute(
        target,
        "CREATE SEQUENCE q",
        "CREATE TABLE t (a int)",
        "CREATE TABLE o (a int DEFAULT nextval('q'), b int)",
    )
    execute(target, "INSERT INTO o (b) VALUES (1)")
    with target.begin() as connection:
        restart_sequences(connection, reflected(target, "t"))
    execute(target, "INSERT INTO o (b) VALUES (2)")
    assert rows(target, "SELECT a FROM o ORDER BY b") == [{"a": 1}, {"a": 2}]
