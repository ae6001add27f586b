"""The schema of a qualified name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.expressions.analyze.typeinfo import Schemas
from tests.films import TABLES

SCHEMAS = Schemas(replace(TABLES, schemas=frozenset({"public", "cinema"})))


@pytest.mark.parametrize("schema", ["public", "cinema", "pg_catalog", "information_schema"])
def test_the_schema_is_written_before_the_name(schema):
    assert SCHEMAS.of((schema, "length")) == schema
    assert SCHEMAS.of(("films", schema, "length")) == schema


def test_a_name_without_a_schema_has_none():
    assert SCHEMAS.of(("length",)) is None


def test_a_schema_that_does_not_exist_is_an_error():
    with pytest.raises(UsageError) as caught:
        SCHEMAS.of(("nope", "length"))
    assert (caught.value.sqlstate, caught.value.message) == ("3F000", 'schema "nope" does not exist')
