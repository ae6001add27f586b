"""New tables in DuckDB."""

from __future__ import annotations

import math

import pytest

from subscriber.targets.ddl import create_table
from tests.table_shapes import column_shape, table_shape
from tests.unit.targets.tables import execute, rows


@pytest.mark.parametrize(("schema", "place"), [("public", (None, "t")), ("sales", ("sales", "t"))])
def test_public_is_the_default_schema(target, schema, place):
    """C1"""
    assert target.ddl.qualified(schema, "t") == place


@pytest.mark.parametrize(
    ("oid", "name", "declared", "storage"),
    [
        (1700, "numeric(10,2)", "DECIMAL(10,2)", "DECIMAL"),
        (1700, "numeric(39,2)", "VARCHAR", "VARCHAR"),
        (1184, "timestamp with time zone", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE"),
        (3802, "jsonb", "VARCHAR", "VARCHAR"),
    ],
)
@pytest.mark.parametrize("key", [False, True], ids=["column", "key"])
def test_a_type_is_declared_so_that_it_is_stored_exactly(target, oid, name, declared, storage, key):
    assert target.ddl.column_type(oid, name, key=key) == declared
    assert target.ddl.storage(declared) == storage


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("it's", "'it''s'"), ("a\\b", "'a\\b'"), (b"\x00'", "from_hex('0027')"), (True, "1"), (0.5, "0.5"),
        ("a\0b", None), (math.inf, None),
    ],
)  # fmt: skip
def test_a_literal_is_what_replication_would_store(target, value, literal):
    assert target.ddl.literal(value) == literal


def test_a_literal_is_read_as_the_value(target):
    for value in ("it's", "a\\b", b"\x00'\xff"):
        assert rows(target, f"SELECT {target.ddl.literal(value)} AS v") == [{"v": value}]


@pytest.mark.parametrize(
    ("expression", "written"), [("(a + 1)", '("a" + 1)'), ("now()", None), ("nextval('s'::regclass)", None)]
)
def test_an_expression_is_kept_if_it_has_the_same_meaning(target, expression, written):
    """refuse_not_guess"""
    assert target.ddl.expression(expression, {"a": 23}) == written


def test_an_identity_column_has_a_sequence_that_begins_again_with_its_table(target):
    columns = (column_shape("a", 23, "integer", nullable=False, identity="d"), column_shape("b%", 23, "integer"))
    shape = table_shape("public", "t'\"%", columns, key=("a",))
    for _ in range(2):
        with target.begin() as connection:
            create_table(target, shape, identity=True).create(connection)
        execute(target, """INSERT INTO "t'""%" ("b%") VALUES (7), (8)""")
        assert rows(target, """SELECT * FROM "t'""%" ORDER BY a""") == [{"a": 1, "b%": 7}, {"a": 2, "b%": 8}]
        execute(target, """DROP TABLE "t'""%" """)
