"""What a receiver counts, for those who show it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.postgres.protocol import messages as m
from subscriber.stream.receive.walreceiver import ReceiverCounts, WalReceiver
from tests.frames import prepared, transaction
from tests.streams import ScriptedStream, journal_at, keepalive
from tests.unit.stream.receive.test_walreceiver import T, insert


def counted(folder: Path, script: Iterable[bytes | m.Message | None]) -> ReceiverCounts:
    stream = ScriptedStream(script)
    with journal_at(folder) as journal:
        receiver = WalReceiver(stream, journal, Settings(journal=str(folder)), clock=lambda: 0.0)
        receiver.run(lambda: stream.ended)
    return receiver.counts


def test_nothing_is_known_before_the_first_message(tmp_path):
    """What was confirmed when the stream began is that of the journal."""
    counts = counted(tmp_path, [None])
    assert (counts.bytes, counts.transactions, counts.heard_at, counts.commit_lsn) == (0, 0, None, 0)
    assert counts.confirmed_lsn == 0x100


def test_bytes_are_those_of_all_messages_and_transactions_those_that_committed(tmp_path):
    script = [*transaction(0x200, T, insert(1)), *transaction(0x300, insert(2)), keepalive(0x400), None]
    counts = counted(tmp_path, script)
    assert counts.bytes == sum(len(frame) for frame in ScriptedStream(script)._script if frame is not None)
    assert (counts.transactions, counts.commit_lsn) == (2, 0x300)


def test_a_keepalive_is_heard_and_moves_what_is_confirmed_and_no_commit(tmp_path):
    before = time.time()
    counts = counted(tmp_path, [keepalive(0x5000, reply_requested=True), None])
    assert counts.heard_at is not None
    assert counts.confirmed_at is not None
    assert before <= counts.heard_at <= time.time()
    assert before <= counts.confirmed_at <= time.time()
    assert (counts.confirmed_lsn, counts.commit_lsn, counts.transactions) == (0x5000, 0, 0)


def test_a_prepared_transaction_counts_when_it_commits(tmp_path):
    *prepare, commit = prepared(0x500, insert(1), xid=9)
    prepare.insert(1, T)
    assert counted(tmp_path / "prepared", [*prepare, None]).transactions == 0
    counts = counted(tmp_path / "committed", [*prepare, commit, None])
    assert (counts.transactions, counts.commit_lsn) == (1, 0x500)


def test_a_prepared_transaction_that_is_rolled_back_does_not_count(tmp_path):
    *prepare, _ = prepared(0x500, insert(1), xid=9)
    prepare.insert(1, T)
    (end,) = (one for one in prepare if isinstance(one, m.Prepare))
    rollback = m.RollbackPrepared(end.end_lsn, LSN(0x700), end.prepare_timestamp, 9, end.xid, end.gid)
    assert counted(tmp_path, [*prepare, rollback, None]).transactions == 0


def test_a_streamed_transaction_counts_when_it_commits_and_not_when_it_aborts(tmp_path):
    begin: list[m.Message] = [m.StreamStart(9, first_segment=True), replace(T, xid=9), insert(1, xid=9), m.StreamStop()]
    commit = m.StreamCommit(9, LSN(0x4F8), LSN(0x500), 7)
    assert counted(tmp_path / "aborted", [*begin, m.StreamAbort(9, 9), None]).transactions == 0
    counts = counted(tmp_path / "committed", [*begin, commit, None])
    assert (counts.transactions, counts.commit_lsn, counts.first_commit) == (1, 0x500, 7)


def test_the_time_of_the_first_commit_is_taken_once_and_then_that_of_the_next():
    counts = ReceiverCounts()
    for moment in (7, 8):
        counts.committed(m.Commit(LSN(0x1F8), LSN(0x200), moment))
    assert counts.take_first_commit() == 7
    assert counts.take_first_commit() is None
    counts.committed(m.Commit(LSN(0x2F8), LSN(0x300), 9))
    assert counts.take_first_commit() == 9
    assert (counts.transactions, counts.commit_lsn) == (3, 0x300)


def test_counts_pass_the_pipe_of_a_beat_unchanged(tmp_path):
    counts = counted(tmp_path, [*transaction(0x200, T, insert(1)), None])
    assert ReceiverCounts(**json.loads(json.dumps(asdict(counts)))) == counts
