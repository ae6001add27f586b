from __future__ import annotations

from subscriber.targets.query_result import QueryResult
from subscriber.testing.session.psql_table import format_result, format_rows, with_values

INT, TEXT = 23, 25


def test_a_result_is_a_table_of_psql_with_numbers_to_the_right_and_null_empty():
    result = QueryResult(("a", "name"), (INT, TEXT), [("1", "x"), ("100", None)])
    assert format_result(result).splitlines() == ["  a  | name ", "-----+------", "   1 | x", " 100 | ", "(2 rows)"]


def test_a_line_break_in_a_value_and_wide_characters_keep_the_columns_straight():
    result = QueryResult(("a", "b"), (TEXT, INT), [("漢字\nx", "1")])
    assert format_result(result).splitlines() == ["  a   | b ", "------+---", " 漢字+| 1", " x    | ", "(1 row)"]


def test_a_result_without_rows_has_headings():
    assert format_rows(["a"], []).splitlines() == [" a ", "---", "(0 rows)"]


def test_long_values_are_neither_cut_nor_wrapped():
    assert "x" * 500 in format_rows(["a"], [("x" * 500,)])


def test_a_title_is_centred_over_the_table_and_begins_at_its_edge_when_it_is_wider():
    assert format_rows(["abcdefghij"], [], "Tit").splitlines()[:2] == ["    Tit", " abcdefghij "]
    assert format_rows(["a"], [], "A long title").splitlines()[:2] == ["A long title", " a "]


def test_a_column_of_a_printed_table_gets_other_values():
    """The widths, the heading and the title follow."""
    rows: list[list[str | None]] = [["a", "host=h port=1", "t"], ["b", "dbname=other", None]]
    printed = format_rows(["Name", "Conninfo", "Last"], rows, "A title")
    shown = with_values(printed, "Conninfo", {"host=h port=1": "dbname=x"})
    rows[0][1] = "dbname=x"
    assert shown == format_rows(["Name", "Conninfo", "Last"], rows, "A title")
    untitled = format_rows(["Name", "Conninfo", "Last"], rows)
    assert with_values(untitled, "Conninfo", {}) == untitled
