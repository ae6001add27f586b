"""New tables in a database of which only SQLAlchemy's dialect is known.

The CREATE TABLE statements of each target are tested in tests/unit/targets/test_ddl.py.
"""

from __future__ import annotations

import math

import pytest
import sqlalchemy as sa

from subscriber.postgres.schema.shape import UniqueKey
from tests.table_shapes import column_shape, table_shape


@pytest.mark.parametrize(("schema", "place"), [("public", (None, "t")), ("sales", ("sales", "t"))])
def test_public_is_the_default_schema(target, schema, place):
    assert target.ddl.qualified(schema, "t") == place


def test_the_storage_is_the_name_of_the_type(target):
    declared = target.ddl.column_type(1700, "numeric(10,2)")
    assert (declared, target.ddl.storage(declared)) == ("NUMERIC(10, 2)", "NUMERIC")


def test_a_text_of_a_key_has_a_length(target):
    assert target.ddl.column_type(25, "text", key=True) == "VARCHAR(255)"


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (True, "1"), (False, "0"), (-7, "-7"), (0.5, "0.5"), ("it's", "'it''s'"), ("", "''"),
        (math.nan, None), (math.inf, None), ("a\\b", None), ("a\0b", None), (b"\0", None), (None, None),
    ],
)  # fmt: skip
def test_a_literal_has_the_same_meaning_in_every_database(target, value, literal):
    """A backslash is an escape character in some databases, and a zero byte ends a statement."""
    assert target.ddl.literal(value) == literal


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        (UniqueKey(("a", "b")), True),
        (UniqueKey(("a",), deferrable=True), False),
        (UniqueKey(("a",), nulls_distinct=False), False),
    ],
    ids=["plain", "deferrable", "nulls not distinct"],
)
def test_only_a_plain_unique_key_is_a_constraint(target, key, kept):
    constraint = target.ddl.unique_constraint(key)
    assert (constraint is not None) is kept
    if constraint is not None:
        table = sa.Table("t", sa.MetaData(), sa.Column("a"), sa.Column("b"), constraint)
        assert [column.name for column in constraint.columns] == ["a", "b"]
        assert constraint.table is table
    assert target.ddl.unique_index(sa.Table("u", sa.MetaData()), key) is None


def test_neither_expressions_nor_identities_are_known(target):
    column = column_shape("a", 23, "integer", identity="d")
    assert target.ddl.expression("(a + 1)", {"a": 23}) is None
    assert target.ddl.auto_increment(table_shape("public", "t", (column,), key=("a",)), column, "INTEGER") is None
