"""smallint, integer, bigint and oid: the examples of the manual (9.3), and the limits."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value

LEAST = {"smallint": -(2**15), "integer": -(2**31), "bigint": -(2**63)}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The table of mathematical operators.
        ("2 + 3", "5"),
        ("+ 3", "3"),
        ("2 - 3", "-1"),
        ("- (-4)", "4"),
        ("2 * 3", "6"),
        ("5 / 2", "2"),
        ("(-5) / 2", "-2"),
        ("5 % 4", "1"),
        ("(-5) % 4", "-1"),
        ("5 % (-4)", "1"),
        ("@ (-5)", "5"),
        ("91 & 15", "11"),
        ("32 | 3", "35"),
        ("17 # 5", "20"),
        ("~ 1", "-2"),
        ("1 << 4", "16"),
        ("8 >> 2", "2"),
        ("(-8) >> 1", "-4"),
        # The table of mathematical functions.
        ("abs(-17)", "17"),
        ("gcd(1071, 462)", "21"),
        ("gcd(-4, 0)", "4"),
        ("gcd(0, 0)", "0"),
        ("lcm(1071, 462)", "23562"),
        ("lcm(-4, 6)", "12"),
        ("lcm(4, 0)", "0"),
        ("mod(9, 4)", "1"),
        # The width of the result is that of the wider operand.
        ("1::smallint + 32767", "32768"),
        ("2147483647 + 1::bigint", "2147483648"),
        ("2::smallint < 3::bigint", "t"),
        ("7::bigint = 7::smallint", "t"),
        # A shift counts the bits that a C compiler shifts by: its last 5 or 6 bits.
        ("1 << 33", "2"),
        ("1::bigint << 65", "2"),
        ("1::smallint << 16", "0"),
        # A remainder by -1 is 0, and does not overflow as the quotient does.
        ("(-9223372036854775808) % (-1)::bigint", "0"),
        ("(-2147483648) % (-1)", "0"),
        # Comparison functions: a difference for smallint, a sign for the others.
        ("btint2cmp(7::smallint, 2::smallint)", "5"),
        ("btint4cmp(7, 2)", "1"),
        ("btint48cmp(2, 7)", "-1"),
        ("int4larger(2, 7)", "7"),
        ("int8smaller(2, 7)", "2"),
        ("0::boolean", "f"),
        ("(-7)::boolean", "t"),
        # oid has no sign.
        ("4294967295::bigint::oid > 1::oid", "t"),
        ("btoidcmp(1::oid, 4294967295::bigint::oid)", "-1"),
        ("oidlarger(1::oid, 2::oid)", "2"),
        ("oidsmaller(1::oid, 2::oid)", "1"),
        ("4294967295::bigint::oid::bigint", "4294967295"),
        ("NULL::int + 1", None),
        ("1 / NULL::int", None),
        ("mod(NULL, 0)", None),
        ("gcd(1, NULL)", None),
    ],
)
def test_integers(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(("name", "least"), LEAST.items())
@pytest.mark.parametrize(
    "expression",
    [
        "{greatest} + {one}",
        "{least} - {one}",
        "{least} * {minus_one}",
        "{least} / {minus_one}",
        "- {least}",
        "abs({least})",
        "@ {least}",
    ],
)
def test_a_result_that_the_type_does_not_hold_is_out_of_range(name, least, expression):
    constants = {"least": least, "greatest": -least - 1, "one": 1, "minus_one": -1}
    typed = {word: f"({number})::{name}" for word, number in constants.items()}
    assert failure(expression.format(**typed)) == ("22003", f"{name} out of range")


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("1 / 0", "22012", "division by zero"),
        ("1::smallint % 0::smallint", "22012", "division by zero"),
        ("mod(1::bigint, 0)", "22012", "division by zero"),
        ("32768::smallint", "22003", "smallint out of range"),
        ("2147483648::integer", "22003", "integer out of range"),
        ("(-1)::bigint::oid", "22003", "OID out of range"),
        ("4294967296::oid", "22003", "OID out of range"),
        ("gcd(-2147483648, 0)", "22003", "integer out of range"),
        ("lcm(2147483647, 2147483646)", "22003", "integer out of range"),
        ("lcm(9223372036854775807, 2::bigint)", "22003", "bigint out of range"),
    ],
)
def test_the_error_of_an_integer(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)
