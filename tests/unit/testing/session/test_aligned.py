"""scenario.aligned: psql's tables. The proof against psql itself is in
tests/conformance/test_psql.py.
"""

from __future__ import annotations

import pytest

from subscriber.testing.session.aligned import PrintedColumn, aligned_table, display_width, displayed_lines

INT, TEXT, NUMERIC = 23, 25, 1700


def test_headers_are_centred_numbers_go_to_the_right_and_null_prints_nothing():
    columns = [PrintedColumn("a", INT), PrintedColumn("b", TEXT), PrintedColumn("numeric", NUMERIC)]
    rows: list[list[str | None]] = [["1", "left", "1.50"], ["22222", None, None]]
    assert aligned_table(columns, rows).splitlines() == [
        "   a   |  b   | numeric ",
        "-------+------+---------",
        "     1 | left |    1.50",
        " 22222 |      |        ",
        "(2 rows)",
    ]


def test_a_newline_in_a_value_or_a_name_is_marked_and_goes_on_below():
    columns = [PrintedColumn("two\nlines", TEXT), PrintedColumn("n", INT)]
    assert aligned_table(columns, [["a\n\nlong line", "1"]]).splitlines() == [
        "    two   +| n ",
        "   lines   |   ",
        "-----------+---",
        " a        +| 1",
        "          +| ",
        " long line | ",
        "(1 row)",
    ]


def test_the_last_column_is_padded_only_where_a_mark_follows():
    assert aligned_table([PrintedColumn("t", TEXT)], [["a"], ["b\nlonger"]]).splitlines()[2:5] == [
        " a",
        " b     +",
        " longer",
    ]


def test_a_query_without_columns_has_a_separator_and_a_footer():
    assert aligned_table([], [[], []]) == "--\n(2 rows)\n"


def test_no_rows_are_counted_too():
    assert aligned_table([PrintedColumn("a", INT)], []) == " a \n---\n(0 rows)\n"


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("é", 1), ("e\u0301", 1), ("漢字", 4), ("😀", 2), ("का", 2), ("\u00ad", 0), ("\u0378", 1)],
    ids=["ASCII", "composed", "combining", "wide", "emoji", "spacing vowel", "soft hyphen", "unassigned"],
)
def test_width_is_that_of_psqls_tables(text, width):
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ("", [""]),
        ("a\n", ["a", ""]),
        ("a\tb\t", ["a       b       "]),
        ("漢\tb", ["漢      b"]),
        ("\x00\x1f\x7f", [r"\x00\x1F\x7F"]),
        ("\r\n", [r"\r", ""]),
        ("\x85\x9f", [r"\u0085\u009F"]),
        ("a\u2028b", ["a\u2028b"]),
    ],
)
def test_what_cannot_be_seen_is_made_visible(value, lines):
    assert displayed_lines(value) == lines
