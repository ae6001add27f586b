"""Mathematical functions of double precision: the manual's examples (9.3), and errors."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cbrt(64.0)", "4"),
        ("||/ 64.0", "4"),
        ("|/ 25.0", "5"),
        ("sqrt(2::float8)", "1.4142135623730951"),
        ("degrees(0.5)", "28.64788975654116"),
        ("radians(45.0)", "0.7853981633974483"),
        ("exp(1.0::float8)", "2.718281828459045"),
        ("ln(2.0::float8)", "0.6931471805599453"),
        ("log(100::float8)", "2"),
        ("log10(1000::float8)", "3"),
        ("pi()", "3.141592653589793"),
        ("power(9::float8, 3)", "729"),
        ("2::float8 ^ 3::float8", "8"),
        # Infinities and NaN, as POSIX and the manual have them.
        ("exp('-Infinity'::float8)", "0"),
        ("ln('Infinity'::float8)", "Infinity"),
        ("power('NaN'::float8, 0)", "1"),
        ("power(1, 'NaN'::float8)", "1"),
        ("power('-Infinity'::float8, 3)", "-Infinity"),
        ("power('-Infinity'::float8, -3)", "-0"),
        ("power(0.5::float8, 'Infinity')", "0"),
        ("power(-1::float8, 'Infinity')", "1"),
        ("sqrt('Infinity'::float8)", "Infinity"),
        ("cbrt((-64)::float8)", "-4"),
        # Trigonometric functions.
        ("acos(1)", "0"),
        ("asin(1)", "1.5707963267948966"),
        ("atan(1)", "0.7853981633974483"),
        ("atan2(1, 0)", "1.5707963267948966"),
        ("cos(0)", "1"),
        ("sin(0)", "0"),
        ("tan(0)", "0"),
        ("cot(0)", "Infinity"),
        ("sin('NaN'::float8)", "NaN"),
        # Functions of degrees are exact for whole angles.
        ("sind(30)", "0.5"),
        ("cosd(60)", "0.5"),
        ("tand(45)", "1"),
        ("cotd(135)", "-1"),
        ("tand(-90)", "-Infinity"),
        ("asind(0.5)", "30"),
        ("acosd(-0.5)", "120"),
        ("atand(1)", "45"),
        ("atan2d(1, -1)", "135"),
        ("sind('NaN'::float8)", "NaN"),
        # Hyperbolic functions.
        ("sinh(0)", "0"),
        ("cosh(0)", "1"),
        ("cosh(1000)", "Infinity"),
        ("sinh(-1000)", "-Infinity"),
        ("tanh(1000)", "1"),
        ("asinh(0)", "0"),
        ("acosh(1)", "0"),
        ("atanh(1)", "Infinity"),
        ("atanh(-1)", "-Infinity"),
        ("power(NULL::float8, 0)", None),
        ("sqrt(NULL::float8)", None),
    ],
)
def test_mathematical_functions(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("sqrt((-1)::float8)", "2201F", "cannot take square root of a negative number"),
        ("ln(0::float8)", "2201E", "cannot take logarithm of zero"),
        ("ln((-1)::float8)", "2201E", "cannot take logarithm of a negative number"),
        ("log('-Infinity'::float8)", "2201E", "cannot take logarithm of a negative number"),
        ("power(0::float8, -1)", "2201F", "zero raised to a negative power is undefined"),
        (
            "power((-1)::float8, 0.5)",
            "2201F",
            "a negative number raised to a non-integer power yields a complex result",
        ),
        ("power(10::float8, 400)", "22003", "value out of range: overflow"),
        ("power(10::float8, -400)", "22003", "value out of range: underflow"),
        ("exp(1000::float8)", "22003", "value out of range: overflow"),
        ("exp((-1000)::float8)", "22003", "value out of range: underflow"),
        ("degrees(1e307)", "22003", "value out of range: overflow"),
        ("radians(5e-324::float8)", "22003", "value out of range: underflow"),
        ("acos(2)", "22003", "input is out of range"),
        ("asin(-1.1)", "22003", "input is out of range"),
        ("acosh(0)", "22003", "input is out of range"),
        ("atanh(2)", "22003", "input is out of range"),
        ("sin('Infinity'::float8)", "22003", "input is out of range"),
    ],
)
def test_the_error_of_a_mathematical_function(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)
