"""inet and cidr: the examples of the manual (9.12), and errors."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The table of IP address operators.
        ("inet '192.168.1.5' << inet '192.168.1.0/24'", "t"),
        ("inet '192.168.0.5' << inet '192.168.1.0/24'", "f"),
        ("inet '192.168.1.5' << inet '192.168.1.5'", "f"),
        ("inet '192.168.1.0/24' << inet '192.168.1.0/24'", "f"),
        ("inet '192.168.1.0/24' <<= inet '192.168.1.0/24'", "t"),
        ("inet '192.168.1.0/24' >> inet '192.168.1.5'", "t"),
        ("inet '192.168.1.0/24' >>= inet '192.168.1.0/24'", "t"),
        ("inet '192.168.1.0/24' && inet '192.168.1.80/28'", "t"),
        ("inet '192.168.1.0/24' && inet '192.168.2.0/28'", "f"),
        ("inet '192.168.1.0/24' && inet '::1'", "f"),
        ("~ inet '192.168.1.6'", "63.87.254.249"),
        ("inet '192.168.1.6' & inet '0.0.0.255'", "0.0.0.6"),
        ("inet '192.168.1.6' | inet '0.0.0.255'", "192.168.1.255"),
        ("inet '192.168.1.6' + 25", "192.168.1.31"),
        ("200 + inet '::ffff:fff0:1'", "::ffff:255.240.0.201"),
        ("inet '192.168.1.43' - 36", "192.168.1.7"),
        ("inet '192.168.1.43' - inet '192.168.1.19'", "24"),
        ("inet '::1' - inet '::ffff:1'", "-4294901760"),
        # The table of IP address functions.
        ("abbrev(inet '10.1.0.0/32')", "10.1.0.0"),
        ("broadcast(inet '192.168.1.5/24')", "192.168.1.255/24"),
        ("family(inet '::1')", "6"),
        ("host(inet '192.168.1.0/24')", "192.168.1.0"),
        ("hostmask(inet '192.168.23.20/30')", "0.0.0.3"),
        ("inet_merge(inet '192.168.1.5/24', inet '192.168.2.5/24')", "192.168.0.0/22"),
        ("inet_same_family(inet '192.168.1.5/24', inet '::1')", "f"),
        ("masklen(inet '192.168.1.5/24')", "24"),
        ("netmask(inet '192.168.1.5/24')", "255.255.255.0"),
        ("network(inet '192.168.1.5/24')", "192.168.1.0/24"),
        ("set_masklen(inet '192.168.1.5/24', 16)", "192.168.1.5/16"),
        ("set_masklen(cidr '192.168.1.0/24', 16)", "192.168.0.0/16"),
        ("set_masklen(inet '192.168.1.5/24', -1)", "192.168.1.5"),
        ("text(inet '192.168.1.5')", "192.168.1.5/32"),
        ("inet '192.168.1.5/24'::cidr", "192.168.1.0/24"),
        # First the family, then the bits of both networks, then the length, then the address.
        ("inet '255.0.0.0' < inet '::'", "t"),
        ("inet '10.0.0.0/8' < inet '10.0.0.0/9'", "t"),
        ("inet '10.0.0.2/24' < inet '10.0.0.1/25'", "t"),
        ("inet '10.0.0.2/24' > inet '10.0.0.1/24'", "t"),
        ("network_larger(inet '10.0.0.1', inet '10.0.0.2')", "10.0.0.2"),
        ("masklen(NULL::inet)", None),
        ("inet '10.0.0.1' + NULL::bigint", None),
    ],
)
def test_ip_addresses(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("set_masklen(inet '192.168.1.5', 33)", "22023", "invalid mask length"),
        ("set_masklen(cidr '::/0', 129)", "22023", "invalid mask length"),
        ("inet_merge(inet '10.0.0.1', inet '::1')", "22023", "cannot merge addresses from different families"),
        ("inet '10.0.0.1' & inet '::1'", "22023", "cannot AND inet values of different sizes"),
        ("inet '10.0.0.1' | inet '::1'", "22023", "cannot OR inet values of different sizes"),
        ("inet '10.0.0.1' - inet '::1'", "22023", "cannot subtract inet values of different sizes"),
        ("inet '255.255.255.255' + 1", "22003", "result is out of range"),
        ("inet '0.0.0.0' - 1", "22003", "result is out of range"),
        ("inet '::' - inet 'ffff::'", "22003", "result is out of range"),
    ],
)
def test_the_error_of_an_ip_address(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)
