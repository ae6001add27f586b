"""Rows as texts. tests/conformance/test_bulk_postgresql.py has a server read them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.targets.postgresql.row_texts import copy_data, row_array


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, r"\N"),
        ("", ""),
        ("x", "x"),
        (r"\N", r"\\N"),
        (r"\.", r"\\."),
        ("a\tb\nc\rd", r"a\tb\nc\rd"),
        ("\\\t", r"\\\t"),
        ('é "', 'é "'),
    ],
)
def test_a_value_of_copy_is_escaped(value, written):
    """absence_is_typed; https://www.postgresql.org/docs/current/sql-copy.html"""
    assert copy_data([texts("1", "2"), texts("other", value)]) == f"1\tother\n2\t{written}\n".encode()
    assert copy_data([texts(value)]) == f"{written}\n".encode()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, ""),
        ("", r"\"\""),
        ("x", "x"),
        (" x ", " x "),
        ("a,b", r"\"a,b\""),
        ("(", r"\"(\""),
        (")", r"\")\""),
        ('"', r"\"\\\"\""),
        ("\\", r"\"\\\\\""),
        ("NULL", "NULL"),
        ("{}", "{}"),
    ],
)
def test_a_value_of_a_row_is_quoted_if_it_must_be(value, written):
    """absence_is_typed; https://www.postgresql.org/docs/current/rowtypes.html"""
    assert row_array([texts("1"), texts(value), None]) == f'{{"(1,{written},)"}}'


def test_all_values_of_a_column_are_quoted_if_one_must_be_but_null_is_not():
    assert row_array([texts("a", None, ","), None]) == r'{"(\"a\",)","(,)","(\",\",)"}'
    assert row_array([texts("1", "2")]) == '{"(1)","(2)"}'
