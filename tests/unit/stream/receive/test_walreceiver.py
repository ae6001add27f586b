"""Streams by the book and against it, into a real journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from subscriber.base.errors import BinaryFormNotRead, ProtocolError, PublisherUnavailable
from subscriber.base.lsn import INVALID_LSN, LSN, MAX_LSN
from subscriber.base.settings import Settings
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.envelope import encode_notice
from subscriber.stream.journal.message_rows import read_finish, read_rows
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.segment import EntryKind, journal_entries
from subscriber.stream.journal.storage import LocalStorage
from subscriber.stream.receive import walreceiver
from subscriber.stream.receive.feedback import LONGEST_WAIT_SECONDS, SETTLED_WAIT_SECONDS
from subscriber.stream.receive.walreceiver import WalReceiver
from tests.frames import relation, transaction, values
from tests.journals import passed
from tests.streams import EndingStream, ScriptedStream, frame, journal_at, keepalive, receive

Script = list[bytes | m.Message | None]

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])


def insert(key: int, *, xid: int | None = None, oid: int = T.relation_id, text: str = "x") -> m.Insert:
    return m.Insert(oid, values(str(key), text), xid)


def streamed(message: m.Relation, xid: int) -> m.Relation:
    return replace(message, xid=xid)


def messages_in(folder: Path) -> list[m.Message]:
    """Everything a reader of the journal sees, in order, without descriptions that repeat."""
    reader = JournalReader(LocalStorage(folder))
    seen: list[m.Message] = []
    for reading in reader.plan(INVALID_LSN, MAX_LSN):
        for batch in read_rows(reader.storage, reading, read_finish(reader.storage, reading)):
            seen += [decode(message) for message in batch.column("message").to_pylist()]
    return seen


def keys_in(folder: Path) -> list[int]:
    return [int(message.new[0].data) for message in messages_in(folder) if isinstance(message, m.Insert)]  # type: ignore[union-attr]


def kinds_in(folder: Path) -> list[EntryKind]:
    return [entry.kind for entry in journal_entries(LocalStorage(folder))]


@pytest.mark.parametrize(("consumer", "entries"), [(0x100, 2), (0x80, 1)])
def test_a_consumer_that_has_nothing_to_do_does_not_wait_for_a_pause_of_the_stream(
    tmp_path, monkeypatch, consumer, entries
):
    """A backlog has no pause until it has arrived."""
    monkeypatch.setattr(walreceiver, "_EARLY_BYTES", 1)
    passed(LocalStorage(tmp_path), consumer)
    receive(tmp_path, [*transaction(0x200, T, insert(1)), *transaction(0x300, insert(2)), None])
    assert len(kinds_in(tmp_path)) == entries
    assert keys_in(tmp_path) == [1, 2]


def test_small_transactions_that_arrive_together_share_one_segment(tmp_path):
    receive(tmp_path, [*transaction(0x200, T, insert(1)), *transaction(0x300, insert(2)), None])
    assert kinds_in(tmp_path) == [EntryKind.TRANSACTIONS]
    assert keys_in(tmp_path) == [1, 2]


def test_a_transaction_is_durable_before_its_end_is_confirmed(tmp_path):
    stream = receive(tmp_path, [*transaction(0x200, T, insert(1)), None, *transaction(0x300, insert(2)), None])
    assert [reply.flushed_lsn for reply in stream.replies] == [0x100, 0x200, 0x300]
    assert all(reply.flushed_lsn <= reply.received_lsn for reply in stream.replies)


def test_an_unfinished_transaction_is_neither_confirmed_nor_visible(tmp_path):
    stream = receive(
        tmp_path, [*transaction(0x200, T, insert(1))[:-1], None, keepalive(0x900, reply_requested=True), None]
    )
    assert {reply.flushed_lsn for reply in stream.replies} == {0x100}
    assert kinds_in(tmp_path) == []


def test_applied_follows_the_consumer_and_never_passes_flushed(tmp_path):
    """Rule C36: the third position is what the target has."""
    folder = tmp_path
    with journal_at(folder) as journal:
        stream = ScriptedStream([*transaction(0x200, T, insert(1)), None, *transaction(0x300, insert(2)), None])
        passed(LocalStorage(folder), 0x200)
        WalReceiver(stream, journal, Settings(journal=""), clock=lambda: 0.0).run(lambda: stream.ended)
    assert [(reply.flushed_lsn, reply.applied_lsn) for reply in stream.replies][-1] == (0x300, 0x200)
    assert all(reply.applied_lsn <= reply.flushed_lsn for reply in stream.replies)


def test_an_idle_slot_is_confirmed_up_to_the_last_keepalive(tmp_path):
    """Only unpublished tables change: the slot must not hold the publisher's WAL."""
    stream = receive(tmp_path, [keepalive(0x5000, reply_requested=True), None])
    assert stream.replies[-1].flushed_lsn == 0x5000
    assert JournalReader(LocalStorage(tmp_path)).control().received == 0x5000


def test_an_idle_position_is_durable_before_it_is_confirmed(tmp_path, monkeypatch):
    """Invariant slot_after_disk: the order is control file, then feedback."""
    seen = []

    class Recording(ScriptedStream):
        def send(self, data: bytes) -> None:
            super().send(data)
            seen.append((self.replies[-1].flushed_lsn, JournalReader(LocalStorage(tmp_path)).control().received))

    with journal_at(tmp_path) as journal:
        stream = Recording([keepalive(0x5000, reply_requested=True), None])
        WalReceiver(stream, journal, Settings(journal=""), clock=lambda: 0.0).run(lambda: stream.ended)
    assert all(durable >= flushed for flushed, durable in seen)


def test_a_transaction_sent_again_after_a_crash_is_written_once(tmp_path):
    receive(tmp_path, [*transaction(0x200, T, insert(1)), None])
    receive(tmp_path, [*transaction(0x200, T, insert(1)), *transaction(0x300, insert(2)), None])
    assert keys_in(tmp_path) == [1, 2]


def test_the_description_of_a_transaction_sent_again_still_counts(tmp_path):
    """The publisher will not describe the relation a second time (rule A24)."""
    receive(tmp_path, [*transaction(0x200, T, insert(1)), None])
    receive(tmp_path, [*transaction(0x200, T, insert(1)), None, *transaction(0x300, insert(2)), None])
    assert keys_in(tmp_path) == [1, 2]


MONEY = relation("public.prices", {"a": "int4", "price": "money"}, key=["a"], oid=16390)


def test_a_binary_stream_ends_before_values_whose_binary_form_is_not_read(tmp_path):
    """A12, refuse_not_guess: the journal never holds them, and the slot is not confirmed past what
    is in the journal.
    """
    script = [*transaction(0x200, T, insert(1)), None, *transaction(0x300, MONEY, insert(2, oid=16390)), None]
    with pytest.raises(BinaryFormNotRead) as caught:
        receive(tmp_path, script, binary=True)
    assert caught.value.message == 'the binary format of column "price" of relation "public.prices" is not supported'
    assert (caught.value.relation, caught.value.column) == ("public.prices", "price")
    assert keys_in(tmp_path) == [1]
    receive(tmp_path, script)
    assert keys_in(tmp_path) == [1, 2]


def test_a_binary_stream_ends_at_a_description_in_a_streamed_transaction_too(tmp_path):
    with pytest.raises(BinaryFormNotRead):
        receive(tmp_path, [m.StreamStart(7, first_segment=True), streamed(MONEY, 7), None], binary=True)


def test_a_transaction_larger_than_memory_passes_through_in_parts(tmp_path):
    """Invariant bounded_memory: what is collected is written whenever a segment's worth has
    gathered.
    """
    settings = Settings(journal="", segment_bytes=2000)
    changes = [insert(key, text="x" * 100) for key in range(100)]
    with journal_at(tmp_path) as journal:
        stream = ScriptedStream([*transaction(0x200, T, *changes), None])
        receiver = WalReceiver(stream, journal, settings, clock=lambda: 0.0)
        held = []
        read = stream.read

        def watch() -> list[bytes]:
            held.append(receiver._plain.builder.unwritten_bytes)
            return read()

        stream.read = watch  # type: ignore[method-assign]
        receiver.run(lambda: stream.ended)
    (entry,) = journal_entries(LocalStorage(tmp_path))
    assert len(entry.segments) > 5
    assert max(held) < 2500
    assert keys_in(tmp_path) == list(range(100))


def test_a_streamed_transaction_appears_at_its_commit_and_in_commit_order(tmp_path):
    """Rules C42, C47: blocks interleave, effects do not."""
    script: Script = [
        m.StreamStart(700, True), streamed(T, 700), insert(1, xid=700), m.StreamStop(),
        *transaction(0x200, T, insert(10)),
        m.StreamStart(701, True), streamed(T, 701), insert(2, xid=701), m.StreamStop(),
        m.StreamStart(700, False), insert(3, xid=700), m.StreamStop(),
        m.StreamCommit(701, LSN(0x2F8), LSN(0x300), 5),
        m.StreamCommit(700, LSN(0x3F8), LSN(0x400), 5),
        None,
    ]  # fmt: skip
    receive(tmp_path, script)
    assert keys_in(tmp_path) == [10, 2, 1, 3]


def test_a_streamed_transaction_is_stored_in_the_plain_form(tmp_path):
    """Between Begin and Commit, without the xid that messages carry inside a block (rule A3)."""
    script: Script = [m.StreamStart(700, True), streamed(T, 700), insert(1, xid=700), m.StreamStop(),
              m.StreamCommit(700, LSN(0x1F8), LSN(0x200), 5), None]  # fmt: skip
    receive(tmp_path, script)
    assert messages_in(tmp_path) == [m.Begin(LSN(0x1F8), 5, 700), T, insert(1), m.Commit(LSN(0x1F8), LSN(0x200), 5)]


def test_an_aborted_subtransaction_takes_its_children_with_it(tmp_path):
    """Rule C43: the spool is cut at the subtransaction's first change."""
    script: Script = [
        m.StreamStart(700, True), streamed(T, 700), insert(1, xid=700), insert(2, xid=701), insert(3, xid=702),
        m.StreamStop(), m.StreamAbort(700, 701), m.StreamStart(700, False), insert(4, xid=700), m.StreamStop(),
        m.StreamCommit(700, LSN(0x1F8), LSN(0x200), 5), None,
    ]  # fmt: skip
    receive(tmp_path, script)
    assert keys_in(tmp_path) == [1, 4]


def test_aborting_an_unknown_subtransaction_changes_nothing(tmp_path):
    """Rule C43: it had streamed nothing."""
    script: Script = [m.StreamStart(700, True), streamed(T, 700), insert(1, xid=700), m.StreamStop(), m.StreamAbort(700, 799),
              m.StreamCommit(700, LSN(0x1F8), LSN(0x200), 5), None]  # fmt: skip
    receive(tmp_path, script)
    assert keys_in(tmp_path) == [1]


@pytest.mark.parametrize("segment_bytes", [1, 300, 10_000])
def test_a_description_inside_an_aborted_subtransaction_survives_it(tmp_path, segment_bytes):
    """Rule A24: the publisher tracks what it described per top-level transaction and will not
    repeat it.
    """
    script: Script = [
        m.StreamStart(700, True), streamed(T, 701), insert(2, xid=701), m.StreamStop(), m.StreamAbort(700, 701),
        m.StreamStart(700, False), insert(4, xid=700), m.StreamStop(),
        m.StreamCommit(700, LSN(0x1F8), LSN(0x200), 5), None,
    ]  # fmt: skip
    receive(tmp_path, script, Settings(journal="", segment_bytes=segment_bytes))
    assert keys_in(tmp_path) == [4]


@pytest.mark.parametrize("segment_bytes", [1, 250, 100_000])
def test_a_spilled_spool_is_cut_exactly_where_the_subtransaction_began(tmp_path, segment_bytes):
    head: Script = [m.StreamStart(700, True), streamed(T, 700), *(insert(key, xid=700) for key in range(10))]
    script: Script = [*head, *(insert(key, xid=701) for key in range(10, 20)), m.StreamStop(), m.StreamAbort(700, 701),
              m.StreamStart(700, False), insert(99, xid=700), m.StreamStop(),
              m.StreamCommit(700, LSN(0x1F8), LSN(0x200), 5), None]  # fmt: skip
    receive(tmp_path, script, Settings(journal="", segment_bytes=segment_bytes))
    assert keys_in(tmp_path) == [*range(10), 99]


def test_an_aborted_streamed_transaction_leaves_no_file(tmp_path):
    script: Script = [
        m.StreamStart(700, True),
        streamed(T, 700),
        insert(1, xid=700),
        m.StreamStop(),
        m.StreamAbort(700, 700),
        None,
    ]
    receive(tmp_path, script, Settings(journal="", segment_bytes=1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal.json", "journal.lock", "journal.reserve"]


def test_a_later_description_wins_over_one_whose_stream_commits_later(tmp_path):
    """Of two descriptions the one that arrived last is what the publisher goes by."""
    wider = relation("public.t", {"a": "int4", "b": "text", "c": "text"}, key=["a"])
    script: Script = [
        m.StreamStart(700, True), streamed(T, 700), insert(1, xid=700), m.StreamStop(),
        *transaction(0x200, wider, m.Insert(wider.relation_id, values("2", "y", "z"))),
        m.StreamCommit(700, LSN(0x2F8), LSN(0x300), 5),
        *transaction(0x400, m.Insert(wider.relation_id, values("3", "y", "z"))), None,
    ]  # fmt: skip
    receive(tmp_path, script)
    assert keys_in(tmp_path) == [2, 1, 3]


def test_a_prepared_transaction_waits_for_its_verdict(tmp_path):
    """Rules C50, C51: its changes are read where COMMIT PREPARED stands, and never after ROLLBACK
    PREPARED.
    """
    prepare: Script = [
        m.BeginPrepare(LSN(0x1F0), LSN(0x200), 5, 700, "g"),
        T,
        insert(1),
        m.Prepare(LSN(0x1F0), LSN(0x200), 5, 700, "g"),
    ]
    other: Script = [
        m.BeginPrepare(LSN(0x2F0), LSN(0x300), 5, 701, "h"),
        insert(2),
        m.Prepare(LSN(0x2F0), LSN(0x300), 5, 701, "h"),
    ]
    receive(tmp_path, [*prepare, *other, *transaction(0x400, insert(3)), None])
    assert keys_in(tmp_path) == [3]
    receive(
        tmp_path,
        [
            m.CommitPrepared(LSN(0x4F0), LSN(0x500), 6, 700, "g"),
            m.RollbackPrepared(LSN(0x300), LSN(0x600), 5, 6, 701, "h"),
            None,
        ],
    )
    assert keys_in(tmp_path) == [3, 1]
    assert kinds_in(tmp_path) == [
        EntryKind.PREPARED, EntryKind.PREPARED, EntryKind.TRANSACTIONS, EntryKind.COMMIT_PREPARED, EntryKind.ROLLBACK_PREPARED,
    ]  # fmt: skip


def test_a_prepare_without_its_beginning_is_an_empty_prepared_transaction(tmp_path):
    """Rule C50; PostgreSQL 18 sends no Begin Prepare for a transaction that has only locked
    rows.
    """
    receive(
        tmp_path,
        [
            *transaction(0x180, T, insert(1)),
            m.Prepare(LSN(0x1F0), LSN(0x200), 5, 700, "g"),
            *transaction(0x300, insert(2)),
            m.CommitPrepared(LSN(0x3F0), LSN(0x400), 6, 700, "g"),
            None,
        ],
    )
    assert kinds_in(tmp_path) == [
        EntryKind.TRANSACTIONS,
        EntryKind.PREPARED,
        EntryKind.TRANSACTIONS,
        EntryKind.COMMIT_PREPARED,
    ]
    place = (LSN(0x1F0), LSN(0x200), 5, 700, "g")
    assert [one for one in messages_in(tmp_path) if isinstance(one, m.BeginPrepare | m.Prepare)] == [
        m.BeginPrepare(*place),
        m.Prepare(*place),
    ]
    assert keys_in(tmp_path) == [1, 2]


def test_a_streamed_prepared_transaction_is_kept_like_any_other(tmp_path):
    script: Script = [m.StreamStart(700, True), streamed(T, 700), insert(1, xid=700), m.StreamStop(),
              m.StreamPrepare(LSN(0x1F0), LSN(0x200), 5, 700, "g"),
              m.CommitPrepared(LSN(0x2F0), LSN(0x300), 6, 700, "g"), None]  # fmt: skip
    receive(tmp_path, script)
    assert keys_in(tmp_path) == [1]


def test_a_non_transactional_message_is_an_entry_of_its_own(tmp_path):
    """Rule A25."""
    receive(tmp_path, [m.LogicalMessage(False, LSN(0x180), "p", b"hello"), *transaction(0x200, T, insert(1)), None])
    assert isinstance(messages_in(tmp_path)[0], m.LogicalMessage)
    assert journal_entries(LocalStorage(tmp_path))[-1].end == 0x200


STREAM_FAULTS = [
    pytest.param([m.StreamStart(7, True), m.StreamStart(8, True)], "duplicate STREAM START message", id="S in a block"),
    pytest.param([m.StreamStop()], "STREAM STOP message without STREAM START", id="E alone"),
    pytest.param(
        [m.StreamStart(7, True), m.StreamCommit(7, LSN(1), LSN(2), 0)],
        "STREAM COMMIT message without STREAM STOP",
        id="c",
    ),
    pytest.param([m.StreamStart(7, True), m.StreamAbort(7, 7)], "STREAM ABORT message without STREAM STOP", id="A"),
    pytest.param(
        [m.StreamStart(7, True), m.StreamPrepare(LSN(1), LSN(2), 0, 7, "g")],
        "STREAM PREPARE message without STREAM STOP",
        id="p",
    ),
    pytest.param([m.StreamStart(0, True)], "invalid transaction ID in streamed replication transaction", id="xid 0"),
    pytest.param(
        [m.Begin(LSN(0x1F8), 0, 7), m.Commit(LSN(0x1F0), LSN(0x200), 0)],
        "incorrect commit LSN 0/1F0 in commit message (expected 0/1F8)",
        id="C31",
    ),
    pytest.param([m.Begin(LSN(0x1F8), 0, 7), T, m.Origin(LSN(0), "o")], "ORIGIN message sent out of order", id="C38"),
    pytest.param([T, m.Origin(LSN(0), "o")], "ORIGIN message sent out of order", id="O after R"),
]


@pytest.mark.parametrize(("script", "text"), STREAM_FAULTS)
def test_messages_out_of_order_stop_the_receiver(tmp_path, script, text):
    """Rules C31, C38, C44: SQLSTATE 08P01, PostgreSQL's text."""
    with pytest.raises(ProtocolError) as caught:
        receive(tmp_path, script)
    assert caught.value.message == text
    assert caught.value.sqlstate == "08P01"
    assert kinds_in(tmp_path) == []


UNKNOWN_STREAMS = [
    pytest.param(
        m.StreamStart(7, False), "STREAM START message continues transaction 7, which has no first segment", id="S"
    ),
    pytest.param(
        m.StreamCommit(7, LSN(0x2F0), LSN(0x2F8), 0),
        "STREAM COMMIT message without STREAM START: transaction 7, commit LSN 0/2F0",
        id="c",
    ),
    pytest.param(
        m.StreamPrepare(LSN(0x2F0), LSN(0x2F8), 0, 7, "g"),
        "STREAM PREPARE message without STREAM START: transaction 7, prepare LSN 0/2F0",
        id="p",
    ),
]

OUTSIDE = [
    pytest.param(insert(9), "INSERT message outside a transaction", id="I"),
    pytest.param(m.Update(T.relation_id, None, None, values("9", "x")), "UPDATE message outside a transaction", id="U"),
    pytest.param(m.Delete(T.relation_id, "K", values("9", None)), "DELETE message outside a transaction", id="D"),
    pytest.param(m.Truncate((T.relation_id,), False, False), "TRUNCATE message outside a transaction", id="T"),
    pytest.param(m.LogicalMessage(True, LSN(0x2F0), "p", b""), "MESSAGE message outside a transaction", id="M"),
]


def refused(folder: Path, message: m.Message, *before: m.Message) -> ProtocolError:
    """Why it is refused after two transactions, of which the first is durable already; nothing else
    becomes so.
    """
    stream = ScriptedStream([*transaction(0x200, T, insert(1)), None, *transaction(0x280, insert(2)), *before,
                             frame(message, 0x2F0), keepalive(0x900, reply_requested=True), None])  # fmt: skip
    with journal_at(folder) as journal, pytest.raises(ProtocolError) as caught:
        WalReceiver(stream, journal, Settings(journal=""), clock=lambda: 0.0).run(lambda: stream.ended)
    assert keys_in(folder) == [1]
    assert max(reply.flushed_lsn for reply in stream.replies) == 0x200
    error = caught.value
    assert (error.sqlstate, error.lsn, error.message_type) == ("08P01", 0x2F0, message.type_byte)
    assert error.context == f'decoding of message type "{message.type_byte}", sent at 0/2F0'
    assert error.hint
    return error


@pytest.mark.parametrize(("message", "text"), UNKNOWN_STREAMS)
def test_a_stream_without_a_beginning_is_refused(tmp_path, message, text):
    """Rules A22, C44: a first block always precedes, so changes were lost. PostgreSQL's worker
    misses its file.
    """
    assert refused(tmp_path, message).message == text


def test_the_abort_of_a_stream_without_a_beginning_is_nothing(tmp_path):
    """Rule C43: the publisher may abort what it has sent nothing of."""
    receive(tmp_path, [m.StreamAbort(7, 7), m.StreamAbort(8, 9), *transaction(0x200, T, insert(1)), None])
    assert keys_in(tmp_path) == [1]


@pytest.mark.parametrize(("message", "text"), OUTSIDE)
@pytest.mark.parametrize("before", [[], [m.StreamStart(7, True), m.StreamStop()]], ids=["plain", "after a block"])
def test_a_change_outside_of_every_transaction_is_refused(tmp_path, message, text, before):
    """Nothing would ever finish it, and the next keepalive would confirm it."""
    assert refused(tmp_path, message, *before).message == text


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (m.Begin(LSN(0x3F8), 0, 8), "BEGIN message inside a transaction"),
        (m.BeginPrepare(LSN(0x3F8), LSN(0x400), 0, 8, "g"), "BEGIN PREPARE message inside a transaction"),
        (m.CommitPrepared(LSN(0x3F8), LSN(0x400), 0, 8, "g"), "COMMIT PREPARED message inside a transaction"),
        (
            m.RollbackPrepared(LSN(0x3F8), LSN(0x400), 0, 0, 8, "g"),
            "ROLLBACK PREPARED message inside a transaction",
        ),
        (m.StreamStart(8, True), "STREAM START message inside a transaction"),
        (m.StreamCommit(8, LSN(0x3F8), LSN(0x400), 0), "STREAM COMMIT message inside a transaction"),
        (m.StreamPrepare(LSN(0x3F8), LSN(0x400), 0, 8, "g"), "STREAM PREPARE message inside a transaction"),
        (m.LogicalMessage(False, LSN(0x2F0), "p", b""), "non-transactional MESSAGE inside a transaction"),
    ],
    ids=lambda value: value.type_byte if isinstance(value, m.Message) else "",
)
def test_what_stands_between_transactions_is_refused_inside_of_one(tmp_path, message, text):
    """It would publish the transaction in part, or make its Commit look like one that was sent
    again.
    """
    before: list[m.Message] = [m.StreamStart(8, True), m.StreamStop(), m.Begin(LSN(0x2F8), 0, 7), insert(3)]
    assert refused(tmp_path, message, *before).message == text


@pytest.mark.parametrize("segment_bytes", [400, 1000, 10_000])
def test_memory_stays_below_the_limit_whatever_is_open(tmp_path, segment_bytes):
    """Invariant bounded_memory: plain and streamed transactions together, with finished ones that
    wait.
    """
    xids = range(700, 705)
    blocks = [
        message
        for round_ in range(20)
        for xid in xids
        for message in (
            m.StreamStart(xid, round_ == 0),
            *([streamed(T, xid)] if round_ == 0 else []),
            *(insert(1000 * xid + 10 * round_ + number, xid=xid) for number in range(3)),
            m.StreamStop(),
            *transaction(0x200 + 0x100 * round_ + xid - 700, *([T] if (round_, xid) == (0, 700) else []), insert(xid)),
        )
    ]
    ends = [m.StreamCommit(xid, LSN(0x9000 + xid), LSN(0xA000 + xid), 0) for xid in xids]
    held = []
    with journal_at(tmp_path) as journal:
        stream = ScriptedStream([*blocks, *ends, None])
        receiver = WalReceiver(stream, journal, Settings(journal="", segment_bytes=segment_bytes), clock=lambda: 0.0)
        read = stream.read

        def watch() -> list[bytes]:
            builders = [receiver._plain.builder, *receiver._spools.builders()]
            held.append(sum(sum(map(len, builder._frames)) for builder in builders))
            return read()

        stream.read = watch  # type: ignore[method-assign]  # a test's spy
        receiver.run(lambda: stream.ended)
    assert max(held) < segment_bytes
    assert max(held) > segment_bytes // 3
    assert keys_in(tmp_path) == [
        *([*xids] * 20),
        *(1000 * xid + 10 * round_ + number for xid in xids for round_ in range(20) for number in range(3)),
    ]


class Outage(ScriptedStream):
    """A publisher with a transaction every 10 ms, by its own clock."""

    def __init__(self, transactions: int) -> None:
        super().__init__([])
        self.now = 0.0
        self.naps: list[bool] = []
        self._ends = iter(range(0x200, 0x200 + 0x100 * transactions, 0x100))
        self._due = False

    def read(self) -> list[bytes]:
        if not self._due:
            return []
        self._due = False
        end = next(self._ends, None)
        if end is None:
            self.ended = True
            return []
        messages = transaction(end, *([T] if end == 0x200 else []), insert(end))
        return [frame(message, end) for message in messages]

    def wait(self, seconds: float, *, more: bool) -> None:
        self.naps.append(more)
        self.now += 0.01
        self._due = True


def run_outage(folder: Path, stream: Outage, **options: bool) -> None:
    with journal_at(folder) as journal:
        settings = Settings(journal="")
        WalReceiver(stream, journal, settings, clock=lambda: stream.now, **options).run(lambda: stream.ended)


def spied(publish: Callable[..., None], ends: list[int]) -> Callable[..., None]:
    """``publish`` that also notes the ends of entries."""

    def publishing(builder: object, end: int, **how: object) -> None:
        ends.append(end)
        publish(builder, end, **how)

    return publishing


def test_while_no_consumer_applies_few_entries_are_made(tmp_path):
    """The first two seconds have an entry for each of 200 transactions, the next 18 have few."""
    run_outage(tmp_path, Outage(2000))
    entries = journal_entries(LocalStorage(tmp_path))
    assert 200 <= len(entries) < 260
    assert keys_in(tmp_path) == [0x200 + 0x100 * number for number in range(2000)]


def test_a_consumer_that_keeps_up_gets_an_entry_for_each_transaction(tmp_path, monkeypatch):
    class KeepsUp(Outage):
        def wait(self, seconds: float, *, more: bool) -> None:
            super().wait(seconds, more=more)
            passed(
                LocalStorage(tmp_path), max([0x100, *(entry.end for entry in journal_entries(LocalStorage(tmp_path)))])
            )

    seen: list[int] = []
    stream = KeepsUp(60)
    with journal_at(tmp_path) as journal:
        monkeypatch.setattr(journal, "publish", spied(journal.publish, seen))
        WalReceiver(stream, journal, Settings(journal=""), clock=lambda: stream.now * 10).run(lambda: stream.ended)
    assert seen == [0x200 + 0x100 * number for number in range(60)]
    assert not any(stream.naps)


def test_a_synchronous_standby_confirms_each_transaction_at_once(tmp_path):
    stream = Outage(500)
    run_outage(tmp_path, stream, may_linger=False)
    assert len(journal_entries(LocalStorage(tmp_path))) == 500


def test_a_publisher_that_asks_for_a_reply_gets_what_lingers_confirmed(tmp_path):
    """As when it shuts down."""

    class Asks(Outage):
        def read(self) -> list[bytes]:
            frames = super().read()
            if frames and 9.995 < self.now < 10.005:
                self.asked_at = decode_commit(frames[-1]).end_lsn
                return [*frames, keepalive(self.asked_at, reply_requested=True)]
            return frames

        def send(self, data: bytes) -> None:
            super().send(data)
            if self.now > 9.995 and not hasattr(self, "confirmed"):
                self.confirmed = self.replies[-1].flushed_lsn

    def decode_commit(last: bytes) -> m.Commit:
        message = decode(last[25:])
        assert isinstance(message, m.Commit)
        return message

    stream = Asks(1200)
    run_outage(tmp_path, stream)
    assert stream.confirmed == stream.asked_at


@pytest.mark.parametrize("ends", [ScriptedStream, EndingStream])
def test_what_lingers_is_published_when_the_stream_ends(tmp_path, ends):
    """The publisher may never come back, and its last transactions are complete."""
    now = 0.0

    class Late(ends):  # type: ignore[misc, valid-type]
        def wait(self, seconds: float, *, more: bool) -> None:
            nonlocal now
            now += 30.0 if now == 0 else 0.01

    stream = Late([*transaction(0x200, T, insert(1)), None, *transaction(0x300, insert(2)), None])
    with journal_at(tmp_path) as journal:
        receiver = WalReceiver(stream, journal, Settings(journal=""), clock=lambda: now)
        with pytest.raises(PublisherUnavailable) if ends is EndingStream else nullcontext():
            receiver.run(lambda: stream.ended)
    assert keys_in(tmp_path) == [1, 2]


class Gulps(ScriptedStream):
    """Everything arrives at once, and then nothing."""

    def __init__(self, frames: list[bytes]) -> None:
        super().__init__([])
        self._frames = frames
        self.naps: list[bool] = []

    def read(self) -> list[bytes]:
        frames, self._frames = self._frames, []
        self.ended = len(self.naps) > 3
        return frames

    def wait(self, seconds: float, *, more: bool) -> None:
        self.naps.append(more)


@pytest.mark.parametrize(("changes", "naps"), [(1, [False, False, False]), (150, [True, True, False])])
def test_only_a_stream_with_much_data_is_left_alone_for_a_moment(tmp_path, changes, naps):
    stream = Gulps([frame(message) for message in transaction(0x200, T, *map(insert, range(changes)))])
    with journal_at(tmp_path) as journal:
        WalReceiver(stream, journal, Settings(journal=""), clock=lambda: 0.0).run(lambda: stream.ended)
    assert stream.naps[:3] == naps


def test_the_journal_is_trimmed_about_once_a_second(tmp_path, monkeypatch):
    """It lists the whole folder; status updates may be much rarer."""
    now, trims = 0.0, []

    class Quiet(ScriptedStream):
        def wait(self, seconds: float, *, more: bool) -> None:
            nonlocal now
            now += 0.25

    with journal_at(tmp_path) as journal:
        monkeypatch.setattr(type(journal), "trim", lambda self: trims.append(now))
        settings = Settings(journal="", wal_receiver_status_interval=0)
        WalReceiver(Quiet([]), journal, settings, clock=lambda: now).run(lambda: now > 3)
    assert trims == [0, 1, 2, 3]


def broken(message: m.Message, at: int, byte: int) -> bytes:
    data = bytearray(encode(message))
    data[at] = byte
    return bytes(data)


def test_a_change_that_does_not_decode_never_becomes_durable(tmp_path):
    """The slot does not move past it, and the report says where it is."""
    bad = broken(insert(2), 8, ord("z"))
    stream = ScriptedStream([*transaction(0x200, T, insert(1)), None, frame(m.Begin(LSN(0x2F8), 0, 8)), frame(bad, 0x2E0),
                             m.Commit(LSN(0x2F8), LSN(0x300), 0), None])  # fmt: skip
    with journal_at(tmp_path) as journal, pytest.raises(ProtocolError) as caught:
        WalReceiver(stream, journal, Settings(journal=""), clock=lambda: 0.0).run(lambda: stream.ended)
    error = caught.value
    assert error.message == "unrecognized data representation type 'z'"
    assert (error.relation, error.lsn, error.offset, error.message_type) == ("public.t", 0x2E0, 8, "I")
    assert keys_in(tmp_path) == [1]
    assert max(reply.flushed_lsn for reply in stream.replies) == 0x200


def test_an_unknown_message_type_stops_the_receiver(tmp_path):
    """Rule A20."""
    with pytest.raises(ProtocolError, match=r'invalid logical replication message type "\?\?\? \(122\)"'):
        receive(tmp_path, [frame(b"z", 0x180)])


def test_a_change_of_a_relation_that_was_never_described_is_refused(tmp_path):
    """Rule C3."""
    with pytest.raises(ProtocolError, match="no relation map entry for remote relation ID 16384"):
        receive(tmp_path, [*transaction(0x200, insert(1)), None])


def test_the_end_of_the_stream_is_transient_and_keeps_what_was_finished(tmp_path):
    stream = EndingStream([*transaction(0x200, T, insert(1)), None])
    with (
        journal_at(tmp_path) as journal,
        pytest.raises(PublisherUnavailable, match="data stream from publisher has ended"),
    ):
        WalReceiver(stream, journal, Settings(journal=""), clock=lambda: 0.0).run(lambda: False)
    assert keys_in(tmp_path) == [1]


def test_a_silent_publisher_is_pinged_at_half_of_the_timeout_and_given_up_at_its_end(tmp_path):
    """Rule C36."""
    now = 0.0

    class Silent(ScriptedStream):
        def wait(self, seconds: float, *, more: bool) -> None:
            nonlocal now
            now += 1.0

    stream = Silent([])
    settings = Settings(journal="", wal_receiver_timeout=10.0, wal_receiver_status_interval=3600.0)
    with journal_at(tmp_path) as journal, pytest.raises(PublisherUnavailable, match="due to timeout"):
        WalReceiver(stream, journal, settings, clock=lambda: now).run(lambda: False)
    assert now == 10.0
    assert [reply.reply_requested for reply in stream.replies] == [False, True]


def test_what_comes_after_a_notice_waits_until_it_was_taken(tmp_path):
    """The position is that of what came before it."""
    notice = encode_notice({"V": b"WARNING", "M": b"careful"})
    script: Script = [
        *[frame(message, 0x180) for message in transaction(0x200, T, insert(1))],
        notice,
        *transaction(0x300, T, insert(2)),
    ]
    stream = ScriptedStream(script)
    heard: list[tuple[str, int, list[int]]] = []
    with journal_at(tmp_path) as journal:
        receiver = WalReceiver(stream, journal, Settings(str(tmp_path)), may_linger=False)
        receiver.on_notice = lambda notice, received: heard.append((notice.message, received, keys_in(tmp_path)))
        receiver.run(lambda: stream.ended)
    ((message, received, keys),) = heard
    assert (message, received) == ("careful", 0x180)
    assert 2 not in keys
    assert keys_in(tmp_path) == [1, 2]


# Waiting for the target ---------------------------------------------------------------------------


@pytest.mark.parametrize(("is_woken", "settled"), [(True, SETTLED_WAIT_SECONDS), (False, LONGEST_WAIT_SECONDS)])
def test_a_receiver_looks_for_the_progress_of_the_target_until_all_is_applied(tmp_path, is_woken, settled):
    waits: list[float] = []

    class Idle(ScriptedStream):
        def wait(self, seconds: float, *, more: bool) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                passed(LocalStorage(tmp_path), 0x200)
            time.sleep(0.02)  # the journal reads the positions of consumers no more often

    with journal_at(tmp_path):
        passed(LocalStorage(tmp_path), 0x100)
    with journal_at(tmp_path) as journal:
        stream = Idle([*transaction(0x200, T, insert(1)), None])
        receiver = WalReceiver(stream, journal, Settings(journal=""), is_woken=is_woken)
        receiver.run(lambda: len(waits) == 5)
    assert waits[:3] == [LONGEST_WAIT_SECONDS] * 3
    assert waits[-1] == settled
