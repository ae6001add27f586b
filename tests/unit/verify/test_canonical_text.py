"""PostgreSQL's text of the values that a driver returns."""

from __future__ import annotations

import pytest

from subscriber.verify.canonical_text import text_of


@pytest.mark.parametrize(
    ("oid", "value", "text"),
    [
        (16, True, "t"),
        (16, "f", "f"),
        (23, 5.0, "5"),
        (701, "1e+20", "1e+20"),
        (701, 1e20, "1e+20"),
        (700, 0.10000000149011612, "0.1"),
        (17, memoryview(b"\x00\xff"), "\\x00ff"),
        (1184, "0044-03-15 00:00:00+00:00 BC", "0044-03-15 00:00:00+00 BC"),
        (25, "12:00:00+00:00", "12:00:00+00:00"),
        (1700, "1.50", "1.50"),
        (25, None, None),
    ],
)
def test_a_value_of_a_driver_has_the_text_of_postgresql(oid, value, text):
    assert text_of(oid, value) == text
