"""Random tables, control characters among their values, are printed, parsed and compared."""

from __future__ import annotations

import unicodedata

from hypothesis import assume, given
from hypothesis import strategies as st

from subscriber.testing.session.aligned import PrintedColumn, aligned_table, display_width, displayed_lines
from subscriber.testing.session.expect import compare_output
from subscriber.testing.session.session_file import parse_scenario, with_output

UNORDERED, ORDERED = "SELECT * FROM t;", "SELECT * FROM t ORDER BY 1;"

VALUES = (
    st.none()
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
    | st.text("a+|-(1 row)\n\té漢😀", max_size=8)
)


@st.composite
def tables(draw):
    """A random table. One column has no blank values, because a blank line is not compared."""
    width = draw(st.integers(1, 3))
    names = draw(
        st.lists(st.sampled_from(["a", "note", "two\nlines", "漢", "?column?"]), min_size=width, max_size=width)
    )
    types = draw(st.lists(st.sampled_from([23, 25]), min_size=width, max_size=width))
    columns = [PrintedColumn("n", 23), *map(PrintedColumn, names, types)]
    row = st.tuples(st.integers(0, 3).map(str), *[VALUES] * width)
    return columns, draw(st.lists(row, min_size=1, max_size=5))


def visible(rows):
    """Rows as far as text shows them. NULL and an empty text look the same, and blanks at the end
    of a line do not count.
    """
    return [tuple(tuple(line.rstrip(" ") for line in displayed_lines(value or "")) for value in row) for row in rows]


def lines(columns, rows):
    return aligned_table(columns, rows).split("\n")


@given(tables(), st.randoms())
def test_the_order_of_rows_counts_only_with_order_by(table, random):
    columns, rows = table
    shuffled = random.sample(rows, len(rows))
    printed = aligned_table(columns, shuffled)
    assert compare_output(UNORDERED, lines(columns, rows), printed) is None
    in_order = compare_output(ORDERED, lines(columns, rows), printed) is None
    assert in_order == (visible(rows) == visible(shuffled))


@given(tables(), st.data())
def test_a_different_value_is_found(table, data):
    columns, rows = table
    at, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(1, len(columns) - 1))
    changed = [list(row) for row in rows]
    changed[at][column] = data.draw(VALUES)
    assume(visible(changed)[at][column] != visible(rows)[at][column])
    for text in (UNORDERED, ORDERED):
        assert compare_output(text, lines(columns, rows), aligned_table(columns, changed)) is not None


@given(tables(), st.data())
def test_a_missing_or_additional_row_is_found(table, data):
    columns, rows = table
    at = data.draw(st.integers(0, len(rows) - 1))
    for text in (UNORDERED, ORDERED):
        assert (
            compare_output(text, lines(columns, rows), aligned_table(columns, rows[:at] + rows[at + 1 :])) is not None
        )
        assert compare_output(text, lines(columns, rows), aligned_table(columns, [*rows, rows[at]])) is not None


@given(tables())
def test_a_recorded_output_compares_equal_and_is_recorded_again_unchanged(table):
    columns, rows = table
    printed = aligned_table(columns, rows)
    text = f"-- title\ndb=# {ORDERED}\nold\n\n-- a comment\ndb=# SELECT 1;\n"
    recorded = with_output(text, parse_scenario(text, "x"), [printed, "ERROR:  no"])
    statement = parse_scenario(recorded, "x").statements[0]
    assert statement.text == ORDERED
    assert compare_output(ORDERED, statement.expected, printed) is None
    assert with_output(recorded, parse_scenario(recorded, "x"), [printed, "ERROR:  no"]) == recorded


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n"), max_size=20))
def test_no_control_character_reaches_the_terminal_and_the_width_is_a_sum(text):
    (line,) = displayed_lines(text)
    assert not any(unicodedata.category(character) == "Cc" for character in line)
    assert display_width(line) == sum(map(display_width, line))
