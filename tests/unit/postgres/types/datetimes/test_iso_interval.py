"""Intervals in the formats of ISO 8601. More texts, and their output: test_interval_input.py."""

from __future__ import annotations

import pytest

from subscriber.base.errors import DataException
from subscriber.postgres.types.datetimes.date_values import HOUR, MINUTE, SECOND, Interval
from subscriber.postgres.types.datetimes.interval_input import BadIntervalError, iso_interval

CLOCK = 10 * HOUR + 20 * MINUTE + 30 * SECOND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1Y2M3DT10H20M30S", Interval(14, 3, CLOCK)),
        ("P0001-02-03T10:20:30", Interval(14, 3, CLOCK)),
        ("P00010203T102030", Interval(14, 3, CLOCK)),
        ("P1", Interval(12, 0, 0)),
        ("PT", Interval(0, 0, 0)),
        ("P-1YT-1H", Interval(-12, 0, -HOUR)),
    ],
)
def test_both_formats_are_read(text, expected):
    assert iso_interval(text) == expected


@pytest.mark.parametrize("text", ["", "P", "p1D", "1D", "P1S", "PT1D", "P1Y-2", "PT1:2x", "PnanD"])
def test_a_text_of_another_format_is_not_read(text):
    with pytest.raises(BadIntervalError):
        iso_interval(text)


@pytest.mark.parametrize("text", ["P1e16D", "P-infD", "PT2562047789H"])
def test_a_field_that_is_too_large_is_an_error(text):
    with pytest.raises(DataException) as raised:
        iso_interval(text)
    assert raised.value.sqlstate == "22015"
