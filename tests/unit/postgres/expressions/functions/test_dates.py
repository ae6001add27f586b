"""Comparison and precision of dates, times and timestamps."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.postgres.types.datetimes.date_values import (
    DATE_INFINITIES,
    DAY,
    DAYS_OF_TIMESTAMPS,
    TIMESTAMP_INFINITIES,
)
from tests.filter_expressions import implementation, value

LAST_TIMESTAMP = DAYS_OF_TIMESTAMPS * DAY - 1
PAIRS = [
    (0, 0, "="),
    (0, 1, "<"),
    (1, DAY - 1, ">"),
    (DATE_INFINITIES[0], TIMESTAMP_INFINITIES[0], "="),
    (DATE_INFINITIES[0], -(10**15), "<"),
    (DATE_INFINITIES[1], TIMESTAMP_INFINITIES[1], "="),
    (DATE_INFINITIES[1], LAST_TIMESTAMP, ">"),
    (DAYS_OF_TIMESTAMPS, LAST_TIMESTAMP, ">"),
    (DAYS_OF_TIMESTAMPS, LAST_TIMESTAMP + 1, ">"),  # what timestamp(0) makes of the last timestamp
    (DATE_INFINITIES[1] - 1, TIMESTAMP_INFINITIES[1], "<"),
]
TRUE = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@pytest.mark.parametrize("name", TRUE)
def test_a_date_beyond_the_last_timestamp_is_later_than_all_but_infinity(name):
    """B11: the server does not raise here either."""
    days, moments, orders = zip(*PAIRS, strict=True)
    columns = pa.array(days, pa.int32()), pa.array(moments, pa.int64())
    expected = [order in TRUE[name] for order in orders]
    forward = implementation(f"date_{name}_timestamp(date,timestamp)")
    assert forward.function(*columns).to_pylist() == expected
    mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(name, name)
    backward = implementation(f"timestamp_{mirrored}_date(timestamp,date)")
    assert backward.function(*reversed(columns)).to_pylist() == expected


def test_null_beside_a_date_is_null():
    found = implementation("date_lt_timestamp(date,timestamp)")
    column = pa.array([None, 1], pa.int32())
    assert found.function(column, pa.scalar(None, pa.int64())).to_pylist() == [None, None]
    assert found.function(column, pa.scalar(0, pa.int64())).to_pylist() == [None, False]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("date '2024-02-29' < timestamp '2024-02-29 00:00:00.000001'", "t"),
        ("timestamp 'infinity' > date '5874897-12-31'", "t"),
        ("date_cmp_timestamp('infinity', 'infinity')", "0"),
        ("date_cmp_timestamp('5874897-12-31', '294276-12-31')", "1"),
        ("""date_cmp_timestamp('294277-01-01', "timestamp"(timestamp '294276-12-31 23:59:59.999999', 0))""", "1"),
        ("timestamp_cmp_date('-infinity', '4713-01-01 BC')", "-1"),
        ("date '0001-12-31 BC' < date '0001-01-01'", "t"),
        ("time '24:00' > time '23:59:59.999999'", "t"),
        # Equal moments are ordered by the zone, from east to west.
        ("timetz '12:00+02' = timetz '10:00+00'", "f"),
        ("timetz '12:00+02' < timetz '10:00+00'", "t"),
        ("timetz_larger('12:00+02', '10:00+00')", "10:00:00+00"),
        ("date_larger('2024-01-01', 'infinity')", "infinity"),
        ("timestamp_smaller('2024-01-01', '-infinity')", "-infinity"),
        ("isfinite(date '2001-02-16')", "t"),
        ("isfinite(date '-infinity')", "f"),
        ("isfinite(timestamp 'infinity')", "f"),
        ("isfinite(NULL::timestamp)", None),
        # Precision: the digits are rounded.
        ("time '12:30:59.555'::time(2)", "12:30:59.56"),
        ("time '23:59:59.9'::time(0)", "24:00:00"),
        ("timetz '12:30:59.555+02'::timetz(0)", "12:31:00+02"),
        # A half is rounded away from 2000-01-01, from which timestamps are counted.
        ("timestamp '2000-01-01 00:00:00.5'::timestamp(0)", "2000-01-01 00:00:01"),
        ("timestamp '1999-12-31 23:59:59.5'::timestamp(0)", "1999-12-31 23:59:59"),
        ("timestamp 'infinity'::timestamp(0)", "infinity"),
    ],
)
def test_dates_and_times(expression, expected):
    assert value(expression) == expected
