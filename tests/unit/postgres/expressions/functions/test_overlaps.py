"""OVERLAPS: the examples of the manual (9.9), and NULL as the SQL standard has it."""

from __future__ import annotations

import pytest

from tests.filter_expressions import value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            "(timestamp '2001-02-16', timestamp '2001-12-21') OVERLAPS (timestamp '2001-10-30', timestamp '2002-10-30')",
            "t",
        ),
        (
            "(timestamp '2001-02-16', interval '100 days') OVERLAPS (timestamp '2001-10-30', timestamp '2002-10-30')",
            "f",
        ),
        (
            "(timestamp '2001-10-29', timestamp '2001-10-30') OVERLAPS (timestamp '2001-10-30', timestamp '2001-10-31')",
            "f",
        ),
        (
            "(timestamp '2001-10-30', timestamp '2001-10-30') OVERLAPS (timestamp '2001-10-30', timestamp '2001-10-31')",
            "t",
        ),
        # An end that is before its start begins the period.
        (
            "(timestamp '2001-12-21', timestamp '2001-02-16') OVERLAPS (timestamp '2002-10-30', timestamp '2001-10-30')",
            "t",
        ),
        # Times, also with lengths on either side.
        ("(time '10:00', time '12:00') OVERLAPS (time '11:00', time '13:00')", "t"),
        ("(time '10:00', interval '1 hour') OVERLAPS (time '11:00', interval '1 hour')", "f"),
        ("(time '10:00', time '12:00') OVERLAPS (time '11:00', interval '1 hour')", "t"),
        ("(timetz '10:00+00', timetz '12:00+00') OVERLAPS (timetz '13:00+02', timetz '13:30+02')", "t"),
        ("(timestamp '2024-01-01', interval '1 day') OVERLAPS (timestamp '2024-01-01 12:00', interval '1 day')", "t"),
        (
            """(timestamptz '2024-01-01', timestamptz '2024-01-02')
               OVERLAPS (timestamptz '2024-01-02', timestamptz '2024-01-03')""",
            "f",
        ),
        # NULL: the result is certain if the known ends decide.
        ("(time '10:00', NULL::time) OVERLAPS (time '11:00', time '12:00')", None),
        ("(time '10:00', time '12:00') OVERLAPS (time '11:00', NULL::time)", "t"),
        ("(time '10:00', time '10:30') OVERLAPS (time '11:00', NULL::time)", None),
        ("(time '10:00', NULL::time) OVERLAPS (time '10:00', time '12:00')", None),
        ("(time '10:00', time '11:00') OVERLAPS (time '10:00', NULL::time)", None),
        ("(NULL::time, time '12:00') OVERLAPS (time '11:00', time '12:30')", "t"),
        ("(NULL::time, NULL::time) OVERLAPS (time '11:00', time '12:00')", None),
    ],
)
def test_periods_overlap(expression, expected):
    assert value(expression) == expected
