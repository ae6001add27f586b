"""macaddr and macaddr8: the examples of the manual (9.12), operators and casts."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("trunc(macaddr '12:34:56:78:90:ab')", "12:34:56:00:00:00"),
        ("trunc(macaddr8 '12:34:56:78:90:ab:cd:ef')", "12:34:56:00:00:00:00:00"),
        ("macaddr8_set7bit(macaddr8 '00:34:56:ab:cd:ef')", "02:34:56:ff:fe:ab:cd:ef"),
        ("~ macaddr '12:34:56:78:90:ab'", "ed:cb:a9:87:6f:54"),
        ("macaddr 'ff:00:ff:00:ff:00' & macaddr '12:34:56:78:90:ab'", "12:00:56:00:90:00"),
        ("macaddr8 'ff:00:ff:00:ff:00:ff:00' | macaddr8 '12:34:56:78:90:ab:cd:ef'", "ff:34:ff:78:ff:ab:ff:ef"),
        ("(macaddr '12:34:56:78:90:ab')::macaddr8", "12:34:56:ff:fe:78:90:ab"),
        ("(macaddr8 '12:34:56:ff:fe:78:90:ab')::macaddr", "12:34:56:78:90:ab"),
        ("macaddr '7f:00:00:00:00:00' < macaddr '80:00:00:00:00:00'", "t"),
        ("macaddr8_cmp(macaddr8 '00:00:00:00:00:00:00:02', macaddr8 '00:00:00:00:00:00:00:01')", "1"),
        ("macaddr_cmp(macaddr '00:00:00:00:00:01', macaddr '00:00:00:00:00:01')", "0"),
        ("trunc(NULL::macaddr)", None),
    ],
)
def test_hardware_addresses(expression, expected):
    assert value(expression) == expected


def test_an_address_of_eight_bytes_without_fffe_in_the_middle_has_none_of_six():
    assert failure("(macaddr8 '12:34:56:00:00:78:90:ab')::macaddr") == (
        "22003",
        "macaddr8 data out of range to convert to macaddr",
    )
