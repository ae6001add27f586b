"""Comparison over columns, where the two sides are not of one form."""

from __future__ import annotations

import pyarrow as pa
import pytest

import subscriber.filters.functions  # noqa: F401 - registers the functions
from subscriber.filters.functions.function_registry import implementation_of
from subscriber.types.datetimes.calendar import DATE_INFINITIES, DAY, DAYS_OF_TIMESTAMPS, TIMESTAMP_INFINITIES

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
    (DATE_INFINITIES[1] - 1, TIMESTAMP_INFINITIES[1], "<"),
]
TRUE = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@pytest.mark.parametrize("name", TRUE)
def test_a_date_beyond_the_last_timestamp_is_later_than_all_but_infinity(name):
    """B11: the server does not raise here either."""
    days, moments, orders = zip(*PAIRS, strict=True)
    columns = pa.array(days, pa.int32()), pa.array(moments, pa.int64())
    expected = [order in TRUE[name] for order in orders]
    forward = implementation_of(f"date_{name}_timestamp(date,timestamp)")
    assert forward is not None
    assert forward.function(*columns).to_pylist() == expected
    mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(name, name)
    backward = implementation_of(f"timestamp_{mirrored}_date(timestamp,date)")
    assert backward is not None
    assert backward.function(*reversed(columns)).to_pylist() == expected


def test_null_beside_a_date_is_null():
    found = implementation_of("date_lt_timestamp(date,timestamp)")
    assert found is not None
    column = pa.array([None, 1], pa.int32())
    assert found.function(column, pa.scalar(None, pa.int64())).to_pylist() == [None, None]
    assert found.function(column, pa.scalar(0, pa.int64())).to_pylist() == [None, False]
