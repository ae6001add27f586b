"""What holds of the comparison operators of every type, on the example of some types."""

from __future__ import annotations

import pytest

from subscriber.postgres.types.family import sign
from tests.filter_expressions import value

HOLDS = {"=": {0}, "<>": {-1, 1}, "<": {-1}, "<=": {-1, 0}, ">": {1}, ">=": {0, 1}}


@pytest.mark.parametrize("operator", HOLDS)
@pytest.mark.parametrize(
    ("smaller", "greater"),
    [
        ("1", "2"),
        ("date '2024-02-28'", "date '2024-02-29'"),
        ("uuid '00000000-0000-0000-0000-000000000001'", "uuid '10000000-0000-0000-0000-000000000000'"),
        ("1.5::numeric", "1.50001::numeric"),
        ("interval '1 day'", "interval '25 hours'"),
        ("timetz '12:00+02'", "timetz '12:00+01'"),
    ],
    ids=["integer", "date", "uuid", "numeric", "interval", "timetz"],
)
def test_six_operators_follow_one_order(operator, smaller, greater):
    """The first three types are compared as columns, the others value by value."""
    for left, right, order in ((smaller, greater, -1), (smaller, smaller, 0), (greater, smaller, 1)):
        assert value(f"{left} {operator} {right}") == ("t" if order in HOLDS[operator] else "f")
        assert value(f"{left} {operator} NULL") is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The second argument, where both are equal: the scale shows which one it is.
        ("numeric_larger(1.0, 1.00)", "1.00"),
        ("numeric_smaller(1.0, 1.00)", "1.00"),
        ("interval_larger('1 day', '24 hours')", "24:00:00"),
        ("interval_smaller('1 day', '23 hours')", "23:00:00"),
        ("interval_larger(NULL, '1 day')", None),
        # Support functions of indexes return -1, 0 or 1.
        ("numeric_cmp(1, 1000)", "-1"),
        ("interval_cmp('1 day', '24 hours')", "0"),
        ("date_cmp('2024-01-01', '1999-01-01')", "1"),
    ],
)
def test_extremes_and_support_functions(expression, expected):
    assert value(expression) == expected


def test_the_sign_of_a_comparison():
    assert [sign(left, right) for left, right in (("a", "b"), ("b", "b"), ("c", "b"))] == [-1, 0, 1]
