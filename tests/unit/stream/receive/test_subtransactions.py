"""Where subtransactions began: bounded in memory, on disk beyond that (bounded_memory)."""

from __future__ import annotations

import sqlite3
import tracemalloc

import pytest

from subscriber.base.errors import JournalUnavailable
from subscriber.stream.receive.spool import SubtransactionIndex


def raw(xid: int) -> bytes:
    return xid.to_bytes(4)


def filled(count: int, in_memory: int) -> SubtransactionIndex:
    index = SubtransactionIndex(in_memory)
    for xid in range(count):
        index.begin(raw(xid), 2 * xid)
    return index


@pytest.mark.slow
def test_memory_does_not_grow_with_subtransactions():
    """Invariant bounded_memory: 200,000 took some 30 MB in a dict."""
    tracemalloc.start()
    try:
        index = filled(200_000, in_memory=1_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000
    assert [index.position(raw(xid)) for xid in (0, 100_000, 199_999, 200_000)] == [0, 200_000, 399_998, None]
    index.close()


def test_all_of_them_can_be_rolled_back_one_after_the_other():
    index = filled(5_000, in_memory=100)
    for xid in range(4_999, -1, -1):
        index.forget_from(2 * xid)
        assert index.position(raw(xid)) is None
    index.begin(raw(3), 0)
    assert index.position(raw(3)) == 0
    index.close()


def test_a_rollback_of_an_early_one_takes_all_that_began_later():
    index = filled(1_000, in_memory=100)
    index.forget_from(20)
    assert [index.position(raw(xid)) for xid in (9, 10, 500, 999)] == [18, None, None, None]
    index.close()
    assert index.position(raw(9)) is None


def test_only_the_first_change_counts_wherever_it_is_kept():
    index = filled(1_000, in_memory=100)
    for xid in (0, 999):
        index.begin(raw(xid), 5_000)
        assert index.position(raw(xid)) == 2 * xid
    index.close()


def test_no_space_for_the_temporary_file_is_transient(monkeypatch):
    def full(*_, **__):
        raise sqlite3.OperationalError("database or disk is full")

    index = filled(10, in_memory=10)
    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(JournalUnavailable, match="database or disk is full") as caught:
        index.begin(raw(11), 99)
    assert caught.value.transient
    assert caught.value.hint
