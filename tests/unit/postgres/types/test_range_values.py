"""Values of range types: regress/sql/rangetypes.sql, and chapter 8.17 of the documentation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException
from subscriber.postgres.types.ranges import (
    Bound,
    Range,
    compare_bounds,
    compare_values,
    is_discrete,
    make,
    range_text,
)
from tests.type_samples import OIDS, read, refused, shown

INT4, NUM, DATE = OIDS["int4range"], OIDS["numrange"], OIDS["daterange"]
INTEGERS = st.none() | st.integers(-5, 5)


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        ("numrange", "empty", "empty"), ("numrange", "  EMPTY  ", "empty"), ("numrange", "(1.1,2.2)", "(1.1,2.2)"), ("numrange", "[1.1,2.2]", "[1.1,2.2]"),
        ("numrange", " [ 1.10 , 2.2 ) ", "[1.10,2.2)"), ("numrange", "[,]", "(,)"), ("numrange", "(,2.2]", "(,2.2]"), ("numrange", "[3,)", "[3,)"),
        ("numrange", "[1,1]", "[1,1]"), ("numrange", "[1,1)", "empty"), ("numrange", "(1,1]", "empty"), ("numrange", "[1.0,1.00]", "[1.0,1.00]"),
        ("numrange", '["1",2)', "[1,2)"), ("tsrange", '["2000-01-01 ""00:00""",)', '["2000-01-01 00:00:00",)'), ("numrange", r"[\1,2)", "[1,2)"), ("numrange", "[-inf,infinity)", "[-Infinity,Infinity)"),
        ("int4range", "[1,2]", "[1,3)"), ("int4range", "(1,3]", "[2,4)"), ("int4range", "(1,2)", "empty"), ("int4range", "[1,1]", "[1,2)"),
        ("int4range", "(,5]", "(,6)"), ("int4range", "(5,)", "[6,)"), ("int4range", "[-2147483648,2147483646]", "[-2147483648,2147483647)"),
        ("int8range", "[10,20]", "[10,21)"), ("daterange", "[2000-01-10,2000-01-20]", "[2000-01-10,2000-01-21)"), ("daterange", "(2000-01-10,2000-01-11)", "empty"),
        ("daterange", "[infinity,infinity]", "[infinity,infinity]"), ("daterange", "(-infinity,2000-01-01]", "(-infinity,2000-01-02)"),
        ("tsrange", '["2000-01-01 00:00:00",)', '["2000-01-01 00:00:00",)'), ("tsrange", "[2000-01-01 10:00, 2000-01-02)", '["2000-01-01 10:00:00","2000-01-02 00:00:00")'),
        ("tstzrange", "[2000-01-01 00:00:00+01,]", '["1999-12-31 23:00:00+00",)'),
    ],
)  # fmt: skip
def test_a_range_is_read_and_stored_in_the_form_of_its_type(name, text, written):
    assert shown(name, text) == written


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "Missing left parenthesis or bracket."),
        ("-[1,2)", "Missing left parenthesis or bracket."),
        ("a", "Missing left parenthesis or bracket."),
        ("emptyx", 'Junk after "empty" key word.'),
        ("empty x", 'Junk after "empty" key word.'),
        ("[1)", "Missing comma after lower bound."),
        ("[1,2,3)", "Too many commas."),
        ("[1,2) x", "Junk after right parenthesis or bracket."),
        ("(1,2)]", "Junk after right parenthesis or bracket."),
        ("[1,2", "Unexpected end of input."),
        ("[1", "Unexpected end of input."),
        ("[", "Unexpected end of input."),
        ('["1,2)', "Unexpected end of input."),
        ("[1,2\\", "Unexpected end of input."),
    ],
)
def test_a_text_that_is_not_a_range_is_refused(text, detail):
    error = refused("int4range", text)
    assert (error.sqlstate, error.message, error.detail) == ("22P02", "malformed range literal", detail)


@pytest.mark.parametrize(
    ("name", "text", "sqlstate", "message"),
    [
        ("int4range", "[3,1]", "22000", "range lower bound must be less than or equal to range upper bound"),
        ("numrange", "(NaN,1)", "22000", "range lower bound must be less than or equal to range upper bound"),
        ("int4range", "[1,2147483647]", "22003", "integer out of range"),
        ("int8range", "(9223372036854775807,)", "22003", "bigint out of range"),
        ("daterange", "[2000-01-01,5874897-12-31]", "22008", "date out of range"),
        ("int4range", "[x,2)", "22P02", "invalid input syntax for type integer"),
        ("int4range", '["",2)', "22P02", "invalid input syntax for type integer"),
        ("daterange", "[2000-02-30,)", "22008", "date/time field value out of range"),
    ],
)
def test_bounds_that_a_range_cannot_have_are_refused(name, text, sqlstate, message):
    error = refused(name, text)
    assert (error.sqlstate, error.message) == (sqlstate, message)


def test_an_infinite_bound_is_never_inclusive():
    assert read("int4range", "[,]") == Range(INT4, Bound(None, False, True), Bound(None, False, False))
    assert range_text(None, None, True, True) == "(,)"


def test_a_bound_is_quoted_only_where_necessary():
    assert range_text("a", 'b"\\', True, False) == r'[a,"b""\\")'
    assert range_text("", "(", True, False) == '["","(")'


@pytest.mark.parametrize(
    ("name", "discrete"),
    [("int4range", True), ("int8range", True), ("daterange", True), ("numrange", False), ("tsrange", False)],
)
def test_ranges_of_integers_and_dates_are_discrete(name, discrete):
    assert is_discrete(OIDS[name]) is discrete


@given(INTEGERS, INTEGERS, st.booleans(), st.booleans())
def test_a_range_contains_the_same_integers_in_the_form_of_its_type(low, high, low_inclusive, high_inclusive):
    try:
        found = make(INT4, Bound(low, low_inclusive, True), Bound(high, high_inclusive, False))
    except DataException:
        assert low is not None
        assert high is not None
        assert low > high
        return

    def expected(number: int) -> bool:
        above = low is None or number > low or (low_inclusive and number == low)
        return above and (high is None or number < high or (high_inclusive and number == high))

    def contained(number: int) -> bool:
        if found.lower is None or found.upper is None:
            return False
        above = found.lower.value is None or number >= found.lower.value
        return above and (found.upper.value is None or number < found.upper.value)

    assert [contained(number) for number in range(-8, 9)] == [expected(number) for number in range(-8, 9)]


def test_bounds_are_ordered_by_value_and_by_what_they_include():
    """``range_cmp_bounds``: the bounds below are in ascending order."""
    in_order = [
        Bound(None, False, True),
        Bound(1, False, False),
        Bound(1, True, True),
        Bound(1, False, True),
        Bound(2, True, False),
        Bound(None, False, False),
    ]
    for place, left in enumerate(in_order):
        for other, right in enumerate(in_order):
            assert compare_bounds(left, right) == (place > other) - (place < other)


def test_equal_values_are_equal_whether_they_are_included_or_not():
    assert compare_values(Bound(1, True, True), Bound(1, False, False)) == 0
    assert compare_bounds(Bound(1, True, True), Bound(1, True, False)) == 0
