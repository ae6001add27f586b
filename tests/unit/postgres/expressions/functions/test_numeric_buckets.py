"""width_bucket of numeric: what the server gave (rule B11)."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("5.35, 0.024, 10.06, 5", "3"),
        ("-1.0, 10.0, 0.0, 5", "6"),
        ("11.0, 10.0, 0.0, 5", "0"),
        ("0.024, 0.024, 10.06, 5", "1"),
        ("10.06, 0.024, 10.06, 5", "6"),
        ("numeric 'Infinity', 0.0, 1.0, 5", "6"),
    ],
)
def test_a_value_is_in_the_servers_bucket(arguments, expected):
    assert value(f"width_bucket({arguments})") == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("1.0, 2.0, 2.0, 5", "lower bound cannot equal upper bound"),
        ("1.0, 2.0, 3.0, 0", "count must be greater than zero"),
        ("numeric 'NaN', 2.0, 3.0, 5", "operand, lower bound, and upper bound cannot be NaN"),
        ("1.0, 2.0, numeric 'Infinity', 5", "lower and upper bounds must be finite"),
    ],
)
def test_an_argument_that_is_refused_has_the_servers_error(arguments, message):
    assert failure(f"width_bucket({arguments})") == ("2201G", message)
