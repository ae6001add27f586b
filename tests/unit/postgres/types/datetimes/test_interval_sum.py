"""Fractions of units are added to smaller units, and sums that are too large are errors."""

from __future__ import annotations

import pytest

from subscriber.base.errors import DataException
from subscriber.postgres.types.datetimes.date_values import HOUR, Interval
from subscriber.postgres.types.datetimes.interval_input import COUNTED_UNITS, IntervalSum


@pytest.mark.parametrize(
    ("unit", "whole", "fraction", "expected"),
    [
        ("week", 1, 0.5, Interval(0, 10, 12 * HOUR)),
        ("month", 1, 0.5, Interval(1, 15, 0)),
        ("day", 0, 0.25, Interval(0, 0, 6 * HOUR)),
        ("decade", 1, 0.1, Interval(132, 0, 0)),
        ("microsecond", 1, 0.5, Interval(0, 0, 1)),
        ("microsecond", 1, 0.6, Interval(0, 0, 2)),
    ],
)
def test_the_fraction_of_a_unit_is_added_to_smaller_units(unit, whole, fraction, expected):
    total = IntervalSum()
    total.add(unit, whole, fraction)
    assert total.value() == expected


def test_units_are_added_up_and_negated_together():
    total = IntervalSum()
    for unit in ("year", "month", "day", "hour"):
        total.add(unit, 1, 0.0)
    total.negate()
    assert total.value() == Interval(-13, -1, -HOUR)


@pytest.mark.parametrize("unit", sorted(COUNTED_UNITS))
def test_every_unit_has_a_limit(unit):
    total = IntervalSum()
    with pytest.raises(DataException) as raised:
        total.add(unit, 2**63, 0.0)
    assert raised.value.sqlstate == "22015"


def test_the_least_number_of_days_cannot_be_negated():
    total = IntervalSum()
    total.add("day", -(2**31), 0.0)
    with pytest.raises(DataException):
        total.negate()
