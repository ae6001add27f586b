"""New tables in SQLite.

The CREATE TABLE statements are tested in tests/unit/targets/test_ddl.py.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.postgres.schema.shape import UniqueKey
from tests.table_shapes import column_shape, table_shape
from tests.unit.targets.tables import rows


@pytest.mark.parametrize(("schema", "name"), [("public", "t"), ("sales", "sales.t")])
def test_a_schema_is_part_of_the_tables_name(target, schema, name):
    """C1"""
    assert target.ddl.qualified(schema, "t") == (None, name)


@pytest.mark.parametrize("key", [False, True], ids=["column", "key"])
def test_the_storage_of_a_declaration_is_its_affinity(target, key):
    declared = target.ddl.column_type(1700, "numeric(10,2)", key=key)
    assert (declared, target.ddl.storage(declared)) == ("NUMERIC_TEXT(10,2)", "TEXT")


@pytest.mark.parametrize("value", ["it's", "a\\b", "", b"\x00'\xff", b"", 7, -0.5])
def test_a_literal_is_read_as_the_value(target, value):
    assert rows(target, f"SELECT {target.ddl.literal(value)} AS v") == [{"v": value}]


@pytest.mark.parametrize("value", ["a\0b", float("nan"), float("inf"), None])
def test_a_value_without_a_literal_has_none(target, value):
    assert target.ddl.literal(value) is None


@pytest.mark.parametrize(
    ("expression", "written"), [("(a + 1)", "(a + 1)"), ("now()", None), ("nextval('s'::regclass)", None)]
)
def test_an_expression_is_kept_if_it_has_the_same_meaning(target, expression, written):
    """refuse_not_guess"""
    assert target.ddl.expression(expression, {"a": 23}) == written


@pytest.mark.parametrize(
    "key", [UniqueKey(("a",)), UniqueKey(("a",), nulls_distinct=False, deferrable=True)], ids=["plain", "deferrable"]
)
def test_only_nulls_not_distinct_is_an_index_of_expressions(target, key):
    assert target.ddl.unique_index(sa.Table("t", sa.MetaData()), key) is None


def test_an_index_of_nulls_that_are_not_distinct_quotes_its_names(target):
    """C22, names_are_data"""
    key = UniqueKey(("a", "b%"), nulls_distinct=False)
    index = target.ddl.unique_index(sa.Table('t"1', sa.MetaData()), key)
    assert str(index.compile(dialect=target.engine.dialect)) == (
        'CREATE UNIQUE INDEX "t""1_a_b%_key" ON "t""1" (a IS NULL, ifnull(a, 0), "b%" IS NULL, ifnull("b%", 0))'
    )


IDENTITY = column_shape("a", 23, "integer", identity="d")


@pytest.mark.parametrize(
    ("key", "declared", "generates"),
    [(("a",), "INT", True), (("a", "b"), "INT", False), ((), "INT", False), (("a",), "NUMERIC_TEXT", False)],
    ids=["whole key", "part of a key", "no key", "no integer"],
)
def test_the_column_that_is_the_whole_key_can_be_autoincrement(target, key, declared, generates):
    shape = table_shape("public", "t", (IDENTITY, column_shape("b", 23, "integer")), key=key)
    found = target.ddl.auto_increment(shape, IDENTITY, declared)
    if generates:
        assert (found.declared, found.is_key, found.before) == ("INTEGER PRIMARY KEY AUTOINCREMENT", True, ())
    else:
        assert found is None
