"""New tables in MariaDB."""

from __future__ import annotations

import pytest

from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.schema.shape import UniqueKey
from subscriber.targets.mariadb.transactions import MariaDBFacts, learn
from tests.table_shapes import column_shape, table_shape

INTEGER = {"a": 23, "b": 23}


@pytest.mark.parametrize(("schema", "name"), [("public", "t"), ("sales", "sales.t")])
def test_a_schema_is_part_of_the_tables_name(mariadb_ddl, schema, name):
    """C1"""
    assert mariadb_ddl.qualified(schema, "t") == (None, name)


@pytest.mark.parametrize(
    ("facts", "collation"),
    [
        (None, "utf8mb4_nopad_bin"),
        (MariaDBFacts(), "utf8mb4_nopad_bin"),
        (MariaDBFacts(exact_collation="utf8mb4_0900_bin"), "utf8mb4_0900_bin"),
        (MariaDBFacts(exact_collation=None), "utf8mb4_bin"),
    ],
    ids=["not connected", "MariaDB", "MySQL", "seekdb"],
)
def test_texts_have_a_collation_that_compares_characters(target, mariadb_ddl, facts, collation):
    if facts is not None:
        learn(target.engine.dialect, facts)
    assert mariadb_ddl.collation == collation
    assert mariadb_ddl.column_type(25, "text") == f"LONGTEXT CHARACTER SET utf8mb4 COLLATE {collation}"


@pytest.mark.parametrize(
    ("declared", "storage"),
    [
        ("BOOLEAN", "tinyint"),
        ("INT", "int"),
        ("DECIMAL(10,2)", "decimal"),
        ("VARCHAR(80) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", "varchar"),
        ("LONGTEXT CHARACTER SET utf8mb4", "longtext"),
    ],
)
def test_the_storage_is_the_type_in_the_servers_catalog(mariadb_ddl, declared, storage):
    assert mariadb_ddl.storage(declared) == storage


@pytest.mark.parametrize(
    ("expression", "written"),
    [
        ("(a + b)", "(`a` + `b`)"),
        ("(a > 5)", "(`a` > 5)"),
        ("(c || d)", "(concat(`c`, `d`))"),
        ("length(c)", "char_length(`c`)"),
        ("nextval('s'::regclass)", None),
    ],
)
def test_an_expression_is_kept_if_it_has_the_same_meaning(mariadb_ddl, expression, written):
    """refuse_not_guess: here || is OR, and length counts bytes."""
    assert mariadb_ddl.expression(expression, INTEGER | {"c": 25, "d": 25}) == written


@pytest.mark.parametrize(
    ("value", "literal"), [(b"\x00\xff", "X'00ff'"), (b"", "X''"), ("it's", "'it''s'"), ("a\\b", None), (1, "1")]
)
def test_a_literal_may_be_bytes(mariadb_ddl, value, literal):
    """A backslash is an escape character."""
    assert mariadb_ddl.literal(value) == literal


def shape(*columns: PublisherColumn, key: tuple[str, ...] = (), unique: tuple[UniqueKey, ...] = ()) -> PublisherTable:
    return table_shape("public", "t", columns, key=key, unique=unique)


IDENTITY = column_shape("a", 23, "integer", identity="d")
SERIAL = column_shape("b", 20, "bigint", serial=True)


@pytest.mark.parametrize(
    ("table", "column", "declared", "incremented"),
    [
        (shape(IDENTITY, key=("a",)), IDENTITY, "INT", True),
        (shape(IDENTITY, unique=(UniqueKey(("a",)),)), IDENTITY, "INT", True),
        (shape(IDENTITY, SERIAL, key=("b", "a")), SERIAL, "BIGINT", True),
        (shape(IDENTITY), IDENTITY, "INT", False),
        (shape(IDENTITY, SERIAL, key=("b", "a")), IDENTITY, "INT", False),
        (shape(IDENTITY, SERIAL, key=("a",), unique=(UniqueKey(("b",)),)), SERIAL, "BIGINT", False),
        (shape(IDENTITY, unique=(UniqueKey(("a",), deferrable=True),)), IDENTITY, "INT", False),
        (shape(IDENTITY, key=("a",)), IDENTITY, "DECIMAL(10,0)", False),
    ],
    ids=[
        "primary key", "unique key", "first of a key", "no key", "second of a key", "second counter", "deferrable",
        "no integer",
    ],
)  # fmt: skip
def test_one_column_with_which_a_key_begins_can_be_auto_increment(mariadb_ddl, table, column, declared, incremented):
    found = mariadb_ddl.auto_increment(table, column, declared)
    assert (None if found is None else found.declared) == (f"{declared} AUTO_INCREMENT" if incremented else None)
    assert found is None or not (found.is_key or found.before)


TEXT_WITH_DEFAULT = column_shape("b", 25, "text", default="'x'::text", constant="x")


@pytest.mark.parametrize(("long_defaults", "declared"), [(True, "LONGTEXT"), (False, "VARCHAR(4095)")])
def test_a_text_with_a_default_is_shorter_where_a_longtext_can_have_none(target, monkeypatch, long_defaults, declared):
    """C7"""
    monkeypatch.setattr(target.engine.dialect, "subscriber_long_defaults", long_defaults, raising=False)
    table = shape(column_shape("a", 23, "integer"), TEXT_WITH_DEFAULT, column_shape("c", 25, "text"), key=("a",))
    declarations = target.ddl.fit(
        table, {one.name: target.ddl.column_type(one.type_oid, one.type_name) for one in table.columns}
    )
    assert [declarations.declared[name].partition(" ")[0] for name in "abc"] == ["INT", declared, "LONGTEXT"]
    assert [one.kind for one in declarations.differences] == ([] if long_defaults else ["default length"])
    assert target.ddl.default("'x'", declarations.declared["b"]) == ("('x')" if long_defaults else "'x'")
    assert target.ddl.default("'x'", "LONGTEXT") == ("('x')" if long_defaults else None)
