"""numeric: regress/sql/numeric.sql, and the bytes of numeric_send."""

from __future__ import annotations

import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException
from subscriber.postgres.types.numeric import at_scale, canonical_inside, checked, coerced, scale_of
from subscriber.postgres.types.registry import equality_of
from tests.type_samples import (
    OIDS,
    SAMPLES,
    canonical,
    form,
    from_binary,
    from_text,
    order_of,
    read,
    refused,
    refused_binary,
    refused_text,
    shown,
)

FINITE = st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20).map(
    lambda value: value or value.copy_abs()
)
"""Numbers with six decimals; there is no negative zero."""


def modifier(precision: int, scale: int) -> int:
    """The type modifier of ``numeric(precision, scale)`` (make_numeric_typmod)."""
    return (precision << 16 | scale & 0x7FF) + 4


def header(digits: int, weight: int, sign: int, scale: int, *groups: int) -> bytes:
    """The bytes that numeric_send writes."""
    return struct.pack(f">HhHH{len(groups)}H", digits, weight, sign, scale, *groups)


# --- input and output ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1.50", "1.50"), (" 123", "123"), ("   3245874    ", "3245874"), ("  -93853", "-93853"), ("555.50", "555.50"), ("-555.50", "-555.50"),
        (".5", "0.5"), ("5.", "5"), ("+1", "1"), ("-0", "0"), ("-0.00", "0.00"), ("007.10", "7.10"),
        ("1e3", "1000"), ("1.5e-3", "0.0015"), ("1.50E+1", "15.0"), ("-1.5e3", "-1500"),
        ("0e200000", "0"), ("-0.00e5", "0"), ("0.00e1", "0.0"), ("0e-2", "0.00"), ("0e1073741823", "0"),
        ("NaN ", "NaN"), ("        nan", "NaN"), ("inf", "Infinity"), (" +inf ", "Infinity"), (" -INFINITY ", "-Infinity"),
        ("0b10001110111100111100001001010", "299792458"), ("  0B_1001", "9"), ("0o234", "156"), ("-0x12_Ab", "-4779"), ("+0Xff", "255"),
        ("12_000.123_456", "12000.123456"), ("1_0e1_0", "100000000000"), ("0xffffffffffffffffff", "4722366482869645213695"),
    ],
)  # fmt: skip
def test_a_number_is_read_with_its_scale(text, written):
    assert shown("numeric", text) == written


@pytest.mark.parametrize(
    "text",
    ["", "     ", "   1234   %", "xyz", "- 1234", "5 . 0", "5. 0   ", " N aN ", "+NaN", "-NaN", "+ infinity", ".", "-.", "e5", "1e", "1e+",
     "1..2", "0b", "0o", "0x", "0b1112", "0o12g8", "0x12.3", "_123", "123_", "12__3", "1_.2", "1._2", "1e_5", "1e5_", "1.2_", "--1", "\u0661"],
)  # fmt: skip
def test_a_text_that_is_not_a_number_is_refused(text):
    error = refused("numeric", text)
    assert (error.sqlstate, error.message) == ("22P02", "invalid input syntax for type numeric")
    assert error.quoting == f'invalid input syntax for type numeric: "{text}"'


@pytest.mark.parametrize(
    "text", ["0e1073741824", "1e131072", "0e-16384", "1e-16384", "1e400000", "1e99999999999999999999", "9" * 131_073]
)
def test_a_number_that_does_not_fit_is_an_overflow(text):
    error = refused("numeric", text)
    assert (error.sqlstate, error.message) == ("22003", "value overflows numeric format")


def test_the_longest_numbers_fit():
    assert read("numeric", "1e131071").adjusted() == 131_071
    assert scale_of(read("numeric", "1e-16383")) == 16_383
    assert shown("numeric", "9" * 131_072) == "9" * 131_072


@pytest.mark.parametrize(
    ("text", "precision", "scale", "written"),
    [
        ("1.255", 3, 2, "1.26"), ("-1.255", 3, 2, "-1.26"), ("1.254", 3, 2, "1.25"), ("7", 5, 2, "7.00"), ("9.994", 3, 2, "9.99"), ("NaN", 3, 2, "NaN"),
        ("12345", 3, -6, "0"), ("123456", 3, -6, "0"), ("1234567", 3, -6, "1000000"), ("999499999", 3, -6, "999000000"),
        ("0.000012345", 3, 6, "0.000012"), ("0.00099949", 3, 6, "0.000999"), ("-0.4", 1, 0, "0"), ("0.5", 1, 0, "1"), ("0", 2, 2, "0.00"),
    ],
)  # fmt: skip
def test_a_number_is_rounded_to_the_scale_of_its_type(text, precision, scale, written):
    assert shown("numeric", text, modifier(precision, scale)) == written


@pytest.mark.parametrize(
    ("text", "precision", "scale", "detail"),
    [
        ("9.995", 3, 2, "A field with precision 3, scale 2 must round to an absolute value less than 10^1."),
        ("1.0", 4, 4, "A field with precision 4, scale 4 must round to an absolute value less than 1."),
        ("999500000", 3, -6, "A field with precision 3, scale -6 must round to an absolute value less than 10^9."),
        ("0.0009995", 3, 6, "A field with precision 3, scale 6 must round to an absolute value less than 10^-3."),
        ("Inf", 4, 4, "A field with precision 4, scale 4 cannot hold an infinite value."),
        ("-Inf", 4, 4, "A field with precision 4, scale 4 cannot hold an infinite value."),
    ],
)
def test_a_number_that_its_type_cannot_hold_is_an_overflow_of_the_field(text, precision, scale, detail):
    error = refused("numeric", text, modifier(precision, scale))
    assert (error.sqlstate, error.message, error.detail) == ("22003", "numeric field overflow", detail)


@given(FINITE)
def test_every_number_is_read_back_as_it_was_written(value):
    text = form("numeric").to_text(value)
    assert shown("numeric", text) == text
    assert from_text("numeric", text.encode()) == [text]


def test_a_column_is_read_as_each_of_its_texts():
    texts = ["1.50", None, "NaN", "-Infinity", "0.00"]
    from_texts = form("numeric").from_texts
    assert from_texts is not None
    found = from_texts(pa.array(texts, pa.string()))
    assert [None if one is None else str(one) for one in found] == texts
    assert from_texts(pa.array([None], pa.string())) == [None]
    with pytest.raises(DataException) as caught:
        from_texts(pa.array(["1.5", " 1"], pa.string()))
    assert caught.value.sqlstate == "22P02"


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "scale", "rounded"),
    [("1.25", 1, "1.3"), ("-1.25", 1, "-1.3"), ("1.5", 3, "1.500"), ("1450", -2, "1500"), ("44", -2, "0")],
)
def test_a_half_is_rounded_away_from_zero(value, scale, rounded):
    assert f"{at_scale(Decimal(value), scale):f}" == rounded


def test_a_result_has_no_negative_zero_and_a_limited_scale():
    assert str(checked(Decimal("-0.0"))) == "0.0"
    assert scale_of(checked(Decimal((0, (1,), -20_000)))) == 16_383
    with pytest.raises(DataException, match="value overflows numeric format"):
        checked(Decimal((0, (1,), 131_072)))


def test_without_a_modifier_a_value_is_unchanged():
    assert coerced(Decimal("Infinity"), -1) == Decimal("Infinity")
    assert str(coerced(Decimal("1.2345"), -1)) == "1.2345"


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("1.0", "1.00", 0), ("NaN", "NaN", 0), ("NaN", "Infinity", 1), ("Infinity", "9e1000", 1), ("-Infinity", "-1e1000", -1),
        ("-1", "1", -1), ("Infinity", "inf", 0),
    ],
)  # fmt: skip
def test_numbers_are_ordered_with_nan_as_the_greatest(left, right, expected):
    assert order_of("numeric", left, right) == expected
    assert order_of("numeric", right, left) == -expected


# --- equality -----------------------------------------------------------------------------------


@given(FINITE, st.integers(0, 5))
def test_equal_numbers_have_one_canonical_form(value, zeros):
    value = abs(value)
    text = f"{value:f}"
    assert canonical("numeric", text) == canonical("numeric", text + "0" * zeros)


@given(FINITE, FINITE)
def test_numbers_are_equal_if_their_canonical_forms_are(left, right):
    texts = [f"{one:f}" for one in (left, right)]
    assert (canonical("numeric", texts[0]) == canonical("numeric", texts[1])) == (left == right)


@pytest.mark.parametrize("text", ["15", "15.0", "15.000", "1.5", "1.50"])
def test_the_spellings_of_a_number_begin_with_its_canonical_form(text):
    spellings = equality_of(OIDS["numeric"]).spellings
    assert spellings is not None
    first, last = spellings(canonical("numeric", text))
    assert first == canonical("numeric", text)
    assert first <= text < last


def test_numbers_inside_of_a_text_are_canonical_and_strings_stay():
    assert canonical_inside(r'{"a\"1.0": [1.0, "2.0", -0.0, null]}') == r'{"a\"1.0": [1, "2.0", 0, null]}'
    assert canonical_inside("[1.0,2.50)") == "[1,2.5)"


# --- a publisher's values -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [(b"1.5.5", b"1"), (b"1", b"1.5.5"), (b".5", b"1.5"), (b"1.5", b"5."), (b"1,5", b"1.5"), (b"1.5", b"15", b"1..5")],
)
def test_each_number_has_a_point_of_its_own(bad):
    """As many points as numbers are not enough."""
    assert refused_text("numeric", *bad).sqlstate == "22P02"
    assert from_text("numeric", b"0.5", b"10.25") == ["0.5", "10.25"]


@pytest.mark.parametrize(
    "bad", [b"", b".", b"1.", b".5", b"1e5", b"1,5", b"nan", b"--1", b"1\n", b"1.5.5", b"+Infinity"]
)
def test_a_publishers_text_is_only_what_the_output_function_writes(bad):
    error = refused_text("numeric", b"1.5", None, bad)
    assert (error.sqlstate, error.message) == ("22P02", "invalid input syntax for type numeric")


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\0\1\0\0\0\0\0",
        header(1, 0, 0, 0),
        header(1, 0, 0, 0, 1, 1),
        header(1, 0, 0, 0, 10_000),
        header(1, 0, 0x1234, 0, 1),
        header(1, 0, 0, 0x4000, 1),
    ],
    ids=["empty", "no scale", "too few digits", "too many digits", "digit", "sign", "scale"],
)
def test_bytes_that_numeric_recv_refuses_are_refused(bad):
    error = refused_binary("numeric", SAMPLES["numeric"][1], bad)
    assert (error.sqlstate, error.message) == ("22P03", "incorrect binary data format for type numeric")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (header(0, 0, 0, 0), "0"),
        (header(0, 0, 0, 3), "0.000"),
        (header(1, 2, 0, 0, 1), "100000000"),
        (header(1, -2, 0, 8, 12), "0.00000012"),
        (header(1, -1, 0, 2, 1299), "0.12"),
        (header(1, -1, 0x4000, 2, 99), "0.00"),
        (header(1, 0, 0x4000, 0, 7), "-7"),
        (header(0, 0, 0xC000, 0), "NaN"),
        (header(0, 0, 0xD000, 32), "Infinity"),
        (header(0, 0, 0xF000, 32), "-Infinity"),
    ],
)
def test_binary_numbers_show_their_scale(value, expected):
    """Digits beyond the scale are cut, as numeric_recv does, and zero has no sign."""
    assert from_binary("numeric", value) == [expected]


@given(FINITE)
def test_a_number_survives_the_binary_form(value):
    """The bytes are made from the digits: four of them in each group, from the decimal point."""
    text = f"{value:f}"
    whole, _, decimals = text.lstrip("-").partition(".")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    digits = whole + decimals.ljust(-(-len(decimals) // 4) * 4, "0")
    groups = [int(digits[at : at + 4]) for at in range(0, len(digits), 4)]
    sign = 0x4000 if text.startswith("-") else 0
    data = header(len(groups), len(whole) // 4 - 1, sign, len(decimals), *groups)
    assert from_binary("numeric", data) == [text]
