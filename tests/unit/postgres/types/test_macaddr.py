"""macaddr and macaddr8: regress/sql/macaddr.sql and macaddr8.sql."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types.network import eight_bytes
from tests.type_samples import form, from_binary, order_of, read, refused, shown


@pytest.mark.parametrize("text", ["08:00:2b:01:02:03", "08-00-2b-01-02-03", "08:00:2B:01:02:03"])
def test_an_address_is_read_with_colons_or_hyphens(text):
    assert shown("macaddr", text) == "08:00:2b:01:02:03"
    assert shown("macaddr8", text) == "08:00:2b:ff:fe:01:02:03"


def test_an_address_of_eight_bytes_is_only_a_macaddr8():
    assert shown("macaddr8", "08-00-2b-01-02-03-04-05") == "08:00:2b:01:02:03:04:05"
    error = refused("macaddr", "08:00:2b:01:02:03:04:05")
    assert (error.sqlstate, error.message) == ("22P02", "invalid input syntax for type macaddr")


@pytest.mark.parametrize(
    "text", ["08002b:010203", "08002b-010203", "0800.2b01.0203", "0800-2b01-0203", "08002b010203", " 8: 0:2b:1:2:3 "]
)
def test_an_address_of_six_bytes_has_seven_layouts(text):
    assert shown("macaddr", text) == "08:00:2b:01:02:03"


@pytest.mark.parametrize(
    "text",
    [
        "08002b:0102030405",
        "0800.2b01.0203.0405",
        "08002b0102030405",
        " 08-002b010203-0405 ",
        "08:00:2b:01:02:03:04:05x",
    ],
)
def test_the_bytes_of_macaddr8_stand_with_or_without_one_spacer(text):
    assert shown("macaddr8", text) == "08:00:2b:01:02:03:04:05"


@pytest.mark.parametrize(
    ("name", "text", "sqlstate"),
    [
        ("macaddr", "08:00-2b:01:02:03", "0A000"),
        ("macaddr", "0x8:0:2b:1:2:3", "0A000"),
        ("macaddr", "not even close", "22P02"),
        ("macaddr", "", "22P02"),
        ("macaddr", "08:00:2b:01:02:100", "22003"),
        ("macaddr8", "08:00-2b:01:02:03", "22P02"),
        ("macaddr8", "not even close", "22P02"),
        ("macaddr8", "", "22P02"),
        ("macaddr8", "08:00:2b:01:02:03 x", "22P02"),
        ("macaddr8", "08:00:2b:01:02:03:04:05:06", "22P02"),
    ],
)
def test_what_is_no_address_is_an_error(name, text, sqlstate):
    with pytest.raises((DataException, NotSupportedError)) as caught:
        read(name, text)
    assert caught.value.sqlstate == sqlstate


def test_six_bytes_become_eight_with_two_bytes_in_the_middle():
    assert eight_bytes(bytes(range(6))) == b"\0\1\2\xff\xfe\3\4\5"


@given(st.binary(min_size=6, max_size=6), st.binary(min_size=8, max_size=8))
def test_every_address_survives_each_form(six, eight):
    for name, value in (("macaddr", six), ("macaddr8", eight)):
        text = form(name).to_text(value)
        assert read(name, text) == value
        assert from_binary(name, value) == [text]


def test_addresses_are_ordered_byte_by_byte():
    assert order_of("macaddr", "08:00:2b:01:02:03", "08:00:2b:01:02:04") < 0
    assert order_of("macaddr8", "ff:00:00:00:00:00:00:00", "7f:ff:ff:ff:ff:ff:ff:ff") > 0
