"""real and double precision: order, arithmetic, rounding and casts (the manual's 8.1.3 and 9.3)."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # NaN equals NaN and is greater than all other values.
        ("'NaN'::float8 = 'NaN'::float8", "t"),
        ("'NaN'::float8 <> 'NaN'::float8", "f"),
        ("'NaN'::float8 > 'Infinity'::float8", "t"),
        ("'NaN'::float4 >= 'NaN'::float8", "t"),
        ("'-Infinity'::float8 < 'NaN'::float8", "t"),
        ("'-0'::float8 = '0'::float8", "t"),
        ("btfloat8cmp('NaN', 1)", "1"),
        ("btfloat48cmp(1, 'NaN')", "-1"),
        ("float8larger('NaN', 1)", "NaN"),
        ("float8smaller('NaN', 1)", "1"),
        ("0.1::float4 = 0.1::float8", "f"),
        # Arithmetic.
        ("2::float8 + 3.5::float8", "5.5"),
        ("0.1::float8 + 0.2::float8", "0.30000000000000004"),
        ("0.1::float4 + 0.2::float4", "0.3"),
        ("0.1::float4 + 0.2::float8", "0.30000000149011613"),
        ("'Infinity'::float8 - 'Infinity'::float8", "NaN"),
        ("'Infinity'::float8 * 0::float8", "NaN"),
        ("1::float8 / 'Infinity'::float8", "0"),
        ("'NaN'::float8 / 0::float8", "NaN"),
        ("- '0'::float8", "-0"),
        ("@ (-5.5)::float8", "5.5"),
        # The manual's examples of rounding. Ties go to the even number.
        ("round(42.4::float8)", "42"),
        ("round(2.5::float8)", "2"),
        ("round((-2.5)::float8)", "-2"),
        ("ceil(42.2::float8)", "43"),
        ("ceiling((-42.8)::float8)", "-42"),
        ("floor(42.8::float8)", "42"),
        ("floor((-42.8)::float8)", "-43"),
        ("trunc(42.8::float8)", "42"),
        ("trunc((-42.8)::float8)", "-42"),
        ("sign((-8.4)::float8)", "-1"),
        ("sign('NaN'::float8)", "0"),
        # Casts.
        ("2.5::float8::integer", "2"),
        ("3.5::float8::integer", "4"),
        ("(-2.5)::float4::smallint", "-2"),
        ("9007199254740993::bigint::float8", "9.007199254740992e+15"),
        ("16777217::float4", "1.6777216e+07"),
        ("0.1::float4::float8", "0.10000000149011612"),
        ("'NaN'::float8::float4", "NaN"),
        ("'Infinity'::float8::float4", "Infinity"),
        ("NULL::float8 + 1", None),
        ("NULL::float8 > 'NaN'::float8", None),
        ("round(NULL::float8)", None),
    ],
)
def test_floating_point_numbers(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("1e308::float8 * 10", "22003", "value out of range: overflow"),
        ("1e308::float8 + 1e308::float8", "22003", "value out of range: overflow"),
        ("(-1e308)::float8 - 1e308::float8", "22003", "value out of range: overflow"),
        ("1e-308::float8 * 1e-308::float8", "22003", "value out of range: underflow"),
        ("1e-308::float8 / 1e308::float8", "22003", "value out of range: underflow"),
        ("1e308::float8 / 1e-308::float8", "22003", "value out of range: overflow"),
        ("1e38::float4 * 10::float4", "22003", "value out of range: overflow"),
        ("1::float8 / 0::float8", "22012", "division by zero"),
        ("'Infinity'::float4 / 0::float4", "22012", "division by zero"),
        ("1e39::float8::float4", "22003", "value out of range: overflow"),
        ("1e-50::float8::float4", "22003", "value out of range: underflow"),
        ("32767.5::float8::smallint", "22003", "smallint out of range"),
        ("2147483647.5::float8::integer", "22003", "integer out of range"),
        ("9223372036854775808::float8::bigint", "22003", "bigint out of range"),
        ("'NaN'::float8::integer", "22003", "integer out of range"),
        ("'Infinity'::float4::bigint", "22003", "bigint out of range"),
    ],
)
def test_the_error_of_a_floating_point_number(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)


def test_the_last_value_before_the_limit_is_rounded_to_an_integer():
    assert value("32767.4999999999::float8::smallint") == "32767"
    assert value("(-32768.5)::float8::smallint") == "-32768"
    assert value("9223372036854774784::float8::bigint") == "9223372036854774784"
