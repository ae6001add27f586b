"""The host of output plugins, with random histories: whatever happens in what order, the callbacks
come in the documented order, with every change that survived, within the memory that is allowed.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal
from unittest import mock

import pytest
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.base.errors import OutputPluginError, WalRecordError
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.context import ReplicationSlot
from subscriber.postgres.logical_decoding.decoding import LogicalDecoding
from subscriber.postgres.logical_decoding.plugins.test_decoding import TestDecoding
from subscriber.postgres.logical_decoding.reorder_txn import (
    ReorderBufferChange,
    ReorderBufferTXN,
    ReorderSettings,
    change_size,
)
from subscriber.postgres.logical_decoding.sql_functions import (
    CollectingWriter,
    RecordedWal,
    SlotFunctions,
    TextChange,
)
from subscriber.postgres.logical_decoding.walsender import WalSender
from subscriber.postgres.protocol.envelope import XLOGDATA_HEADER_SIZE
from tests.output_plugin_histories import History, Step, steps

pytestmark = pytest.mark.slow

histories = st.lists(steps, min_size=5, max_size=60)
memories = st.sampled_from((1, 300, 1000, 3000, 1 << 26))
modes = st.sampled_from(("buffered", "immediate"))
long_histories = st.lists(steps, min_size=20, max_size=200)

Mode = Literal["buffered", "immediate"]
Entry = tuple[str, int]
"""A change that was sent: ``row`` or ``message``, and its position."""


class Checking:
    """A plugin that checks the order of the callbacks, and remembers the changes of each
    transaction.

    Args:
        streaming: whether it streams.
        two_phase: whether it decodes at PREPARE.

    Attributes:
        sent: for each finished transaction its changes by LSN, in the order of the ends.
        largest: the memory of the largest change.
    """

    def __init__(self, *, streaming: bool, two_phase: bool) -> None:
        self._streaming = streaming
        self._two_phase = two_phase
        self.sent: list[tuple[int, list[Entry]]] = []
        self.prepared: dict[int, list[Entry]] = {}
        self.streams: dict[int, list[tuple[int, Entry]]] = {}
        self.ends: list[int] = []
        self.open: tuple[str, int] | None = None
        self.changes: list[Entry] = []
        self.largest = 0

    def startup(self, ctx, options, is_init) -> None:
        ctx.streaming = ctx.streaming and self._streaming
        ctx.twophase = ctx.twophase and self._two_phase
        ctx.twophase_opt_given = self._two_phase

    def _write(self, ctx, word: str) -> None:
        ctx.prepare_write(True)
        ctx.out += word.encode()
        ctx.write(True)

    def _enter(self, ctx, what: str, txn: ReorderBufferTXN) -> None:
        assert self.open is None, "blocks and transactions never nest"
        self.open = (what, txn.xid)
        self.changes = []
        self._write(ctx, f"{what} {txn.xid}")

    def _leave(self, ctx, what: str, txn: ReorderBufferTXN) -> None:
        assert self.open == (what, txn.xid)
        self.open = None
        self._write(ctx, f"end of {what} {txn.xid}")

    def _ended(self, txn: ReorderBufferTXN) -> None:
        assert self.open is None
        self.ends.append(txn.end_lsn)
        assert self.ends == sorted(self.ends), "transactions come by commit LSN"

    def _changed(self, ctx, txn: ReorderBufferTXN, change: ReorderBufferChange) -> None:
        assert self.open is not None and self.open[0] != "block" and self.open[1] == txn.xid
        self.changes.append(("row", change.lsn))
        self._measured(ctx, change)

    def _measured(self, ctx, change: ReorderBufferChange) -> None:
        self.largest = max(self.largest, change_size(change))
        self._write(ctx, f"change {change.lsn}")

    def begin(self, ctx, txn) -> None:
        self._enter(ctx, "transaction", txn)

    def change(self, ctx, txn, relation, change) -> None:
        self._changed(ctx, txn, change)

    def truncate(self, ctx, txn, relations, change) -> None:
        self._changed(ctx, txn, change)

    def message(self, ctx, txn, message_lsn, transactional, prefix, message) -> None:
        if transactional:
            assert self.open in (("transaction", txn.xid), ("prepared", txn.xid))
            self.changes.append(("message", message_lsn))
        else:
            assert self.open is None
        self._write(ctx, f"message {message_lsn}")

    def commit(self, ctx, txn, commit_lsn) -> None:
        self._leave(ctx, "transaction", txn)
        self._ended(txn)
        self.sent.append((txn.xid, self.changes))

    def begin_prepare(self, ctx, txn) -> None:
        self._enter(ctx, "prepared", txn)

    def prepare(self, ctx, txn, prepare_lsn) -> None:
        if self.open is None:  # a prepared transaction without a change
            self.changes = []
        else:
            self._leave(ctx, "prepared", txn)
        self._ended(txn)
        self.prepared[txn.xid] = self.changes

    def commit_prepared(self, ctx, txn, commit_lsn) -> None:
        self._ended(txn)
        self.sent.append((txn.xid, self.prepared.pop(txn.xid)))

    def rollback_prepared(self, ctx, txn, prepare_end_lsn, prepare_time) -> None:
        self._ended(txn)
        del self.prepared[txn.xid]

    def stream_start(self, ctx, txn) -> None:
        assert txn.is_streamed == (txn.xid in self.streams)
        self._enter(ctx, "block", txn)
        self.streams.setdefault(txn.xid, [])

    def stream_stop(self, ctx, txn) -> None:
        self._leave(ctx, "block", txn)

    def stream_change(self, ctx, txn, relation, change) -> None:
        assert self.open == ("block", txn.xid)
        self.streams[txn.xid].append((change.txn.xid, ("row", change.lsn)))
        self._measured(ctx, change)

    def stream_truncate(self, ctx, txn, relations, change) -> None:
        self.stream_change(ctx, txn, None, change)

    def stream_message(self, ctx, txn, message_lsn, transactional, prefix, message) -> None:
        assert transactional
        assert self.open == ("block", txn.xid)
        self.streams[txn.xid].append((0, ("message", message_lsn)))
        self._write(ctx, f"message {message_lsn}")

    def stream_abort(self, ctx, txn, abort_lsn) -> None:
        assert self.open is None
        top = txn.top.xid
        if txn.xid == top:
            del self.streams[top]
        else:
            self.streams[top] = [one for one in self.streams[top] if one[0] != txn.xid]

    def stream_prepare(self, ctx, txn, prepare_lsn) -> None:
        self._ended(txn)
        self.prepared[txn.xid] = [entry for _, entry in self.streams.pop(txn.xid)]

    def stream_commit(self, ctx, txn, commit_lsn) -> None:
        self._ended(txn)
        self.sent.append((txn.xid, [entry for _, entry in self.streams.pop(txn.xid)]))


def surviving(records: Sequence[wal.WalRecord]) -> list[tuple[int, list[Entry]]]:
    """The changes of each committed transaction, read from the WAL without a reorder buffer."""
    changes: dict[int, list[tuple[int, Entry]]] = defaultdict(list)
    heaps: set[int] = set()
    speculative: dict[int, int] = {}
    done: list[tuple[int, list[Entry]]] = []
    for place, record in enumerate(records):
        entry: Entry = ("row", record.lsn)
        match record:
            case wal.SchemaChangeRecord():
                heaps |= {one.oid for one in record.change.relations if one.relrewrite}
            case wal.InsertRecord(speculative=True):
                speculative[record.xid] = record.lsn
            case wal.SpeculativeConfirmRecord():
                changes[record.xid].append((place, ("row", speculative[record.xid])))
            case wal.InsertRecord() | wal.UpdateRecord() | wal.DeleteRecord() | wal.TruncateRecord():
                if isinstance(record, wal.TruncateRecord) or record.relation_oid not in heaps:
                    changes[record.xid].append((place, entry))
            case wal.LogicalMessageRecord(transactional=True):
                changes[record.xid].append((place, ("message", record.end_lsn)))
            case wal.CommitRecord() | wal.CommitPreparedRecord():
                mine = sorted(one for xid in (record.xid, *record.subxids) for one in changes[xid])
                done.append((record.xid, [found for _, found in mine]))
    return done


def of_rows(transactions: Sequence[tuple[int, list[Entry]]]) -> list[tuple[int, list[Entry]]]:
    """The same without messages and without the transactions that have nothing else."""
    found = [(xid, [entry for entry in entries if entry[0] == "row"]) for xid, entries in transactions]
    return [(xid, entries) for xid, entries in found if entries]


def recorded(history: Sequence[Step]) -> list[wal.WalRecord]:
    made = History()
    for step in history:
        made.run(step)
    made.finish()
    return made.publisher.records


def check_host(history: Sequence[Step], memory: int, mode: Mode, streaming: bool, two_phase: bool) -> None:
    records = recorded(history)
    plugin = Checking(streaming=streaming, two_phase=two_phase)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
        decoding = LogicalDecoding(
            plugin,
            ReplicationSlot("s", "checking"),
            CollectingWriter(),
            settings=ReorderSettings(memory, mode),
        )
        buffer = decoding.reorder_buffer
        with decoding:
            largest = 0
            for record in records:
                decoding.process(record)
                largest = max(largest, plugin.largest)
                assert buffer.size < memory, "bounded_memory"
            assert buffer.size == 0
            assert not any(files for _, _, files in os.walk(folder)), "what was spilled is gone"
            note(f"spilled: {buffer.statistics.spill_count > 0}")
            note(f"streamed: {buffer.statistics.stream_count > 0}")
        assert os.listdir(folder) == []
    assert plugin.open is None
    assert plugin.prepared == {}
    assert plugin.streams == {}
    expected = surviving(records)
    assert of_rows(plugin.sent) == of_rows(expected), "what survives, and nothing else, in the order of commits"
    if not streaming:
        assert [one for one in plugin.sent if one[1]] == [one for one in expected if one[1]]


@settings(max_examples=100)
@given(histories, memories, modes, st.booleans(), st.booleans())
def test_the_callbacks_come_in_order_with_every_change_that_survived(history, memory, mode, streaming, two_phase):
    """Rules E6, E12, E13, E17; invariant bounded_memory."""
    check_host(history, memory, mode, streaming, two_phase)


@pytest.mark.long
@settings(max_examples=5000)
@given(long_histories, memories, modes, st.booleans(), st.booleans())
def test_many_long_histories_come_in_order(history, memory, mode, streaming, two_phase):
    """Rules E6, E12, E13, E17; invariant bounded_memory."""
    check_host(history, memory, mode, streaming, two_phase)


# The SQL functions --------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.one_of(steps, steps, st.integers(1, 20)), max_size=60), memories)
def test_what_is_got_in_pieces_is_what_is_peeked_as_a_whole(history, memory):
    """Rules E11, E18. A number among the steps gets so many rows; a row comes once, and in
    order.
    """
    made = History()
    wal_, limits = RecordedWal.of(made.publisher), ReorderSettings(memory)
    functions = SlotFunctions(TestDecoding(), ReplicationSlot("s", "test_decoding"), wal_, settings=limits)
    got: list[TextChange] = []
    for step in history:
        if isinstance(step, int):
            peeked = functions.peek_changes(None, step)
            assert functions.peek_changes(None, step) == peeked, "peek does not move the slot"
            assert functions.get_changes(None, step) == peeked
            got += peeked
        else:
            made.run(step)
    made.finish()
    got += functions.get_changes()
    assert functions.get_changes() == []
    whole = SlotFunctions(TestDecoding(), ReplicationSlot("w", "test_decoding"), wal_)
    assert got == whole.peek_changes()


# Bad input ----------------------------------------------------------------------------------------


def spoiled(records: list[wal.WalRecord], how: str, place: int, other: int) -> list[wal.WalRecord]:
    """Records of which one is missing, comes twice, comes at another place, or is of another
    transaction.
    """
    place, other = place % len(records), other % len(records)
    changed = list(records)
    match how:
        case "missing":
            del changed[place]
        case "twice":
            changed.insert(place, changed[place])
        case "moved":
            changed.insert(other, changed.pop(place))
        case "moved with its position":
            # The positions stay in order, so that only the transactions show what is wrong.
            one = changed.pop(place)
            changed.insert(other, one)
            lsns = [(each.lsn, each.end_lsn) for each in records]
            changed = [replace(each, lsn=lsn, end_lsn=end) for each, (lsn, end) in zip(changed, lsns, strict=True)]
        case "of another":
            changed[place] = replace(changed[place], xid=changed[other].xid)
    return changed


@settings(max_examples=150)
@given(
    histories,
    st.sampled_from(("missing", "twice", "moved", "moved with its position", "of another")),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    memories,
    st.booleans(),
)
def test_records_in_a_wrong_order_are_an_error_of_which_nothing_is_sent(history, how, place, other, memory, streaming):
    """Whatever is wrong with the records: the only error is WalRecordError, and a receiver gets no
    part of a transaction.
    """
    records = spoiled(recorded(history), how, place, other)
    plugin = Checking(streaming=streaming, two_phase=False)
    sent: list[str] = []
    failed = False
    with WalSender(records, plugin, ReplicationSlot("s", "checking"), settings=ReorderSettings(memory)) as sender:
        while not sender.caught_up and not failed:
            try:
                sent += [frame[XLOGDATA_HEADER_SIZE:].decode() for frame in sender.read() if frame[:1] == b"w"]
            except WalRecordError:
                failed = True
        if failed:
            with pytest.raises(OutputPluginError, match="logical decoding has ended"):
                sender.read()
    note("refused" if failed else "decoded")
    assert_whole(sent)


def assert_whole(sent: Sequence[str]) -> None:
    """Every transaction and block that was begun has its end, in the next place after its
    changes.
    """
    inside: str | None = None
    for line in sent:
        if inside is not None:
            assert line.startswith(("change", "message")) or line == f"end of {inside}"
            inside = None if line.startswith("end") else inside
        elif not line.startswith("message"):
            assert line.startswith(("transaction", "block", "prepared"))
            inside = line
    assert inside is None
