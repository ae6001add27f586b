"""scenario.expect: what must be equal for a session to pass, and what need not."""

from __future__ import annotations

from textwrap import dedent

import pytest

from subscriber.testing.session.expect import Mismatch, compare_output

ROWS = " a | b\n---+---\n 1 | x\n 2 | y\n(2 rows)\n"
SHUFFLED = " a | b\n---+---\n 2 | y\n 1 | x\n(2 rows)\n"


def same(text: str, expected: str, printed: str) -> bool:
    """Whether they compare equal, in both directions, since the rules are those of both sides."""
    there = compare_output(text, expected.split("\n"), printed)
    back = compare_output(text, printed.split("\n"), expected)
    assert (there is None) == (back is None)
    return there is None


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("CREATE TABLE", "CREATE TABLE"),
        ("CREATE TABLE", "\nCREATE TABLE  \n\n"),
        (ROWS, ROWS.replace("\n", "  \n").replace("(2 rows)", "\n(2 rows)\n")),
        (ROWS, "-- a comment\n" + ROWS + "--\n"),
        ("", ""),
    ],
)
def test_blank_lines_trailing_blanks_and_comments_do_not_matter(expected, printed):
    assert same("SELECT a, b FROM t;", expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("CREATE TABLE", ""),
        ("", "CREATE TABLE"),
        ("CREATE TABLE", "CREATE VIEW"),
        ("INSERT 0 1", "INSERT 0 2"),
        ("ERROR:  no", "ERROR:  yes"),
        ("ERROR:  no", "FATAL:  no"),
        ("ERROR:  no\nmore", "ERROR:  no"),
        ("ERROR:  no", "CREATE TABLE"),
        (" a\n---\n(0 rows)", "  a\n-----\n(0 rows)"),
        (ROWS, ROWS.replace("| x", "|  x")),
        (ROWS, ROWS.replace(" a |", " c |")),
        (ROWS, ROWS.replace("(2 rows)", "(1 row)")),
        (ROWS, ROWS.replace(" 2 | y\n", "")),
        (ROWS, ROWS.replace(" 2 | y\n", " 2 | y\n 2 | y\n")),
        (ROWS, ROWS.replace(" 2 | y\n", " 1 | x\n")),
        (ROWS, ROWS + "INSERT 0 2"),
        (ROWS, ROWS.replace("(2 rows)\n", "")),
    ],
)
def test_everything_else_matters(expected, printed):
    assert not same("SELECT a, b FROM t;", expected, printed)


@pytest.mark.parametrize(
    "label", ["NOTICE", "WARNING", "INFO", "LOG", "DEBUG", "DETAIL", "HINT", "CONTEXT", "QUERY", "LOCATION"]
)
def test_messages_beside_the_outcome_are_not_compared(label):
    assert same("DROP TABLE IF EXISTS t;", "DROP TABLE", f"{label}:  something\nDROP TABLE")
    assert same("DROP TABLE t;", "ERROR:  no", f"ERROR:  no\n{label}:  something else")


def test_the_line_of_a_syntax_error_and_its_caret_are_not_compared():
    printed = 'ERROR:  syntax error at or near "SELEC"\nLINE 1: SELEC 1;\n        ^\n'
    assert same("SELEC 1;", 'ERROR:  syntax error at or near "SELEC"', printed)


def test_a_caret_elsewhere_is_compared():
    assert not same("SELECT 1;", "ERROR:  no", "ERROR:  no\n   ^\n")


def test_a_message_goes_on_until_something_that_cannot_be_part_of_it():
    printed = 'CONTEXT:  SQL statement "INSERT\nINTO t"\nPL/pgSQL function f() line 3 at SQL statement\n'
    assert same("SELECT f();", "ERROR:  no", f"ERROR:  no\n{printed}")
    assert same("SELECT f();", ROWS, f"NOTICE:  a\nb\n{ROWS}")
    assert same("CALL f();", "CALL", "NOTICE:  a\nb\nCALL")
    assert not same("SELECT f();", "ERROR:  no", f"ERROR:  no\n{printed}ERROR:  more")
    assert not same("SELECT f();", "", f"{printed}{ROWS}")


def test_the_second_line_of_an_error_is_compared():
    assert not same("SELECT f();", "ERROR:  a\nb\nHINT:  h", "ERROR:  a\nc\nHINT:  h")


def test_data_below_a_message_is_compared_where_data_is_copied_out():
    assert same("COPY t TO STDOUT;", "1\tx", "NOTICE:  a\n1\tx")
    assert not same("COPY t TO STDOUT;", "1\tx", "NOTICE:  a\n1\ty")


# Order ------------------------------------------------------------------------------------------


def test_rows_compare_in_order_only_under_order_by():
    assert same("SELECT a, b FROM t;", ROWS, SHUFFLED)
    assert not same("SELECT a, b FROM t ORDER BY a;", ROWS, SHUFFLED)
    assert same("SELECT a, b FROM (SELECT * FROM t ORDER BY a) u;", ROWS, SHUFFLED)
    assert same(
        "INSERT INTO t VALUES (1, 'x'), (2, 'y') RETURNING a, b;", f"{ROWS}\nINSERT 0 2", f"{SHUFFLED}\nINSERT 0 2"
    )


def test_how_often_a_row_is_there_matters_without_order_by_too():
    thrice, twice = (f" a\n---\n 1\n{row}\n 2\n(3 rows)" for row in (" 1", " 2"))
    assert not same("SELECT a FROM t;", thrice, twice)


def test_every_statement_of_a_prompt_has_its_own_order():
    text = "SELECT a, b FROM t; CREATE TABLE u (); SELECT a, b FROM t ORDER BY a;"
    assert same(text, f"{ROWS}CREATE TABLE\n{ROWS}", f"{SHUFFLED}CREATE TABLE\n{ROWS}")
    assert not same(text, f"{ROWS}CREATE TABLE\n{ROWS}", f"{ROWS}CREATE TABLE\n{SHUFFLED}")


@pytest.mark.parametrize(
    ("first", "printed"),
    [
        ("SELEC 1;", "ERROR:  no\nLINE 1: SELEC 1;\n        ^\n"),
        ("DELETE FROM t RETURNING a, b;", f"{ROWS}DELETE 2\n"),
        ("CREATE TABLE t AS SELECT 1;", "SELECT 1\n"),
        ("SELECT f();", "ERROR:  no\nCONTEXT:  a\nb\n"),
    ],
    ids=["error", "rows and tag", "tag", "error with context"],
)
def test_whose_table_it_is_is_counted_by_what_statements_print(first, printed):
    text = f"{first} SELECT a, b FROM t ORDER BY a; SELECT a, b FROM t;"
    assert same(text, f"{printed}{ROWS}{ROWS}", f"{printed}{ROWS}{SHUFFLED}")
    assert not same(text, f"{printed}{ROWS}{ROWS}", f"{printed}{SHUFFLED}{ROWS}")


def test_where_nobody_can_tell_whose_table_it_is_rows_compare_in_order():
    text = "SELECT 1/0\\; SELECT 2; SELECT a, b FROM t ORDER BY a;"
    assert same(text, f"ERROR:  no\n{ROWS}", f"ERROR:  no\n{ROWS}")
    assert not same(text, f"ERROR:  no\n{ROWS}", f"ERROR:  no\n{SHUFFLED}")


def test_copied_lines_compare_in_order_only_under_order_by():
    assert same("COPY t TO STDOUT;", "1\n2", "2\n1")
    assert not same("COPY (SELECT a FROM t ORDER BY a) TO STDOUT;", "1\n2", "2\n1")
    assert not same("COPY t TO STDOUT;", "1\n2", "2\n2")


def test_lines_that_several_statements_copy_compare_in_order():
    text = "COPY t TO STDOUT; COPY (SELECT a FROM t ORDER BY a) TO STDOUT;"
    assert same(text, "1\n2\n1\n2", "1\n2\n1\n2")
    assert not same(text, "1\n2\n1\n2", "1\n2\n2\n1")


def test_a_backslash_command_compares_in_order_and_line_by_line():
    listing = " a\n---\n 2\n 1\n(2 rows)\n\nHINT:  h\n"
    assert same("\\d t", listing, listing.replace("\n\n", "\n"))
    assert not same("\\d t", listing, " a\n---\n 1\n 2\n(2 rows)\nHINT:  h\n")
    assert not same("\\d t", listing, listing.replace("HINT:  h", ""))


# Rows of several lines ----------------------------------------------------------------------------


def test_a_row_of_several_lines_moves_as_one():
    expected = " a |  b\n---+-----\n 1 | x  +\n   | two+\n   | y\n 2 | z\n(2 rows)\n"
    moved = " a |  b\n---+-----\n 2 | z\n 1 | x  +\n   | two+\n   | y\n(2 rows)\n"
    torn = " a |  b\n---+-----\n 1 | x  +\n   | y\n 2 | two+\n   | z\n(2 rows)\n"
    assert same("SELECT a, b FROM t;", expected, moved)
    assert not same("SELECT a, b FROM t;", expected, torn)


def test_a_mark_counts_only_in_the_place_of_a_mark():
    expected = "  a  | b\n-----+---\n +   | +\n x + | y\n(2 rows)\n"
    moved = "  a  | b\n-----+---\n x + | y\n +   | +\n(2 rows)\n"
    assert same("SELECT a, b FROM t;", expected, moved)


def test_marks_are_found_behind_wide_characters():
    header = "  a\n------\n"
    assert same(
        "SELECT a FROM t;", f"{header} 漢字+\n x\n 字漢+\n y\n(2 rows)", f"{header} 字漢+\n y\n 漢字+\n x\n(2 rows)"
    )
    assert not same(
        "SELECT a FROM t;", f"{header} 漢字+\n x\n 字漢+\n y\n(2 rows)", f"{header} 漢字+\n y\n 字漢+\n x\n(2 rows)"
    )


def test_a_row_whose_blank_end_was_deleted_from_the_file_is_compared():
    assert same("SELECT a FROM t;", " a\n---\n x+\n(1 row)", " a\n---\n x+\n \n(1 row)")
    assert not same("SELECT a FROM t;", " a\n---\n x+\n(1 row)", " a\n---\n y+\n(1 row)")


def test_a_row_whose_last_line_is_blank_keeps_to_itself():
    expected = " a\n---\n x+\n \n y\n(2 rows)\n"
    moved = " a\n---\n y\n x+\n \n(2 rows)\n"
    assert same("SELECT a FROM t;", expected, moved)


def test_a_table_without_columns_is_a_table():
    assert same("SELECT FROM t;", "--\n(2 rows)", "NOTICE:  x\n--\n(2 rows)\n")
    assert not same("SELECT FROM t;", "--\n(2 rows)", "--\n(1 row)\n")
    assert not same("SELECT FROM t;", "(2 rows)", "--\n(2 rows)\n")


def test_the_lines_of_a_columns_name_are_its_header():
    table = " two  +| n\n lines |\n-------+---\n a     | 1\n b     | 2\n(2 rows)\n"
    assert same("SELECT 1;", f"NOTICE:  x\nmore\n{table}", table)
    assert not same("SELECT 1;", table.replace(" two  ", " three"), table)


# What is shown ------------------------------------------------------------------------------------


def test_a_mismatch_shows_what_both_sides_have_and_what_only_one_has():
    expected = " a\n---\n 2\n 1\n 3\n(3 rows)"
    mismatch = compare_output("SELECT a FROM t;", expected.split("\n"), "NOTICE:  x\n a \n---\n 1\n 4\n 3\n(3 rows)\n")
    assert mismatch == Mismatch(
        (" a", "---", " 1", " 2", " 3", "(3 rows)"), (" a", "---", " 1", " 3", " 4", "(3 rows)")
    )
    assert str(mismatch) == dedent(
        """\
           a
          ---
           1
        -  2
           3
        +  4
          (3 rows)"""
    )


def test_a_table_whose_footer_is_missing_is_shown_as_it_is_written():
    text = "SELECT a FROM t; SELECT b FROM t;"
    expected = [" a", "---", " 2", " 1", " b", "---", " 3", "(1 row)"]
    mismatch = compare_output(text, expected, " a\n---\n 2\n 1\n(2 rows)\n\n b\n---\n 3\n(1 row)\n")
    assert mismatch is not None
    assert mismatch.expected == tuple(expected)
