"""The roles ``shapes`` and ``ddl``: a table that the target declares is found again, with its
columns and keys.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import pytest
import sqlalchemy as sa

from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.shape import UniqueKey
from subscriber.targets import Target, TargetTable, open_target
from subscriber.targets.ddl import add_column, drop_table
from subscriber.targets.statements import rename_column
from tests.targets.tables import OIDS, created, insert, is_unknown, qualified, reflected, run, shape_of, stored

SHAPE = shape_of({"a": "integer", "b.c": "text", "d": "bigint"}, ["b.c", "a"], name='T "1" 100%')


@pytest.fixture
def shape(target: Target) -> PublisherTable:
    """Its name has characters that are doubled in SQL, if the target finds such a table again."""
    return SHAPE if target.capabilities.limits.quotes_in_tables else replace(SHAPE, name="T 1 100%")


def test_a_created_table_is_found_with_its_columns_and_its_key(target, shape):
    table = created(target, shape)
    assert (table.key, table.kind) == (("b.c", "a"), "table")
    assert [(one.name, one.nullable, one.generated, one.required) for one in table.columns] == [
        ("a", False, False, True),
        ("b.c", False, False, True),
        ("d", True, False, False),
    ]


def test_the_declared_storage_is_the_one_that_is_found(target, shape):
    table = created(target, shape)
    declared = target.ddl.column_type(OIDS["bigint"], "bigint")
    assert [one.storage for one in table.columns][2] == target.ddl.storage(declared)


def test_names_compare_exactly(target):
    created(target, shape_of({"a": "integer"}, name="t"))
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, "public", "absent") is None
        assert target.shapes.reflect(connection, "absent", "t") is None


def test_a_table_of_another_schema_is_another_table(target):
    here, there = shape_of({"a": "integer"}), shape_of({"a": "integer"}, schema="s")
    created(target, here)
    created(target, there)
    with target.begin() as connection:
        insert(target, connection, here, ("1",))
        insert(target, connection, there, ("2",))
    assert (stored(target, here), stored(target, there)) == ([("1",)], [("2",)])


def test_a_view_is_no_table(target):
    table, view = shape_of({"a": "integer"}), shape_of({"a": "integer"}, name="v")
    created(target, table)
    run(target, f"CREATE VIEW {qualified(target, view)} AS SELECT a FROM {qualified(target, table)}")
    assert reflected(target, view).kind == "view"


def test_unique_keys_are_known_the_primary_key_first(target):
    shape = replace(shape_of({"a": "integer", "b": "integer", "c": "integer"}, ["a"]), unique=(UniqueKey(("b", "c")),))
    table = created(target, shape)
    with target.begin() as connection:
        indexes = target.shapes.unique_indexes(connection, table)
    assert [set(index.keys) for index in indexes] == [{"a"}, {"b", "c"}]
    assert len({index.name for index in indexes}) == 2


def test_locators_address_exactly_one_row(target):
    """C16: which is how one of several equal rows is changed"""
    shape = shape_of({"a": "integer"})
    table = created(target, shape)
    if not table.locators:
        pytest.skip("it has none")
    with target.begin() as connection:
        insert(target, connection, shape, ("1",), ("1",), ("1",))
        clause = table.clause()
        here = [clause.c[name] for name in table.locators]
        first = connection.execute(sa.select(*here)).first()
        values = [sa.bindparam(None, value, type_=sa.types.NullType(), unique=True) for value in first]
        conditions = (column == value for column, value in zip(here, values, strict=True))
        assert connection.execute(sa.delete(clause).where(*conditions)).rowcount == 1
    assert stored(target, shape) == [("1",), ("1",)]


def test_a_column_is_added_and_renamed(target):
    shape = shape_of({"a": "integer"}, ["a"])
    table = created(target, shape)
    with target.begin() as connection:
        insert(target, connection, shape, ("1",))
    with target.begin() as connection:
        connection.execute(add_column(target, table, "b", OIDS["text"], "text"))
    with target.begin() as connection:
        connection.execute(rename_column(table, "b", "c"))
    assert [(one.name, one.nullable) for one in reflected(target, shape).columns] == [("a", False), ("c", True)]
    assert stored(target, shape_of({"a": "integer", "c": "text"}, ["a"])) == [("1", None)]


def test_a_dropped_table_is_gone(target, shape):
    created(target, shape)
    with target.begin() as connection:
        connection.execute(drop_table(target, shape.schema, shape.name))
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, shape.schema, shape.name) is None


_NEW_VERSIONS: Final = (
    "ALTER TABLE {t} ADD COLUMN c INTEGER",
    "CREATE INDEX i ON {t} (b)",
    "DROP INDEX {i}",
    "CREATE UNIQUE INDEX i ON {t} (b)",
    "DROP INDEX {i}",
    "ALTER TABLE {t} RENAME COLUMN b TO d",
)
_VERSIONS_OF: Final = {
    "postgresql": (
        "ALTER TABLE {t} ALTER COLUMN a TYPE bigint",
        "ALTER TABLE {t} ALTER COLUMN d SET DEFAULT 1",
        "ALTER TABLE {t} ALTER COLUMN d SET NOT NULL",
        "ALTER TABLE {t} ADD CHECK (a > 0)",
        "CREATE TABLE u (a int REFERENCES {t})",
        "CREATE RULE r AS ON DELETE TO {t} DO INSTEAD NOTHING",
        "ALTER TABLE {t} DISABLE RULE r",
        "DROP RULE r ON {t}",
        "CREATE TRIGGER g BEFORE UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE TRIGGER h BEFORE DELETE ON {t} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "ALTER TABLE {t} ENABLE ALWAYS TRIGGER h",
        "ALTER TABLE {t} REPLICA IDENTITY FULL",
        "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE {t} DROP CONSTRAINT t_pkey CASCADE",
        "CREATE PUBLICATION p",
    ),
    "duckdb": (
        "ALTER TABLE {t} ALTER d SET DEFAULT 1",
        "ALTER TABLE {t} ALTER d SET NOT NULL",
        "ALTER TABLE {t} ALTER c TYPE bigint",
        "CREATE TABLE u (a INTEGER REFERENCES {t} (a))",
        "DROP TABLE u",
    ),
    "sqlite": ("CREATE TRIGGER g BEFORE UPDATE ON t BEGIN SELECT 1; END", "DROP TRIGGER g"),
}


def test_a_version_shows_that_a_table_has_changed(target):
    """If a target shows versions: what is cached is not used after a change."""
    shape = shape_of({"a": "integer", "b": "integer"}, ["a"])
    created(target, shape)

    def version():
        place = (shape.schema, shape.name)
        with target.begin() as connection:
            return target.shapes.versions(connection, [place]).get(place)

    before = version()
    if before is None:
        pytest.skip("it shows none")
    with target.begin() as connection:
        insert(target, connection, shape, ("1", "2"))
    assert version() == before
    for statement in (*_NEW_VERSIONS, *_VERSIONS_OF.get(target.engine.dialect.name, ())):
        index = "public.i" if target.capabilities.postgresql_text else "i"
        run(target, statement.format(t=qualified(target, shape), i=index))
        assert version() != before, statement
        before = version()


def order_matters(target: Target, table: TargetTable) -> bool:
    with target.begin() as connection:
        return target.shapes.order_matters(connection, table)


def test_the_order_of_rows_does_not_matter_for_a_plain_table(target):
    """fast_equals_exact: unless nothing is known of the target."""
    table = created(target, shape_of({"a": "integer", "b": "text"}, ["a"]))
    assert order_matters(target, table) is (is_unknown(target) or target.url.drivername == "example")


def test_the_order_of_rows_matters_for_a_second_unique_key(target):
    shape = replace(shape_of({"a": "integer", "b": "integer"}, ["a"]), unique=(UniqueKey(("b",)),))
    assert order_matters(target, created(target, shape))


def test_the_order_of_rows_matters_for_a_unique_index_without_a_key(target):
    shape = shape_of({"a": "integer", "b": "integer"})
    created(target, shape)
    run(target, f"CREATE UNIQUE INDEX u ON {qualified(target, shape)} (b)")
    assert order_matters(target, reflected(target, shape))


_TRIGGERS: Final = {
    "sqlite": ("CREATE TRIGGER w AFTER INSERT ON t BEGIN DELETE FROM t; END",),
    "mysql": ("CREATE TRIGGER w AFTER INSERT ON t FOR EACH ROW SET @seen = 1",),
    "postgresql": (
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE TRIGGER w AFTER INSERT ON t EXECUTE FUNCTION f()",
        "ALTER TABLE t ENABLE REPLICA TRIGGER w",
    ),
}


def test_the_order_of_rows_matters_for_a_table_with_a_trigger(target):
    shape = shape_of({"a": "integer"}, ["a"])
    created(target, shape)
    statements = _TRIGGERS.get(target.engine.dialect.name)
    if statements is None:
        pytest.skip("it has no triggers")
    for statement in statements:
        run(target, statement)
    assert order_matters(target, reflected(target, shape))


def test_the_order_of_rows_matters_where_a_foreign_key_is_enforced(target):
    """DuckDB always enforces them; the others do not enforce those of replicated changes."""
    if target.engine.dialect.name != "duckdb":
        pytest.skip("it does not enforce them for replicated changes")
    shape, other = shape_of({"a": "integer"}, ["a"]), shape_of({"a": "integer"}, ["a"], name="other")
    created(target, shape)
    run(target, f"CREATE TABLE other (a integer PRIMARY KEY REFERENCES {qualified(target, shape)} (a))")
    assert order_matters(target, reflected(target, shape))
    assert order_matters(target, reflected(target, other))


def refuses_rows(target: Target, shape: PublisherTable) -> bool:
    table = reflected(target, shape)
    with target.begin() as connection:
        return target.shapes.refuses_rows(connection, table)


_FOLDED: Final = ("sqlite", "duckdb", "postgresql", "mysql", "mariadb")
"""The dialects of which it is known when they refuse a row."""
_WIDE: Final = shape_of({"a": "integer", "b": "text", "n": "integer"}, ["a"])


def test_a_plain_table_refuses_no_row(target):
    """fast_equals_exact: unless it is not known what the target refuses."""
    created(target, _WIDE)
    known = target.engine.dialect.name in _FOLDED and not is_unknown(target) and target.url.drivername != "example"
    assert refuses_rows(target, _WIDE) is not known


@pytest.mark.parametrize(
    "columns",
    ["b TEXT CHECK (b <> 'x')", "b TEXT, CHECK (a > 0)", "b INTEGER, c INTEGER GENERATED ALWAYS AS (a + b)"],
    ids=["column", "table", "generated"],
)
def test_a_table_that_computes_may_refuse_a_row(target, columns):
    if "GENERATED" in columns and "turso" in target.url.drivername:
        pytest.skip("it has no generated columns")
    if target.engine.dialect.name == "postgresql":
        columns = columns.replace("(a + b)", "(a + b) STORED")
    if is_unknown(target):
        columns = columns.replace("TEXT", target.ddl.column_type(OIDS["text"], "text"))
    run(target, f"CREATE TABLE {qualified(target, _WIDE)} (a INTEGER NOT NULL PRIMARY KEY, {columns})")
    assert refuses_rows(target, _WIDE)


@pytest.mark.parametrize("index", ["((a / n))", "(n) WHERE a / n > 1", "(b)"])
def test_an_index_may_refuse_a_row(target, index):
    """An expression may raise an error, and the length of keys is limited; not so in SQLite."""
    name = target.engine.dialect.name
    if name not in ("sqlite", "postgresql", "duckdb") or ("WHERE" in index and name == "duckdb"):
        pytest.skip("it has no such indexes")
    created(target, _WIDE)
    run(target, f"CREATE INDEX i ON {qualified(target, _WIDE)} {index}")
    assert refuses_rows(target, _WIDE) or (name == "sqlite" and index == "(b)")


_ALTERATIONS: Final = (
    "CREATE PUBLICATION p",
    "ALTER TABLE t ALTER b SET STORAGE plain",
    "ALTER TABLE t ADD CONSTRAINT c EXCLUDE USING hash (b WITH =)",
    f"ALTER TABLE t {', '.join(f'ADD n{number} name' for number in range(110))}",
)


@pytest.mark.parametrize("statement", _ALTERATIONS, ids=["publication", "storage", "exclusion", "long row"])
def test_what_else_may_refuse_a_row_in_postgresql(target, statement):
    if target.engine.dialect.name != "postgresql":
        pytest.skip("only PostgreSQL has it")
    created(target, _WIDE)
    run(target, statement)
    assert refuses_rows(target, _WIDE)


_OPTIONS: Final = (
    "ENGINE = Aria",
    "ROW_FORMAT = COMPACT",
    "PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (10))",
    f"ADD (v2 TEXT, {', '.join(f'n{number} TEXT' for number in range(64))})",
    "ADD CHECK (n > 0)",
    "MODIFY b JSON",
)


@pytest.mark.parametrize("option", _OPTIONS, ids=["engine", "format", "partitions", "columns", "check", "json"])
def test_what_else_may_refuse_a_row_in_mariadb(target, option):
    dialect = target.engine.dialect
    if dialect.name not in ("mysql", "mariadb") or (not dialect.is_mariadb and re.search("ENGINE|JSON", option)):
        pytest.skip("only MariaDB has it")
    created(target, _WIDE)
    run(target, f"ALTER TABLE t {option}")
    assert refuses_rows(target, _WIDE)


def test_a_table_that_the_user_may_not_write_refuses_rows(target):
    if target.capabilities.database not in ("MariaDB", "OceanBase seekdb"):
        pytest.skip("the others are tested with their roles")
    created(target, _WIDE)
    for statement in (
        "CREATE USER IF NOT EXISTS reader IDENTIFIED BY 'p'",
        f"GRANT SELECT, INSERT, UPDATE ON {target.url.database}.t TO reader",
    ):
        run(target, statement)
    try:
        with open_target(
            target.url.set(username="reader", password="p").render_as_string(hide_password=False)
        ) as other:
            assert refuses_rows(other, _WIDE)
            run(target, f"GRANT DELETE ON {target.url.database}.t TO reader")
            assert not refuses_rows(other, _WIDE)
    finally:
        run(target, "DROP USER reader")


@pytest.mark.parametrize("index", ["(n)", "USING brin (n)"])
def test_an_index_of_short_values_refuses_no_row(target, index):
    if target.engine.dialect.name != "postgresql":
        pytest.skip("only PostgreSQL has such types of indexes")
    created(target, _WIDE)
    run(target, f"CREATE INDEX i ON {qualified(target, _WIDE)} {index}")
    assert not refuses_rows(target, _WIDE)


def test_a_strict_table_may_refuse_a_row(target):
    if target.engine.dialect.name != "sqlite":
        pytest.skip("only SQLite has them")
    run(target, f"CREATE TABLE {qualified(target, _WIDE)} (a INTEGER PRIMARY KEY, b INTEGER) STRICT")
    assert refuses_rows(target, _WIDE)


@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        ("integer", "integer", True),
        ("bigint", "bigint", True),
        ("text", "text", True),
        ("uuid", "uuid", True),
        ("text", "integer", False),
        ("text", "date", False),
    ],
)
def test_a_column_of_the_same_type_tells_all_values_apart(target, kind, column, expected):
    """fast_equals_exact: a column of another type may store 1 and 01 as the same value."""
    table = created(target, shape_of({"a": column}, ["a"]))
    if target.capabilities.database in ("SQLite", "Turso") and column == "date":
        pytest.skip("it stores dates as texts")
    found = target.matching.tells_apart(OIDS[kind], table.columns[0])
    assert found is (expected and not order_matters(target, table))  # which is true of unknown targets
