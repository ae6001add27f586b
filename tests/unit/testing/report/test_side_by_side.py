"""Expected and printed lines beside each other."""

from __future__ import annotations

from subscriber.testing.session.session_file import SessionStatement
from subscriber.testing.side_by_side import LineMark, Pair, side_by_side

SIGNS = {
    LineMark.AGREES: " ",
    LineMark.ASIDE: "~",
    LineMark.MISSING: "-",
    LineMark.UNEXPECTED: "+",
    LineMark.CHANGED: "!",
}


def shown(expected: str, printed: str | None, text: str = "SELECT * FROM t;") -> list[tuple[str | None, str | None]]:
    """Both columns; the first character of a line is its mark's."""
    statement = SessionStatement("test_sub", "", 1, text, tuple(expected.split("\n")), 1)
    return [(sign(pair[0]), sign(pair[1])) for pair in side_by_side(statement, printed)]


def sign(line) -> str | None:
    return None if line is None else SIGNS[line.mark] + line.text


def table(*rows: int) -> str:
    return "\n".join([" a", "---", *(f" {row}" for row in rows), f"({len(rows)} rows)"])


def test_lines_that_agree_stand_in_one_row_without_blanks():
    assert shown(" a\n---\n\n 1\n(1 row)", " a \n---\n 1\n(1 row)\n\n") == [
        ("  a", "  a"),
        (" ---", " ---"),
        ("  1", "  1"),
        (" (1 row)", " (1 row)"),
    ]


def test_a_missing_row_is_marked_alone_and_the_rest_stays_beside_each_other():
    assert shown(table(1, 2, 3), table(1, 3))[2:] == [
        ("  1", "  1"),
        ("- 2", None),
        ("  3", "  3"),
        ("!(3 rows)", "!(2 rows)"),
    ]


def test_a_row_is_not_beside_a_footer_nor_a_header_beside_a_separator():
    """What differs pairs with its kind: a last row that is missing is missing, and the footers are
    beside each other.
    """
    assert shown(table(1, 2), table(1))[3:] == [("- 2", None), ("!(2 rows)", "!(1 rows)")]
    wide = "  a\n----\n 10\n(1 row)"
    assert shown(table(1, 2), wide) == [
        ("! a", "!  a"),
        ("!---", "!----"),
        ("! 1", "! 10"),
        ("- 2", None),
        ("!(2 rows)", "!(1 row)"),
    ]
    assert shown("ERROR:  no", table()) == [("-ERROR:  no", None), (None, "+ a"), (None, "+---"), (None, "+(0 rows)")]


def test_an_unexpected_row_is_marked_alone():
    assert shown(table(1, 3), table(1, 2, 3))[2:5] == [("  1", "  1"), (None, "+ 2"), ("  3", "  3")]


def test_rows_without_order_agree_wherever_they_stand_and_each_side_keeps_its_order():
    """Only the bag of rows is compared without ORDER BY."""
    assert shown(table(1, 2, 3), table(3, 1, 2))[2:5] == [("  1", "  3"), ("  2", "  1"), ("  3", "  2")]
    assert shown(table(1, 2, 3), table(3, 9, 1))[2:5] == [("  1", "  3"), ("! 2", "! 9"), ("  3", "  1")]


def test_the_same_rows_in_another_order_are_marked_under_order_by():
    ordered = shown(table(1, 2, 3), table(3, 1, 2), "SELECT * FROM t ORDER BY a;")
    assert ordered[2:6] == [(None, "+ 3"), ("  1", "  1"), ("  2", "  2"), ("- 3", None)]


def test_of_equal_rows_only_as_many_agree_as_both_sides_have():
    lines = [line for pair in shown(table(1, 1, 2), table(2, 1, 2)) for line in pair if line]
    assert sorted(line for line in lines if line[0] != " ") == ["+ 2", "- 1"]


def test_the_changed_part_of_a_line_is_known():
    statement = SessionStatement("test_sub", "", 1, "INSERT INTO t VALUES (1);", ("INSERT 0 12 rows",), 1)
    [(left, right)] = side_by_side(statement, "INSERT 0 102 rows")
    assert left is not None
    assert right is not None
    assert (left.mark, left.text[left.start : left.stop]) == (LineMark.CHANGED, "")
    assert (right.mark, right.text[right.start : right.stop]) == (LineMark.CHANGED, "0")


def test_what_is_not_compared_is_aside_and_stands_beside_its_like():
    assert shown(
        "NOTICE:  one\nERROR:  no\nDETAIL:  this", "ERROR:  no\nDETAIL:  that\nHINT:  then", "DROP TABLE t;"
    ) == [
        ("~NOTICE:  one", None),
        (" ERROR:  no", " ERROR:  no"),
        ("~DETAIL:  this", "~DETAIL:  that"),
        (None, "~HINT:  then"),
    ]


def test_lines_that_differ_pair_with_each_other_and_not_with_what_is_not_compared():
    assert shown("ERROR:  a\nDETAIL:  x", "NOTICE:  n\nERROR:  b", "DROP TABLE t;") == [
        (None, "~NOTICE:  n"),
        ("!ERROR:  a", "!ERROR:  b"),
        ("~DETAIL:  x", None),
    ]


def test_of_a_statement_that_was_not_run_only_the_expected_lines_are_there_and_none_is_marked():
    assert shown("CREATE TABLE", None, "CREATE TABLE t (a int);") == [(" CREATE TABLE", None)]


def test_a_statement_that_prints_nothing_and_should_not_has_no_lines():
    pairs: list[Pair] = side_by_side(SessionStatement("test_sub", "", 1, "SELECT 1;", (), 1), "")
    assert pairs == []
