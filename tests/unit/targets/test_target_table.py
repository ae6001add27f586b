"""Tables and sequences of a target, as data."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import UnsupportedValue
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.declared_columns import (
    Declared,
    check_digits,
    check_moment,
    check_number,
    check_range,
    check_text_length,
    declared_length,
    declared_precision,
)
from subscriber.targets.target_table import TargetSequence
from tests.unit.targets.tables import execute, reflected

A, IDENTITY = TargetColumn("a", "INT", "INT"), TargetColumn("A%", "INT", "INT", identity_always=True)


def test_a_column_is_found_by_exactly_its_name():
    """C2"""
    table = TargetTable("s", "t", (A, IDENTITY), None)
    assert table.column("A%") is IDENTITY
    assert table.column("A") is None


@pytest.mark.parametrize(("columns", "overrides"), [((A, IDENTITY), True), ((A,), False), ((), False)])
def test_an_insert_overrides_an_identity_column_that_is_always_generated(columns, overrides):
    assert TargetTable(None, "t", columns, None).has_identity_always is overrides


def test_a_statement_can_name_the_columns_and_the_locators():
    """names_are_data"""
    table = TargetTable("s", "t", (A, IDENTITY), None, locators=("rowid",)).clause()
    assert [column.name for column in table.columns] == ["a", "A%", "rowid"]
    assert str(sa.select(table.c["A%"])) == 'SELECT s.t."A%" \nFROM s.t'


def test_a_table_without_rows_has_none(target):
    execute(target, "CREATE TABLE t (a)")
    table = reflected(target, "t")
    with target.engine.connect() as connection:
        assert not table.has_rows(connection)
    execute(target, "INSERT INTO t VALUES (NULL)")
    with target.engine.connect() as connection:
        assert table.has_rows(connection)


# Sequences ----------------------------------------------------------------------------------------

TABLE = TargetTable(None, "t", (A,), ("a",))


def position(last: int, *, is_called: bool = True, increment: int = 1) -> SequencePosition:
    return SequencePosition(last_value=last, is_called=is_called, increment=increment)


@pytest.mark.parametrize(
    ("last", "fits"), [(1, True), (10, True), (0, False), (11, False)], ids=["least", "greatest", "below", "above"]
)
def test_a_sequence_stores_its_last_value(last, fits):
    """D14"""
    sequence = TargetSequence("q", position(1), 1, 10)
    found = sequence.obstacle(position(last))
    words = f"{last} is out of its range in the target (1 .. 10)"
    assert found == (None if fits else words)


@pytest.mark.parametrize(
    ("last", "is_called", "fits"), [(9, True, True), (10, True, False), (10, False, True), (0, True, True)]
)
def test_a_counter_stores_its_next_value(last, is_called, fits):
    """D14"""
    counter = TargetSequence("t", position(1), 1, 10, TABLE)
    assert (counter.obstacle(position(last, is_called=is_called)) is None) is fits


@pytest.mark.parametrize(
    ("publisher", "target", "words"),
    [
        (-2, 1, "it counts downwards at the publisher and upwards in the target"),
        (1, -2, "it counts upwards at the publisher and downwards in the target"),
        (-1, -2, None),
        (5, 1, None),
    ],
)
def test_a_sequence_counts_in_the_direction_of_the_publishers(publisher, target, words):
    sequence = TargetSequence("q", position(5, increment=target), 1, 10)
    assert sequence.obstacle(position(5, increment=publisher)) == words


# The declaration of a column, and the values that fit it.


def column(declared: str) -> TargetColumn:
    return TargetColumn("c", declared, declared.partition("(")[0])


def refusal(check, declared: str, values: pa.Array, *arguments) -> UnsupportedValue | None:
    """The error with which a check refuses values; None if it accepts them."""
    try:
        check(column(declared), values, *arguments)
    except UnsupportedValue as error:
        return error
    return None


# Declarations -------------------------------------------------------------------------------------


def test_a_declaration_is_compiled_unchanged():
    table = sa.Table("t", sa.MetaData(), sa.Column("a", Declared("DECIMAL(5,2) UNSIGNED")))
    assert "a DECIMAL(5,2) UNSIGNED" in str(sa.schema.CreateTable(table))


@pytest.mark.parametrize(
    ("declared", "precision", "scale"),
    [
        ("DECIMAL(10,2)", 10, 2),
        ("decimal( 10 , 2 )", 10, 2),
        ("decimal(5) unsigned", 5, 0),
        ("numeric", None, 0),
        ("timestamp(6)", 6, 0),
        ("NUMERIC_TEXT(2,-3)", None, 0),
    ],
)
def test_precision_and_scale_are_in_parentheses(declared, precision, scale):
    assert declared_precision(declared) == (precision, scale)


@pytest.mark.parametrize(("declared", "length"), [("varchar(20)", 20), ("CHARACTER VARYING(3)", 3), ("text", None)])
def test_the_length_of_a_text_is_in_parentheses(declared, length):
    assert declared_length(declared) == length


# Numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["0", "-999.99", "999.99", "0000999.9900000", "-0.00", ".5", None])
def test_a_number_that_fits_is_accepted(value):
    """Leading and trailing zeros do not count."""
    assert refusal(check_number, "DECIMAL(5,2)", pa.array([value], pa.string())) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("1.005", "has more decimal digits than"),
        ("-0.001", "has more decimal digits than"),
        ("1.0050", "has more decimal digits than"),
        ("1000", "has more digits than"),
        ("-1000.00", "has more digits than"),
        ("15" + "0" * 399, "has more digits than"),
        ("NaN", "holds finite numbers only"),
        ("Infinity", "holds finite numbers only"),
        ("-Infinity", "holds finite numbers only"),
    ],
)
def test_a_number_that_would_be_rounded_is_refused(value, words):
    """refuse_not_guess, names_are_data"""
    error = refusal(check_number, "DECIMAL(5,2)", pa.array([None, "1.50", value]))
    assert error is not None
    assert (error.sqlstate, error.column, words in error.message) == ("22003", "c", True)
    assert value not in error.report()


@given(
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(0, 150).flatmap(lambda digits: st.integers(-(10**digits), 10**digits)),
    st.integers(0, 45),
    st.integers(0, 150),
)
def test_a_number_is_accepted_if_its_digits_fit(whole, scale, digits, places, zeros):
    """numeric(precision, scale): https://www.postgresql.org/docs/current/datatype-numeric.html

    A number that ends with many zeros is a multiple of 2**128, where Arrow's decimals wrap around.
    """
    value = Fraction(digits * 10**zeros, 10**places)
    fits = abs(value) < 10**whole and value * 10**scale == int(value * 10**scale)
    text = f"{abs(digits) * 10**zeros:0{places + 1}d}"
    text = f"{'-' * (digits < 0)}{text[: len(text) - places]}{'.' * bool(places)}{text[len(text) - places :]}"
    error = refusal(check_number, f"DECIMAL({whole + scale},{scale})", pa.array([text]))
    assert (error is None) is fits


@pytest.mark.parametrize(
    ("declared", "value", "fits"),
    [
        ("NUMERIC_TEXT(6,1)", "99999.123", True),
        ("NUMERIC_TEXT(6,1)", "123456", False),
        ("NUMERIC_TEXT(6,1)", "NaN", True),
        ("NUMERIC_TEXT(4,2)", "NaN", True),
        ("NUMERIC_TEXT(6,1)", "-Infinity", False),
        ("NUMERIC_TEXT(2,5)", "0.00099", True),
        ("NUMERIC_TEXT(2,5)", "1", False),
        ("NUMERIC_TEXT", "1" * 1000, True),
        ("NUMERIC_TEXT(1000)", "1" * 1000, True),
    ],
)
def test_only_the_digits_before_the_point_are_counted(declared, value, fits):
    """As in numeric, NaN fits every precision and an infinity fits none."""
    assert (refusal(check_digits, declared, pa.array([value, None])) is None) is fits


@pytest.mark.parametrize(
    ("values", "fits"), [([-128, 127, None], True), ([128], False), ([-129, 0], False), ([None], True), ([], True)]
)
def test_an_integer_is_in_the_range_of_its_column(values, fits):
    error = refusal(check_range, "TINYINT", pa.array(values, pa.int64()), -128, 127)
    assert (error is None) is fits
    if error is not None:
        assert (error.sqlstate, error.column) == ("22003", "c")
        assert error.message == 'a value of column "c" is out of range for type "TINYINT"'


# Texts and moments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "value", "fits"),
    [
        ("VARCHAR(3)", "één", True),
        ("VARCHAR(3)", "one   ", True),
        ("VARCHAR(3)", "four", False),
        ("VARCHAR(3)", "a  b", False),
        ("VARCHAR(3)", "one\t", False),
        ("VARCHAR(3)", None, True),
        ("TEXT", "x" * 1000, True),
    ],
)
def test_a_text_is_as_long_as_its_column_without_the_blanks_at_its_end(declared, value, fits):
    """https://www.postgresql.org/docs/current/datatype-character.html"""
    error = refusal(check_text_length, declared, pa.array([value, ""], pa.string()))
    assert (error is None) is fits
    if error is not None:
        assert (error.sqlstate, error.column) == ("22001", "c")
        assert error.message == "value too long for type varchar(3)"


def test_a_moment_that_a_column_does_not_hold_is_refused():
    values = pa.array(["2026-01-01", None, "infinity"])
    assert refusal(check_moment, "DATE", values, pa.array([True, None, True])) is None
    error = refusal(check_moment, "DATE", values, pa.array([True, None, False]))
    assert error is not None
    assert (error.sqlstate, error.column) == ("22008", "c")
    assert "infinity" not in error.message
