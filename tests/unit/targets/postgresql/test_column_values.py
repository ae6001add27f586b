"""Values for PostgreSQL's columns: the text that the column's input function reads."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from subscriber.errors import UnsupportedValue
from subscriber.targets import TargetColumn
from subscriber.targets.postgresql.catalog import PostgreSQLColumn
from subscriber.targets.postgresql.column_values import PostgreSQLValues, as_postgresql_text

VALUES = PostgreSQLValues()
COLUMN = PostgreSQLColumn("c", "text", "text")


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([True, False, None]), ["t", "f", None]),
        (pa.array([b"\0\xff", b"", None]), ["\\x00ff", "\\x", None]),
        (pa.array([-(2**63), None]), ["-9223372036854775808", None]),
        (pa.array([0.1, 5e-324, None]), ["0.1", "5e-324", None]),
        (pa.array([0.1, None], pa.float32()), ["0.1", None]),
        (pa.array(["1.50", "", "NULL", None]), ["1.50", "", "NULL", None]),
        (pa.array([], pa.int32()), []),
    ],
    ids=["boolean", "bytea", "bigint", "double precision", "real", "text", "empty"],
)
def test_a_value_is_bound_as_postgresqls_text(values, texts):
    """C5, absence_is_typed"""
    assert as_postgresql_text(values).to_pylist() == texts
    assert VALUES.bind_values(25, COLUMN, values) == texts


def test_floats_that_are_not_finite_are_texts_that_the_input_function_reads():
    """The input function ignores case."""
    texts = as_postgresql_text(pa.array([math.nan, math.inf, -math.inf])).to_pylist()
    assert [text.lower() for text in texts] == ["nan", "inf", "-inf"]


@pytest.mark.parametrize("storage", ["character varying", "character"])
def test_a_text_that_is_too_long_names_its_column(storage):
    """The server's error would not name it. Blanks at the end do not count."""
    column = PostgreSQLColumn("c", f"{storage}(3)", storage)
    assert VALUES.bind_values(25, column, pa.array(["one  ", "éèê", None])) == ["one  ", "éèê", None]
    with pytest.raises(UnsupportedValue) as raised:
        VALUES.bind_values(25, column, pa.array(["four"]))
    assert (raised.value.sqlstate, raised.value.column) == ("22001", "c")
    assert raised.value.message == f"value too long for type {storage}(3)"


def test_every_column_is_accepted():
    """C5: its input function decides."""
    VALUES.check_column(25, PostgreSQLColumn("c", "integer", "integer"))


@pytest.mark.parametrize("declared", ["numeric(4,2)", "numeric(2,5)", "numeric(38,0)"])
def test_nan_fits_every_numeric_and_an_infinity_fits_none_that_has_a_precision(declared):
    column = PostgreSQLColumn("c", declared, "numeric")
    mask = VALUES.unrepresentable_values(1700, column, pa.array(["NaN", "Infinity", "0", None]))
    assert mask.to_pylist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("column", "is_refused"),
    [
        (PostgreSQLColumn("c", "integer", "integer", binary_form=23), True),
        (PostgreSQLColumn("c", "bigint", "bigint", binary_form=20), False),
        (TargetColumn("c", "integer", "integer"), False),
    ],
)
def test_a_value_in_binary_form_needs_a_column_that_reads_it(column, is_refused):
    """C5, D7"""
    assert (VALUES.refused_binary(20, column, 1) is not None) is is_refused
