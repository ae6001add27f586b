"""Values in binary form. tests/conformance/test_binary_forms.py asks the servers."""

from __future__ import annotations

import pytest

from subscriber.targets.postgresql.binary_columns import refused_binary
from subscriber.targets.postgresql.catalog import PostgreSQLColumn


def column(declared: str, form: int | None) -> PostgreSQLColumn:
    return PostgreSQLColumn("c", declared, declared, binary_form=form)


@pytest.mark.parametrize(
    ("type_oid", "declared", "form"),
    [
        (23, "integer", 23),
        (25, "character varying", 1043),
        (25, "mood", 25),
        (1184, "timestamp without time zone", 1114),
        (23, "bigint", None),
        (99_999, "integer", 23),
    ],
    ids=["the same type", "another text", "an enum", "a moment", "unknown", "sent as text"],
)
def test_a_column_that_reads_the_form_accepts_the_value(type_oid, declared, form):
    """C5, D7"""
    assert refused_binary(type_oid, column(declared, form), 1) is None


@pytest.mark.parametrize(
    ("type_oid", "declared", "form", "sqlstate"),
    [(23, "bigint", 20, "08P01"), (20, "integer", 23, "22P03"), (23, "thing", 0, "42883"), (1007, "bigint[]", 1016, "42804")],
    ids=["too few bytes", "too many bytes", "no receive function", "another element"],
)  # fmt: skip
def test_a_column_that_does_not_read_the_form_has_postgresqls_error(type_oid, declared, form, sqlstate):
    """C5, D7"""
    error = refused_binary(type_oid, column(declared, form), 2)
    assert error is not None
    assert (error.sqlstate, error.column) == (sqlstate, "c")
    assert f"of type {declared} does not read" in str(error.detail)
    assert "binary = false" in str(error.hint)
