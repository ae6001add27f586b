"""The shortest decimal of a number, as PostgreSQL 18 writes it; thousands more are compared in
tests/conformance.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.float_text import double_text, real_text, rounded_to_real


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "-0"), (float("nan"), "NaN"), (float("-inf"), "-Infinity"), (100.0, "100"), (-1.5, "-1.5"), (0.1, "0.1"),
        (0.0001, "0.0001"), (0.00001, "1e-05"), (999999999999999.0, "999999999999999"), (1e15, "1e+15"), (123456789012345.6, "123456789012345.6"),
        (5e-324, "5e-324"), (2.2250738585072014e-308, "2.2250738585072014e-308"), (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740993.0, "9.007199254740992e+15"), (1e100, "1e+100"), (2.0**-1022 * 1.5, "3.337610787760802e-308"),
    ],
)  # fmt: skip
def test_double_precision_has_an_exponent_from_fifteen_digits_on(value, text):
    assert double_text(value) == text


def test_a_decimal_exactly_between_two_numbers_is_not_used():
    """Python's repr of this one is 1e+23, which lies exactly between it and the next, and is read
    as this one by the even bit.
    """
    assert repr(1e23) == "1e+23"
    assert double_text(1e23) == "9.999999999999999e+22"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"), (999999, "999999"), (1e6, "1e+06"), (123456.7, "123456.7"), (16777216, "1.6777216e+07"), (1e-45, "1e-45"),
        (1.17549435e-38, "1.1754944e-38"), (3.4028235e38, "3.4028235e+38"), (33554432, "3.3554432e+07"), (8.5899346e9, "8.589935e+09"),
        (-0.0, "-0"), (float("inf"), "Infinity"),
    ],
)  # fmt: skip
def test_a_real_has_an_exponent_from_six_digits_on(value, text):
    assert real_text(float(np.float32(value))) == text


@given(st.floats(allow_nan=False))
def test_a_double_reads_back(value):
    assert repr(float(double_text(value))) == repr(value)


@given(st.floats(width=32, allow_nan=False))
def test_a_real_reads_back(value):
    assert repr(float(np.float32(real_text(value)))) == repr(value)


def test_a_double_is_rounded_to_the_nearest_real():
    assert rounded_to_real(0.1) == 0.10000000149011612
    assert rounded_to_real(16777217.0) == 16777216.0
