"""bit and bit varying: the examples of the manual (9.6), casts, and errors."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The table of bit string operators.
        ("B'10001' || B'011'", "10001011"),
        ("B'10001' & B'01101'", "00001"),
        ("B'10001' | B'01101'", "11101"),
        ("B'10001' # B'01101'", "11100"),
        ("~ B'10001'", "01110"),
        ("B'10001' << 3", "01000"),
        ("B'10001' >> 2", "00100"),
        # The table of bit string functions.
        ("bit_count(B'10111')", "4"),
        ("bit_length(B'10111')", "5"),
        ("length(B'10111')", "5"),
        ("octet_length(B'1011111011')", "2"),
        ("overlay(B'01010101010101010' placing B'11111' from 2 for 3)", "0111110101010101010"),
        ("overlay(B'0101010101' placing B'111' from 2)", "0111010101"),
        ("position(B'010' in B'000001101011')", "8"),
        ("position(B'11' in B'0')", "0"),
        ("position(B'' in B'0')", "1"),
        ("substring(B'110010111111' from 3 for 2)", "00"),
        ("substring(B'110010111111' from 9)", "1111"),
        ("get_bit(B'101010101010101010', 6)", "1"),
        ("set_bit(B'101010101010101010', 6, 0)", "101010001010101010"),
        # Casts.
        ("44::bit(10)", "0000101100"),
        ("44::bit(3)", "100"),
        ("(-44)::bit(12)", "111111010100"),
        ("(-1)::bigint::bit(66)", "1" * 66),
        ("'1110'::bit(4)::integer", "14"),
        (f"B'{'1' * 32}'::bit(32)::integer", "-1"),
        (f"B'{'1' * 64}'::bit(64)::bigint", "-1"),
        ("B'101'::bit(5)", "10100"),
        ("B'101'::bit(2)", "10"),
        ("B'101'::varbit(2)", "10"),
        ("B'101'::varbit(5)", "101"),
        # A shift by more than the length, and by a negative count.
        ("B'10001' << 5", "00000"),
        ("B'10001' << -2", "00100"),
        ("B'10001' >> -3", "01000"),
        ("B'10001' << (-2147483648)", "00000"),
        # Parts that reach over an end.
        ("substring(B'1100' from -1 for 3)", "1"),
        ("substring(B'1100' from 4 for 2147483647)", "0"),
        ("substring(B'1100' from 5)", ""),
        # A prefix comes first, also where only zeros follow it.
        ("B'10' < B'100'", "t"),
        ("B'10' = B'100'", "f"),
        ("B'011' < B'10'", "t"),
        ("B'10'::varbit >= B'1'::varbit", "t"),
        ("NULL::bit(3) & B'101'", None),
        ("bit_count(NULL::varbit)", None),
    ],
)
def test_bit_strings(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("B'1' & B'10'", "22026", "cannot AND bit strings of different sizes"),
        ("B'1' | B'10'", "22026", "cannot OR bit strings of different sizes"),
        ("B'1' # B'10'", "22026", "cannot XOR bit strings of different sizes"),
        ("substring(B'1100' from 2 for -1)", "22011", "negative substring length not allowed"),
        ("overlay(B'1100' placing B'1' from 0)", "22011", "negative substring length not allowed"),
        ("overlay(B'1100' placing B'1' from 2147483647 for 2147483647)", "22003", "integer out of range"),
        ("get_bit(B'1', 1)", "2202E", "bit index out of valid range"),
        ("get_bit(B'1', -1)", "2202E", "bit index out of valid range"),
        ("set_bit(B'1', 1, 1)", "2202E", "bit index out of valid range"),
        ("set_bit(B'1', 0, 2)", "22023", "new bit must be 0 or 1"),
        (f"B'{'1' * 33}'::integer", "22003", "integer out of range"),
        (f"B'{'1' * 65}'::bigint", "22003", "bigint out of range"),
    ],
)
def test_the_error_of_a_bit_string(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)
