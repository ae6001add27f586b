"""Concurrent transactions: their order, the memory they use, and what is streamed or written to
disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from subscriber.base.errors import TransactionAborted, WalRecordError
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.context import ReplicationSlot
from subscriber.postgres.logical_decoding.decoding import LogicalDecoding
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange
from subscriber.postgres.logical_decoding.reorder_txn import ReorderSettings
from subscriber.postgres.logical_decoding.sql_functions import CollectingWriter
from tests.output_plugins import CATALOG, PLAIN, WIDER, T, U, Wal, calls, recording_plugin

NO_STREAMS = ("begin", "change", "commit", "truncate", "message")
IMMEDIATE: dict[str, Any] = {"debug_logical_replication_streaming": "immediate"}
ONE = 80 + 24 + 26
"""The size of an insert of one character."""


def opened(plugin: object, **settings: Any) -> LogicalDecoding:
    return LogicalDecoding(
        plugin, ReplicationSlot("s", "p"), CollectingWriter(), catalog=CATALOG, settings=ReorderSettings(**settings)
    )


@pytest.fixture
def wal_() -> Wal:
    made = Wal()
    made.begin(700)
    return made


def test_transactions_come_in_the_order_of_their_commits(wal_):
    """E12."""
    wal_.insert(700, "1")
    wal_.begin(701)
    wal_.insert(701, "2")
    wal_.insert(700, "3")
    wal_.commit(701)
    wal_.commit(700)
    assert calls(recording_plugin(), wal_) == [
        "begin 701", "change 701 t 2", "commit 701", "begin 700", "change 700 t 1", "change 700 t 3", "commit 700",
    ]  # fmt: skip


def test_what_was_rolled_back_is_not_sent(wal_):
    """E12."""
    wal_.insert(700, "1")
    wal_.sub(700, 701)
    wal_.insert(701, "2")
    wal_.sub(700, 702)
    wal_.insert(702, "3")
    wal_.abort_sub(701, 702)
    wal_.sub(700, 703)
    wal_.insert(703, "4")
    wal_.add(wal.SubtransactionCommitRecord, 0, xid=703)
    wal_.begin(800)
    wal_.insert(800, "5")
    wal_.abort(800)
    wal_.commit(700, subxids=(703,))
    assert calls(recording_plugin(), wal_) == ["begin 700", "change 700 t 1", "change 700 t 4@703", "commit 700"]


def test_a_transaction_without_a_change_is_not_sent(wal_):
    wal_.commit(700)
    assert calls(recording_plugin(), wal_) == []


def test_a_transaction_that_only_changes_catalogs_is_sent_empty(wal_):
    wal_.schema_change(700, CatalogChange(relations=(WIDER,)))
    wal_.commit(700)
    assert calls(recording_plugin(), wal_) == ["begin 700", "commit 700"]


# Memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"logical_decoding_work_mem": 3 * ONE}, IMMEDIATE, {}])
def test_changes_on_disk_come_back_in_order(wal_, settings):
    """E6, E12: a plugin that does not stream."""
    wal_.sub(700, 701)
    for number in range(20):
        wal_.insert(700 + number % 2, str(number % 10))
    wal_.commit(700)
    expected = [f"change 700 t {number % 10}{'@701' if number % 2 else ''}" for number in range(20)]
    assert calls(recording_plugin(only=NO_STREAMS), wal_, **settings) == ["begin 700", *expected, "commit 700"]


@pytest.mark.parametrize("only", [NO_STREAMS, None], ids=["spill", "stream"])
def test_memory_stays_below_the_limit_and_the_files_go(wal_, only, tmp_path, monkeypatch):
    """bounded_memory."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    limit = 10 * ONE
    for xid in range(701, 720):
        wal_.begin(xid)
    for number in range(400):
        wal_.insert(700 + number % 20, "x")
    for xid in range(700, 720):
        (wal_.commit if xid % 2 else wal_.abort)(xid)
    plugin, _ = recording_plugin() if only is None else recording_plugin(only=only)
    with opened(plugin, logical_decoding_work_mem=limit) as decoding:
        for record in wal_.records:
            decoding.process(record)
            assert decoding.reorder_buffer.size < limit
        assert decoding.reorder_buffer.size == 0
        assert not [files for _, _, files in os.walk(tmp_path) if files]
    assert not list(tmp_path.iterdir())


def test_the_largest_transaction_is_written_to_disk(wal_):
    """E6."""
    wal_.begin(701)
    for xid in (700, 701, 701, 700, 701):
        wal_.insert(xid, "x")
    with opened(recording_plugin(only=NO_STREAMS)[0], logical_decoding_work_mem=5 * ONE) as decoding:
        for record in wal_.records:
            decoding.process(record)
        buffer = decoding.reorder_buffer
        assert (buffer.txn(700).size, buffer.txn(701).size) == (2 * ONE, 0)
        counted = buffer.statistics
        assert (counted.spill_txns, counted.spill_count, counted.spill_bytes) == (1, 1, 3 * ONE)


def test_the_files_of_a_session_that_failed_are_removed(wal_, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    wal_.insert(700, "1")
    wal_.insert(999, "2")
    with pytest.raises(WalRecordError):
        calls(recording_plugin(only=NO_STREAMS), wal_, **IMMEDIATE)
    assert not list(tmp_path.iterdir())


# Streaming ----------------------------------------------------------------------------------------


def test_the_largest_transaction_is_streamed_in_blocks(wal_):
    """E13."""
    wal_.begin(701)
    for xid, text in ((700, "1"), (701, "2"), (700, "3"), (700, "4"), (701, "5")):
        wal_.insert(xid, text)
    wal_.commit(701)
    wal_.commit(700)
    assert calls(recording_plugin(), wal_, logical_decoding_work_mem=3 * ONE) == [
        "stream_start 700", "stream_change 700 t 1", "stream_change 700 t 3", "stream_stop 700",
        "stream_start 701", "stream_change 701 t 2", "stream_change 701 t 5", "stream_stop 701",
        "stream_commit 701",
        "stream_start 700", "stream_change 700 t 4", "stream_stop 700",
        "stream_commit 700",
    ]  # fmt: skip


def test_only_the_first_block_finds_the_transaction_not_yet_streamed(wal_):
    """A15."""
    seen = []
    wal_.insert(700, "1", origin_id=5)
    wal_.insert(700, "2")
    wal_.commit(700)
    plugin = recording_plugin(stream_start=lambda _ctx, txn: seen.append((txn.is_streamed, txn.origin_id)))
    calls(plugin, wal_, **IMMEDIATE)
    assert seen == [(False, 5), (True, 0)]


def test_an_abort_is_streamed_for_what_was_streamed(wal_):
    """E13."""
    wal_.insert(700, "1")
    wal_.sub(700, 701)
    wal_.sub(700, 702)
    wal_.insert(702, "2")
    wal_.abort_sub(701, 702)
    wal_.abort(700)
    wal_.begin(710)
    wal_.abort(710)
    plugin, recorder = recording_plugin()
    assert calls((plugin, recorder), wal_, **IMMEDIATE) == [
        "stream_start 700", "stream_change 700 t 1", "stream_stop 700",
        "stream_start 700", "stream_change 700 t 2@702", "stream_stop 700",
        "stream_abort 702", "stream_abort 700",
    ]  # fmt: skip
    assert recorder.locations[-2:] == [("stream_abort", 124, 702), ("stream_abort", 132, 700)]


def test_a_speculative_insert_is_not_streamed_before_its_confirmation(wal_):
    """E13."""
    wal_.insert(700, "1", speculative=True)
    plugin, recorder = recording_plugin()
    with opened(plugin, **IMMEDIATE) as decoding:
        for record in wal_.records:
            decoding.process(record)
        assert not [one for one in recorder.calls if one.startswith("stream")]
        decoding.process(wal_.add(wal.SpeculativeConfirmRecord, xid=700, relation_oid=T.oid))
        streamed = [one for one in recorder.calls if one.startswith("stream")]
    assert streamed == ["stream_start 700", "stream_change 700 t 1", "stream_stop 700"]


def test_nothing_is_streamed_before_the_start_position(wal_):
    """E6."""
    wal_.insert(700, "1")
    wal_.insert(700, "2")
    wal_.insert(700, "3")
    wal_.commit(700)
    found = calls(recording_plugin(), wal_, start_lsn=wal_.records[2].end_lsn, **IMMEDIATE)
    assert found == [
        "stream_start 700", "stream_change 700 t 1", "stream_change 700 t 2", "stream_stop 700",
        "stream_start 700", "stream_change 700 t 3", "stream_stop 700", "stream_commit 700",
    ]  # fmt: skip


def test_a_transaction_that_only_changes_catalogs_is_not_streamed(wal_):
    wal_.schema_change(700, CatalogChange(relations=(WIDER,)))
    wal_.commit(700)
    assert calls(recording_plugin(), wal_, **IMMEDIATE) == ["begin 700", "commit 700"]


def test_truncate_and_message_are_streamed(wal_):
    wal_.add(wal.TruncateRecord, xid=700, relation_oids=(T.oid,))
    wal_.add(wal.LogicalMessageRecord, xid=700, transactional=True, prefix="p", content=b"m")
    wal_.commit(700)
    found = calls(recording_plugin(), wal_, **IMMEDIATE)
    assert [one for one in found if "truncate" in one or "message" in one] == [
        "stream_truncate 700 t", "stream_message 700 p m",
    ]  # fmt: skip
    without = recording_plugin(without=["stream_truncate", "stream_message"])
    assert calls(without, wal_, **IMMEDIATE) == [*["stream_start 700", "stream_stop 700"] * 2, "stream_commit 700"]


@pytest.mark.parametrize("name", ["stream_start", "stream_stop", "stream_change", "stream_commit", "stream_abort"])
def test_a_streaming_callback_is_missed_when_it_is_needed(wal_, name):
    """E3."""
    wal_.insert(700, "1")
    (wal_.abort if name == "stream_abort" else wal_.commit)(700)
    with pytest.raises(Exception, match=f"^logical streaming requires a {name}_cb callback$"):
        calls(recording_plugin(without=[name]), wal_, **IMMEDIATE)


# Concurrent aborts --------------------------------------------------------------------------------


def test_a_block_ends_quietly_if_its_subtransaction_is_rolled_back_meanwhile(wal_):
    """E14."""
    wal_.insert(700, "1")
    wal_.sub(700, 701)
    wal_.insert(701, "2", U)
    wal_.insert(701, "3", U)
    wal_.abort_sub(701)
    wal_.insert(700, "4")
    wal_.commit(700)
    assert calls(recording_plugin(), wal_, did_abort=lambda xid: xid == 701, **IMMEDIATE) == [
        "stream_start 700", "stream_change 700 t 1", "stream_stop 700",
        "stream_start 700", "stream_stop 700",
        "stream_abort 701",
        "stream_start 700", "stream_change 700 t 4", "stream_stop 700", "stream_commit 700",
    ]  # fmt: skip


def test_an_abort_is_found_when_catalogs_are_read_for_a_relation(wal_):
    """E14: no catalog is read for a relation that is known, until it is changed itself."""
    wal_.insert(700, "1")
    wal_.commit(700)
    wal_.begin(701)
    wal_.insert(701, "2")
    wal_.schema_change(701, CatalogChange(invalidated=frozenset({T.oid})))
    wal_.insert(701, "3")
    wal_.abort(701)
    assert calls(recording_plugin(), wal_, did_abort=lambda xid: xid == 701, **IMMEDIATE)[4:] == [
        "stream_start 701", "stream_change 701 t 2", "stream_stop 701",
        "stream_start 701", "stream_stop 701",
        "stream_start 701", "stream_stop 701",
        "stream_abort 701",
    ]  # fmt: skip


def test_before_postgresql_18_an_aborted_transaction_is_streamed_all_the_same(wal_):
    """E14."""
    catalog = replace(CATALOG, tables=replace(CATALOG.tables, server_version=160000))
    for text in "1234":
        wal_.insert(700, text)
    wal_.abort(700)
    found = calls(
        recording_plugin(), wal_, catalog=catalog, logical_decoding_work_mem=2 * ONE, did_abort=lambda _xid: True
    )
    assert found == ["stream_start 700", "stream_stop 700", "stream_abort 700"]


def test_a_callback_may_find_the_transaction_rolled_back(wal_):
    """E14."""

    def gone(*_arguments):
        raise TransactionAborted("gone")

    wal_.insert(700, "1")
    wal_.insert(700, "2")
    wal_.abort(700)
    assert calls(recording_plugin(stream_change=gone), wal_, **IMMEDIATE) == [
        "stream_start 700", "stream_change 700 t 1", "stream_stop 700", "stream_abort 700",
    ]  # fmt: skip


def test_a_transaction_that_is_known_to_be_rolled_back_is_discarded_instead_of_streamed(wal_):
    """E14: without a block there is no abort, either."""
    for text in "1234":
        wal_.insert(700, text)
    wal_.abort(700)
    assert calls(recording_plugin(), wal_, logical_decoding_work_mem=2 * ONE, did_abort=lambda _xid: True) == []


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "add",
    [
        lambda wal_: wal_.insert(999, "1"),
        lambda wal_: wal_.insert(0, "1"),
        lambda wal_: wal_.begin(700),
        lambda wal_: wal_.begin(0),
        lambda wal_: wal_.sub(999, 701),
        lambda wal_: wal_.sub(700, 700),
        lambda wal_: (wal_.sub(700, 701), wal_.sub(701, 702)),
        lambda wal_: wal_.commit(999),
        lambda wal_: wal_.abort_sub(999),
        lambda wal_: wal_.abort(700, 999),
    ],
    ids=[
        "no transaction",
        "no number",
        "begins twice",
        "number 0",
        "no parent",
        "own parent",
        "nested",
        "commit",
        "sub",
        "abort",
    ],
)
def test_a_record_that_does_not_fit_the_transactions_is_refused(wal_, add: Callable[[Wal], object]):
    add(wal_)
    with pytest.raises(WalRecordError) as caught:
        calls(recording_plugin(only=PLAIN), wal_)
    assert caught.value.hint
