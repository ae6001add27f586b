"""The walsender: frames for a receiver, and a slot that its answers confirm."""

from __future__ import annotations

import pytest

from subscriber.base.errors import OutputPluginError, WalRecordError
from subscriber.postgres.logical_decoding.context import ReplicationSlot
from subscriber.postgres.logical_decoding.walsender import WalSender
from subscriber.postgres.protocol.envelope import (
    Keepalive,
    StandbyStatusUpdate,
    XLogData,
    decode_envelope,
    encode_envelope,
)
from tests.output_plugins import CATALOG, PLAIN, Wal, recording_plugin


def writing_plugin():
    """Writes a word in begin, which is not the last write, and one in commit."""

    def write(word: bytes, last_write: bool):
        def call(ctx, *_):
            ctx.prepare_write(last_write)
            ctx.out += word
            ctx.write(last_write)

        return call

    plugin, _ = recording_plugin(only=PLAIN, begin=write(b"begin", False), commit=write(b"commit", True))
    return plugin


def sender(wal: Wal, slot: ReplicationSlot | None = None, **arguments) -> WalSender:
    return WalSender(wal.records, writing_plugin(), slot or ReplicationSlot("s", "p"), catalog=CATALOG, **arguments)


def one_transaction(wal: Wal, xid: int) -> None:
    wal.begin(xid)
    wal.insert(xid, "1")
    wal.commit(xid)


def read(one: WalSender) -> list[XLogData | Keepalive]:
    return [decode_envelope(frame) for frame in one.read()]  # type: ignore[misc]


def update(flushed: int) -> bytes:
    return encode_envelope(StandbyStatusUpdate(flushed, flushed, flushed, 0, reply_requested=False))


def test_a_transaction_is_read_at_once_then_a_keepalive_that_asks_for_a_reply_then_nothing():
    """Rules A34, A35."""
    wal = Wal()
    one_transaction(wal, 700)
    one = sender(wal, clock=lambda: 7)
    assert read(one) == [XLogData(0, 0, 7, b"begin"), XLogData(116, 116, 7, b"commit")]
    assert read(one) == [Keepalive(116, 7, reply_requested=True)]
    assert read(one) == []


def test_the_sender_has_caught_up_when_the_keepalive_is_read():
    wal = Wal()
    one_transaction(wal, 700)
    one = sender(wal)
    seen = []
    for _ in range(3):
        seen.append(one.caught_up)
        one.read()
    assert seen == [False, False, True]


def test_records_that_are_added_later_are_read_later():
    wal = Wal()
    one = sender(wal)
    assert read(one) == []
    one_transaction(wal, 700)
    assert not one.caught_up
    assert [each.payload for each in read(one) if isinstance(each, XLogData)] == [b"begin", b"commit"]


def test_an_open_transaction_moves_the_position_of_the_keepalive_only():
    wal = Wal()
    wal.begin(700)
    wal.insert(700, "1")
    assert read(sender(wal)) == [Keepalive(108, 0, reply_requested=True)]


def test_a_status_update_confirms_the_slot_and_never_moves_it_back():
    one = sender(Wal())
    one.send(update(200))
    one.send(update(150))
    assert one.slot.confirmed_flush == 200
    assert [reply.flushed_lsn for reply in one.replies] == [200, 150]


def test_the_next_session_sends_what_committed_after_the_confirmed_position():
    """Rule E18."""
    wal, slot = Wal(), ReplicationSlot("s", "p")
    wal.begin(701)
    wal.insert(701, "2")
    one_transaction(wal, 700)
    with sender(wal, slot) as one:
        one.read()
        one.send(update(wal.position))
    wal.commit(701)
    assert [each.end_lsn for each in read(sender(wal, slot)) if isinstance(each, XLogData)] == [0, wal.position]


def test_nothing_of_a_record_that_fails_is_sent():
    wal = Wal()
    one_transaction(wal, 700)
    wal.insert(700, "1")
    one = sender(wal)
    assert len(one.read()) == 2
    with pytest.raises(WalRecordError, match="transaction 700 is not in progress"):
        one.read()
    assert one._frames == []


def test_a_transaction_that_fails_half_way_is_not_sent():
    def fail(*_):
        raise WalRecordError("no", hint="Try again.")

    wal = Wal()
    one_transaction(wal, 700)
    plugin, _ = recording_plugin(only=PLAIN, begin=writing_plugin().begin, commit=fail)
    one = WalSender(wal.records, plugin, ReplicationSlot("s", "p"), catalog=CATALOG)
    with pytest.raises(WalRecordError, match="no"):
        one.read()
    assert one._frames == []


def test_a_session_that_has_failed_sends_no_keepalive_that_would_confirm_the_record():
    wal = Wal()
    wal.commit(700)
    one = sender(wal)
    with pytest.raises(WalRecordError, match="transaction 700 is not in progress"):
        one.read()
    assert not one.caught_up
    with pytest.raises(OutputPluginError, match="logical decoding has ended"):
        one.read()


def test_records_that_are_removed_would_hide_later_ones_and_are_an_error():
    wal = Wal()
    one_transaction(wal, 700)
    one = sender(wal)
    one.read()
    wal.records.clear()
    with pytest.raises(WalRecordError, match="have been removed"):
        one.read()


def test_waiting_returns_at_once():
    sender(Wal()).wait(3600, more=False)


def test_shutdown_is_called_at_the_end():
    plugin, recorder = recording_plugin()
    with WalSender([], plugin, ReplicationSlot("s", "p")):
        pass
    WalSender([], plugin, ReplicationSlot("s", "p")).close()
    assert recorder.calls == ["startup", "shutdown"] * 2
