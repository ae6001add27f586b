"""numeric: the examples of the manual (9.3), scales, special values, casts and errors."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The tables of mathematical operators and functions.
        ("5.0 / 2", "2.5000000000000000"),
        ("1.0 / 3", "0.33333333333333333333"),
        ("2.0 * 3.50", "7.000"),
        ("2 - 3.5", "-1.5"),
        ("abs(-17.4)", "17.4"),
        ("@ (-5.0)", "5.0"),
        ("ceil(42.2)", "43"),
        ("ceil(-42.8)", "-42"),
        ("ceiling(95.3)", "96"),
        ("div(9, 4)", "2"),
        ("div(-9.5, 4)", "-2"),
        ("factorial(5)", "120"),
        ("factorial(0)", "1"),
        ("floor(42.8)", "42"),
        ("floor(-42.8)", "-43"),
        ("gcd(1071.0, 462)", "21.0"),
        ("lcm(1071.0, 462)", "23562.0"),
        ("min_scale(8.4100)", "2"),
        ("mod(9.5, 4)", "1.5"),
        ("mod(-9.5, 4)", "-1.5"),
        ("round(42.4)", "42"),
        ("round(42.4382, 2)", "42.44"),
        ("round(1234.56, -1)", "1230"),
        ("scale(8.4100)", "4"),
        ("sign(-8.4)", "-1"),
        ("sqrt(2.0)", "1.414213562373095"),
        ("trim_scale(8.4100)", "8.41"),
        ("trunc(42.8)", "42"),
        ("trunc(-42.8)", "-42"),
        ("trunc(42.4382, 2)", "42.43"),
        ("trunc(1299, -2)", "1200"),
        # Ties are rounded away from zero.
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("2.5::numeric::integer", "3"),
        ("round(0.5::numeric, -1)", "0"),
        # Values that differ in their scales only are equal.
        ("1.0 = 1.00", "t"),
        ("numeric_cmp(1.0, 1.00)", "0"),
        ("numeric_larger(1.0, 1.00)", "1.00"),
        ("numeric_smaller(1.0, 1.00)", "1.00"),
        # NaN equals NaN, and is greater than all other values, also infinity.
        ("'NaN'::numeric = 'NaN'::numeric", "t"),
        ("'NaN'::numeric > 'Infinity'::numeric", "t"),
        ("'-Infinity'::numeric < -1e100", "t"),
        ("'NaN'::numeric <= 1", "f"),
        ("'Infinity'::numeric - 'Infinity'::numeric", "NaN"),
        ("'Infinity'::numeric * 0", "NaN"),
        ("'Infinity'::numeric * -2", "-Infinity"),
        ("1 / 'Infinity'::numeric", "0"),
        ("'-Infinity'::numeric / 2", "-Infinity"),
        ("'Infinity'::numeric / 'Infinity'::numeric", "NaN"),
        ("'NaN'::numeric / 0", "NaN"),
        ("mod(5.5, 'Infinity')", "5.5"),
        ("mod('Infinity'::numeric, 2)", "NaN"),
        ("div('Infinity'::numeric, -2)", "-Infinity"),
        ("sign('NaN'::numeric)", "NaN"),
        ("sign('-Infinity'::numeric)", "-1"),
        ("sqrt('Infinity'::numeric)", "Infinity"),
        ("scale('NaN'::numeric)", None),
        ("min_scale('Infinity'::numeric)", None),
        ("gcd('NaN'::numeric, 2)", "NaN"),
        ("numeric_inc(1.50)", "2.50"),
        ("numeric_uplus(-1.50)", "-1.50"),
        # Type modifiers.
        ("1.005::numeric(5,2)", "1.01"),
        ("149::numeric(1,-2)", "100"),
        ("0.00126::numeric(2,4)", "0.0013"),
        ("'NaN'::numeric(3,1)", "NaN"),
        # Casts of floating-point numbers keep 15 or 6 digits.
        ("0.1::float8::numeric", "0.1"),
        ("1e20::float8::numeric", "100000000000000000000"),
        ("123456789.123456789::float8::numeric", "123456789.123457"),
        ("3.14159265::float4::numeric", "3.14159"),
        ("'-Infinity'::float8::numeric", "-Infinity"),
        ("'NaN'::numeric::float4", "NaN"),
        ("(-0.4)::numeric::smallint", "0"),
        ("9223372036854775807.4::bigint", "9223372036854775807"),
        ("NULL::numeric + 1", None),
        ("round(1.5, NULL)", None),
        ("NULL::numeric / 0", None),
    ],
)
def test_numbers(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("1.5 / 0", "22012", "division by zero"),
        ("'Infinity'::numeric / 0", "22012", "division by zero"),
        ("mod(1.5, 0)", "22012", "division by zero"),
        ("div(1.5, 0)", "22012", "division by zero"),
        ("1e131071 * 10", "22003", "value overflows numeric format"),
        ("sqrt(-1.0)", "2201F", "cannot take square root of a negative number"),
        ("sqrt('-Infinity'::numeric)", "2201F", "cannot take square root of a negative number"),
        ("factorial(-1)", "22003", "factorial of a negative number is undefined"),
        ("factorial(32178)", "22003", "value overflows numeric format"),
        ("1234.5::numeric(5,2)", "22003", "numeric field overflow"),
        ("'Infinity'::numeric::numeric(5,2)", "22003", "numeric field overflow"),
        ("32767.5::numeric::smallint", "22003", "smallint out of range"),
        ("9223372036854775807.5::bigint", "22003", "bigint out of range"),
        ("'NaN'::numeric::integer", "0A000", "cannot convert NaN to integer"),
        ("'Infinity'::numeric::bigint", "0A000", "cannot convert infinity to bigint"),
        ("1e-400::numeric::float8", "22003", "value out of range for type double precision"),
        ("1e400::numeric::float8", "22003", "value out of range for type double precision"),
        ("1e40::numeric::float4", "22003", "value out of range for type real"),
    ],
)
def test_the_error_of_a_number(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)
