"""What a session sees."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding.heap_tuples import Datum
from subscriber.postgres.logical_decoding.memory_state import HeapRow, HeapRows, matches
from subscriber.postgres.protocol.messages import NULL


@pytest.fixture
def rows() -> HeapRows:
    made = HeapRows()
    for xid, status in ((1, "committed"), (2, "aborted"), (3, "in progress"), (4, "in progress")):
        made.set_status(xid, status)  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(
    ("xmin", "xmax", "seen"),
    [
        (1, 0, True),
        (2, 0, False),
        (3, 0, True),
        (4, 0, False),
        (1, 1, False),
        (1, 2, True),
        (1, 3, False),
        (1, 4, True),
    ],
)
def test_a_session_sees_what_has_committed_and_its_own(rows, xmin, xmax, seen):
    row = HeapRow({}, {}, xmin, xmax)
    rows.add(5, row)
    assert (list(rows.visible(5, frozenset({3}))) == [row]) is seen


def test_a_row_that_another_session_has_changed_is_locked(rows):
    row = HeapRow({}, {}, 1, 3)
    with pytest.raises(UsageError, match="locked by transaction 3") as caught:
        rows.end(row, 4)
    assert caught.value.sqlstate == "55P03"
    row.xmax = 2
    rows.end(row, 4)
    assert row.xmax == 4


def test_only_a_rolled_back_transaction_did_abort(rows):
    """E14."""
    assert [xid for xid in range(6) if rows.did_abort(xid)] == [2]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, True),
        ({1: Datum(b"x")}, True),
        ({1: Datum(b"y")}, False),
        ({2: NULL}, True),
        ({1: NULL}, False),
        ({9: NULL}, True),
    ],
)
def test_rows_are_compared_by_their_text(wanted, found):
    assert matches(HeapRow({1: Datum(b"x", b"x", external=True), 2: NULL}, {}, 1), wanted) is found


def test_a_row_shows_no_value():
    """names_are_data."""
    assert "secret" not in repr(HeapRow({1: Datum(b"secret")}, {1: "secret"}, 1))
