"""pg_lsn: comparison, differences and sums (the manual's 8.20)."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'0/FFFFFFFF'::pg_lsn < '1/0'::pg_lsn", "t"),
        ("'FFFFFFFF/0'::pg_lsn > '7FFFFFFF/0'::pg_lsn", "t"),
        ("pg_lsn_cmp('0/1', '0/2')", "-1"),
        ("pg_lsn_larger('0/1', '0/2')", "0/2"),
        ("pg_lsn_smaller('0/1', '0/2')", "0/1"),
        ("'1/0'::pg_lsn - '0/FFFFFFFF'::pg_lsn", "1"),
        ("pg_wal_lsn_diff('0/0', 'FFFFFFFF/FFFFFFFF')", "-18446744073709551615"),
        ("'0/0'::pg_lsn + 16::numeric", "0/10"),
        ("16::numeric + '0/0'::pg_lsn", "0/10"),
        ("'1/0'::pg_lsn - 1::numeric", "0/FFFFFFFF"),
        # The sum is rounded, and not the number that is added.
        ("'0/1'::pg_lsn + 0.5", "0/2"),
        ("'0/2'::pg_lsn - 0.5", "0/2"),
        ("pg_lsn(18446744073709551615.4)", "FFFFFFFF/FFFFFFFF"),
        ("pg_lsn(-0.4)", "0/0"),
        ("'0/1'::pg_lsn - NULL::pg_lsn", None),
    ],
)
def test_positions(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("pg_lsn(18446744073709551616)", "22023", "pg_lsn out of range"),
        ("pg_lsn(18446744073709551615.5)", "22023", "pg_lsn out of range"),
        ("pg_lsn(-0.5)", "22023", "pg_lsn out of range"),
        ("'0/0'::pg_lsn - 1::numeric", "22023", "pg_lsn out of range"),
        ("'FFFFFFFF/FFFFFFFF'::pg_lsn + 1::numeric", "22023", "pg_lsn out of range"),
        ("pg_lsn('NaN'::numeric)", "0A000", "cannot convert NaN to pg_lsn"),
        ("pg_lsn('Infinity'::numeric)", "0A000", "cannot convert infinity to pg_lsn"),
        ("'0/0'::pg_lsn + 'NaN'::numeric", "0A000", "cannot add NaN to pg_lsn"),
        ("'0/0'::pg_lsn - 'NaN'::numeric", "0A000", "cannot subtract NaN from pg_lsn"),
        ("'0/0'::pg_lsn - 'Infinity'::numeric", "0A000", "cannot convert infinity to pg_lsn"),
    ],
)
def test_the_error_of_a_position(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)
