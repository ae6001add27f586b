"""date_trunc: the examples of the manual (9.9), and errors."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("date_trunc('hour', timestamp '2001-02-16 20:38:40')", "2001-02-16 20:00:00"),
        ("date_trunc('year', timestamp '2001-02-16 20:38:40')", "2001-01-01 00:00:00"),
        ("date_trunc('hour', interval '3 days 02:47:33')", "3 days 02:00:00"),
        ("date_trunc('week', timestamp '2001-02-16 20:38:40')", "2001-02-12 00:00:00"),
        ("date_trunc('quarter', timestamp '2001-12-16')", "2001-10-01 00:00:00"),
        ("date_trunc('decade', timestamp '2009-12-31')", "2000-01-01 00:00:00"),
        ("date_trunc('century', timestamp '2000-12-31')", "1901-01-01 00:00:00"),
        ("date_trunc('millennium', timestamp '2001-12-31')", "2001-01-01 00:00:00"),
        ("date_trunc('milliseconds', timestamp '2001-12-31 01:02:03.456789')", "2001-12-31 01:02:03.456"),
        ("date_trunc('day', timestamp '-infinity')", "-infinity"),
        ("date_trunc('quarter', interval '1 year 5 months 3 days')", "1 year 3 mons"),
        ("date_trunc('century', interval '-150 years')", "-100 years"),
        ("date_trunc('day', interval 'infinity')", "infinity"),
        ("date_trunc('day', timestamptz '2001-02-16 20:38:40+00', 'Australia/Sydney')", "2001-02-16 13:00:00+00"),
        ("date_trunc('day', NULL::timestamp)", None),
    ],
)
def test_a_moment_is_truncated_to_a_unit(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        (
            "date_trunc('timezone', timestamp '2024-01-01')",
            "0A000",
            "unit not supported for type timestamp without time zone",
        ),
        (
            "date_trunc('fortnight', timestamp '2024-01-01')",
            "22023",
            "unit not recognized for type timestamp without time zone",
        ),
        ("date_trunc('week', interval '1 day')", "0A000", "unit not supported for type interval"),
        ("date_trunc('day', timestamptz '2024-01-01', 'Nowhere')", "22023", "time zone not recognized"),
    ],
)
def test_a_unit_that_a_type_does_not_have_is_an_error(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)
