"""inet and cidr: regress/sql/inet.sql, and the bytes of inet_send."""

from __future__ import annotations

import ipaddress
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.network import Inet, cidr_out, inet_out
from tests.type_samples import SAMPLES, form, from_binary, order_of, read, refused, refused_binary, shown


@st.composite
def addresses(draw: st.DrawFn) -> Inet:
    """Any address with any netmask; many have long runs of zeros."""
    version, width = draw(st.sampled_from([(4, 32), (6, 128)]))
    words = draw(
        st.lists(
            st.sampled_from([0, 0, 1, 0xFFFF]) | st.integers(0, 0xFFFF), min_size=width // 16, max_size=width // 16
        )
    )
    address = 0
    for word in words:
        address = address << 16 | word
    return Inet(version, draw(st.integers(0, width)), address)


@pytest.mark.parametrize(
    ("text", "as_inet", "as_cidr"),
    [
        ("192.168.1.0/24", "192.168.1.0/24", "192.168.1.0/24"), ("10.1.2.3", "10.1.2.3", "10.1.2.3/32"), ("10.1.2.3/32", "10.1.2.3", "10.1.2.3/32"),
        ("10:23::f1/128", "10:23::f1", "10:23::f1/128"), ("10:23::8000/113", "10:23::8000/113", "10:23::8000/113"), ("::ffff:1.2.3.4", "::ffff:1.2.3.4", "::ffff:1.2.3.4/128"),
        ("::1.2.3.4", "::1.2.3.4", "::1.2.3.4/128"), ("::", "::", "::/128"), ("::1", "::1", "::1/128"), ("0.0.0.0/0", "0.0.0.0/0", "0.0.0.0/0"), ("::/0", "::/0", "::/0"),
        ("2001:0DB8::", "2001:db8::", "2001:db8::/128"), ("1:0:0:2:0:0:0:3", "1:0:0:2::3", "1:0:0:2::3/128"), ("1:0:0:2:3:0:0:4", "1::2:3:0:0:4", "1::2:3:0:0:4/128"),
        ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7/128"), ("::ffff:0:0", "::ffff:0.0.0.0", "::ffff:0.0.0.0/128"), ("010.001.0.0", "10.1.0.0", "10.1.0.0/32"),
        ("10.1.2.3/032", "10.1.2.3", "10.1.2.3/32"),
    ],
)  # fmt: skip
def test_an_address_is_written_as_its_type_writes_it(text, as_inet, as_cidr):
    assert (shown("inet", text), shown("cidr", text)) == (as_inet, as_cidr)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.2.3.256",
        "1.2.3.4/33",
        "::1/129",
        "x",
        "1.2.3.4/",
        "::1/",
        "::1/01",
        " 1.2.3.4",
        "1.2.3.4 ",
        "1.2.3.4/-1",
        "1.2.3.4/24/8",
        "/8",
    ],
)
@pytest.mark.parametrize("name", ["inet", "cidr"])
def test_a_text_that_is_not_an_address_is_refused(name, text):
    error = refused(name, text)
    assert (error.sqlstate, error.message) == ("22P02", f"invalid input syntax for type {name}")


@pytest.mark.parametrize(
    ("name", "text", "shown_as"),
    [
        ("cidr", "10.1", "10.1.0.0/16"),
        ("cidr", "10", "10.0.0.0/8"),
        ("cidr", "192.168", "192.168.0.0/24"),
        ("cidr", "224", "224.0.0.0/4"),
        ("cidr", "225", "225.0.0.0/8"),
        ("cidr", "224.1", "224.1.0.0/16"),
        ("cidr", "230.49.245.160", "230.49.245.160/32"),
        ("cidr", "241.1", "241.1.0.0/32"),
        ("cidr", "0x0a1", "10.16.0.0/16"),
        ("inet", "1.2.3/24", "1.2.3.0/24"),
        ("inet", "1.2.3.4.", "1.2.3.4"),
        ("inet", "1.2.3./08", "1.2.3.0/8"),
        ("inet", "::ffff:1..3.4", "::ffff:1.0.3.4"),
        ("inet", "1::", "1::"),
        ("inet", "2001:db8::1:/64", "2001:db8::1/64"),
        ("inet", "::1.2.3.4/120", "::1.2.3.4/120"),
    ],
)
def test_an_address_may_be_written_in_short(name, text, shown_as):
    assert shown(name, text) == shown_as


@pytest.mark.parametrize(
    "text",
    [
        "1.2.3",
        "10.1/24",
        "0x0a",
        "1:2:3:4:5:6:7:",
        "1::2::3",
        ":1",
        "1:2",
        "1.2.3.4.5",
        "::1.2.3.",
        "::1.2.3.256",
        "1:2:3:4:5:6:7:8::",
    ],
)
def test_an_inet_that_is_too_short_or_too_long_is_refused(text):
    assert refused("inet", text).sqlstate == "22P02"


@pytest.mark.parametrize("text", ["192.168.1.2/30", "10.0.0.1/8", "::1/127", "ffff:ffff:ffff:ffff::/24"])
def test_a_cidr_has_no_bits_to_the_right_of_its_netmask(text):
    error = refused("cidr", text)
    assert (error.sqlstate, error.message) == ("22P02", "invalid cidr value")
    assert shown("inet", text) == text


def test_addresses_are_ordered_by_network_netmask_and_host():
    """``network_cmp``; the order of the documents of inet.sql."""
    in_order = [
        "9.1.2.3/8",
        "10.1.2.3/8",
        "10.0.0.0/24",
        "10.0.0.0",
        "10.1.2.3/24",
        "10.1.2.3",
        "11.1.2.3/8",
        "::/0",
        "10:23::f1",
        "10:23::8000/113",
    ]
    for left, right in itertools.pairwise(in_order):
        assert order_of("inet", left, right) < 0 < order_of("inet", right, left)
    assert order_of("inet", "::1", "0:0::1") == 0


@given(addresses())
def test_an_address_has_the_text_that_is_read_as_the_same_address(value):
    text = inet_out(value)
    assert read("inet", text) == read("inet", cidr_out(value)) == value
    interface = ipaddress.ip_interface(text)
    assert (int(interface.ip), interface.network.prefixlen) == (value.address, value.bits)


@given(addresses())
def test_an_address_survives_the_binary_form(value):
    size = value.width // 8
    data = bytes([2 if value.version == 4 else 3, value.bits, 0, size]) + value.address.to_bytes(size)
    assert from_binary("inet", data) == [form("inet").to_text(value)]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("inet", b"\x0a\x20\0\4\1\2\3\4"),
        ("inet", b"\2\x21\0\4\1\2\3\4"),
        ("inet", b"\3\x20\0\4\1\2\3\4"),
        ("inet", b"\2\x20\0\xff"),
        ("cidr", b"\2\x08\1\4\n\0\0\1"),
    ],
    ids=["family", "netmask", "size of another family", "negative size", "host bits"],
)
def test_bytes_that_no_server_sends_are_refused(name, bad):
    error = refused_binary(name, SAMPLES[name][1], bad)
    assert (error.sqlstate, error.message) == ("22P03", f"incorrect binary data format for type {name}")
