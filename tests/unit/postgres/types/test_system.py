"""pg_lsn, tid, xid8 and snapshots: regress/sql/pg_lsn.sql and txid.sql."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.registry import equality_of
from tests.type_samples import OIDS, SAMPLES, form, from_binary, read, refused, refused_binary, shown


@pytest.mark.parametrize(
    ("text", "value", "written"),
    [
        ("0/0", 0, "0/0"),
        ("FFFFFFFF/FFFFFFFF", 2**64 - 1, "FFFFFFFF/FFFFFFFF"),
        ("16/B374D848", 0x16_B374_D848, "16/B374D848"),
        ("0000000f/0000000a", 0xF_0000_000A, "F/A"),
    ],
)
def test_an_lsn_is_two_hexadecimal_numbers(text, value, written):
    assert (read("pg_lsn", text), shown("pg_lsn", text)) == (value, written)


@pytest.mark.parametrize(
    "text", ["", "G/0", "-1/0", " 0/12345678", "ABCD/", "/ABCD", "0/123456789", "123456789/0", "16", "0/0 ", "0/0x"]
)
def test_a_text_that_is_not_an_lsn_is_refused(text):
    error = refused("pg_lsn", text)
    assert (error.sqlstate, error.message, error.quoting) == ("22P02", "invalid input syntax for type pg_lsn", None)


@given(st.integers(0, 2**64 - 1))
def test_every_lsn_survives_each_form(value):
    text = form("pg_lsn").to_text(value)
    assert read("pg_lsn", text) == value
    assert from_binary("pg_lsn", struct.pack(">Q", value)) == [text]


def test_the_numbers_of_rows_and_transactions_are_unsigned():
    assert from_binary("tid", b"\xff" * 6) == ["(4294967295,65535)"]
    assert from_binary("xid8", b"\xff" * 8) == ["18446744073709551615"]


@pytest.mark.parametrize("name", ["pg_snapshot", "txid_snapshot"])
@pytest.mark.parametrize(
    ("numbers", "text"), [((3, 3), "3:3:"), ((3, 9, 3), "3:9:3"), ((3, 9, 4, 9), "3:9:4,9"), ((1, 2), "1:2:")]
)
def test_a_snapshot_lists_the_transactions_in_progress(name, numbers, text):
    """pg_snapshot_recv accepts a transaction that equals xmax, and pg_snapshot_send sends it."""
    data = struct.pack(f">i{len(numbers)}Q", len(numbers) - 2, *numbers)
    assert from_binary(name, data) == [text]


@pytest.mark.parametrize(
    ("running", "numbers"),
    [(2, (3, 9, 6, 4)), (1, (3, 9, 10)), (1, (3, 9, 2)), (0, (0, 3)), (0, (4, 3)), (-1, (3, 3)), (1, (3, 9))],
    ids=["not ascending", "after xmax", "before xmin", "xmin is zero", "xmin after xmax", "negative count", "missing"],
)
def test_a_snapshot_that_the_receive_function_refuses_is_refused(running, numbers):
    bad = struct.pack(f">i{len(numbers)}Q", running, *numbers)
    error = refused_binary("pg_snapshot", SAMPLES["pg_snapshot"][1], bad)
    assert (error.sqlstate, error.message) == ("22P03", "incorrect binary data format for type pg_snapshot")


def test_snapshots_have_no_equality():
    exists = {
        name: equality_of(OIDS[name]).exists for name in ("pg_lsn", "tid", "xid8", "pg_snapshot", "txid_snapshot")
    }
    assert exists == {"pg_lsn": True, "tid": True, "xid8": True, "pg_snapshot": False, "txid_snapshot": False}
