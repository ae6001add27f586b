"""macaddr and macaddr8: regress/sql/macaddr.sql and macaddr8.sql."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.errors import NotSupportedError
from subscriber.types.macaddr import eight_bytes
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
    "text",
    ["08002b:010203", "08002b-010203", "0800.2b01.0203", "08002b010203", "08:00-2b:01:02:03", "not even close", ""],
)
@pytest.mark.parametrize("name", ["macaddr", "macaddr8"])
def test_an_address_that_is_not_written_byte_by_byte_is_refused_with_what_to_write(name, text):
    with pytest.raises(NotSupportedError, match=f"a value of type {name} that is written this way") as caught:
        read(name, text)
    assert caught.value.hint == "Write two digits for each byte, with colons between them."


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
