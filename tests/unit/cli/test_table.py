from __future__ import annotations

from subscriber.cli.table import format_rows


def test_headings_are_centred_numbers_stand_right_and_null_is_empty():
    text = format_rows(["a", "name"], [(1, "x"), (100, None)])
    assert text == "  a  | name\n-----+------\n   1 | x\n 100 |\n(2 rows)"


def test_one_row_is_a_row():
    assert format_rows(["a"], [(1,)]).endswith("(1 row)")


def test_no_rows_still_have_headings():
    assert format_rows(["a"], []).splitlines() == [" a", "---", "(0 rows)"]


def test_long_values_are_neither_cut_nor_wrapped():
    assert "x" * 500 in format_rows(["a"], [("x" * 500,)])
