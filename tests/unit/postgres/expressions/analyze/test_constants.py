"""Constants, read and printed as the functions of their types do."""

from __future__ import annotations

import pytest

from subscriber.base.errors import DataException, RowFilterError, UsageError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.typeinfo import bits_of, checked_constant, output_text, shown_constant

INT4, DATE, INTERVAL, BOOL, POINT, NUMERIC = 23, 1082, 1186, 16, 600, 1700
YEAR_TO_MONTH = (1 << 2 | 1 << 1) << 16 | 0xFFFF


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (tree.Const(INT4, 0, " 07 "), "7"),
        (tree.Const(BOOL, 0, "yes"), "t"),
        (tree.Const(DATE, 0, "Feb 29, 2024"), "2024-02-29"),
        (tree.Const(NUMERIC, 0, "1e2"), "100"),
        (tree.Const(INTERVAL, 0, "1 year 2 mons 3 days", YEAR_TO_MONTH), "1 year 2 mons"),
        (tree.Const(POINT, 0, " (1,2) "), " (1,2) "),
    ],
)
def test_a_constant_is_printed_by_its_type_or_as_it_was_written(node, text):
    checked_constant(node, 18)
    assert output_text(node) == text


def test_null_is_a_constant_of_every_type():
    checked_constant(tree.Const(INT4, 0, None), 18)


@pytest.mark.parametrize(
    ("type_oid", "text", "sqlstate", "message"),
    [
        (INT4, "x", "22P02", 'invalid input syntax for type integer: "x"'),
        (INT4, "2147483648", "22003", 'value "2147483648" is out of range for type integer'),
        (NUMERIC, "1,5", "22P02", 'invalid input syntax for type numeric: "1,5"'),
    ],
)
def test_the_error_quotes_the_constant(type_oid, text, sqlstate, message):
    """Its reader has written it."""
    node = tree.Const(type_oid, 0, text)
    for read in (lambda constant: checked_constant(constant, 18), output_text):
        with pytest.raises(RowFilterError) as caught:
            read(node)
        assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)


def test_the_error_keeps_detail_and_hint():
    with pytest.raises(RowFilterError) as caught, shown_constant():
        raise DataException("wrong", sqlstate="22023", detail="d", hint="h")
    assert (caught.value.message, caught.value.sqlstate) == ("wrong", "22023")
    assert (caught.value.detail, caught.value.hint) == ("d", "h")


def test_bits_are_written_in_base_two_or_sixteen():
    assert bits_of("b0101") == "0101"
    assert bits_of("xA5") == "10100101"
    assert bits_of("b") == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [("b012", '"2" is not a valid binary digit'), ("x0g", '"g" is not a valid hexadecimal digit')],
)
def test_a_digit_that_is_none_is_an_error(text, message):
    with pytest.raises(UsageError) as caught:
        bits_of(text)
    assert (caught.value.sqlstate, caught.value.message) == ("22P02", message)
