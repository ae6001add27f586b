"""Column types for a database of which only SQLAlchemy's dialect is known; here MySQL's dialect."""

from __future__ import annotations

import pytest
from sqlalchemy.dialects import mysql

from subscriber.targets.generic.types import generic_type


def compiled(type_oid: int, type_name: str, *, key: bool = False) -> str:
    return generic_type(type_oid, type_name, key=key).compile(dialect=mysql.dialect())


@pytest.mark.parametrize(
    ("oid", "name", "declared"),
    [
        (17, "bytea", "BLOB"), (23, "integer", "INTEGER"), (1700, "numeric(10,2)", "NUMERIC(10, 2)"), (1700, "numeric(38,38)", "NUMERIC(38, 38)"),
        (1700, "numeric(39,2)", "TEXT"), (1700, "numeric(2,3)", "TEXT"), (1043, "character varying(20)", "VARCHAR(20)"), (25, "text", "TEXT"),
        (16, "boolean", "BOOL"), (21, "smallint", "SMALLINT"), (20, "bigint", "BIGINT"), (26, "oid", "BIGINT"),
        (700, "real", "DOUBLE"), (701, "double precision", "DOUBLE"), (1082, "date", "DATE"),
        (1700, "numeric", "TEXT"), (1700, "numeric(50,2)", "TEXT"), (1700, "numeric(2,-3)", "TEXT"),
        (1114, "timestamp without time zone", "TEXT"), (1043, "character varying", "TEXT"),
        (1042, "character(5)", "TEXT"), (3802, "jsonb", "TEXT"), (1007, "integer[]", "TEXT"), (99_999, "x", "TEXT"),
    ],
)  # fmt: skip
def test_a_type_holds_every_value_exactly_or_refuses_it(oid, name, declared):
    assert compiled(oid, name) == declared


@pytest.mark.parametrize(
    ("oid", "name", "declared"),
    [
        (25, "text", "VARCHAR(255)"),
        (1114, "timestamp without time zone", "VARCHAR(255)"),
        (1043, "character varying(20)", "VARCHAR(20)"),
        (23, "integer", "INTEGER"),
        (17, "bytea", "BLOB"),
    ],
)
def test_a_text_of_a_key_has_a_length(oid, name, declared):
    assert compiled(oid, name, key=True) == declared
