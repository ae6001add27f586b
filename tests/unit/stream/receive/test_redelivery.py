"""What comes a second time after a crash is written once, and leaves everything as it should be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.postgres.protocol import messages as m
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.stream.receive.walreceiver import WalReceiver
from tests.frames import relation, transaction, values
from tests.journals import T, commit_prepared, insert, keys_of, prepare, rollback_prepared
from tests.streams import ScriptedStream, journal_at, keepalive, receive

XID = 700


def streamed(*messages: m.Message) -> list[m.Message]:
    return [m.StreamStart(XID, True), *messages, m.StreamStop()]


STREAMED = [*streamed(replace(T, xid=XID), insert(1, xid=XID)), m.StreamCommit(XID, LSN(0x1F8), LSN(0x200), 5)]
PREPARED = prepare(0x200, T, insert(1), xid=XID)


@pytest.mark.parametrize(
    "again", [transaction(0x200, T, insert(1)), STREAMED, PREPARED], ids=["plain", "streamed", "prepared"]
)
@pytest.mark.parametrize("segment_bytes", [1, 10**6])
def test_the_description_of_what_is_sent_again_still_counts(tmp_path, again, segment_bytes):
    """Rule A24: the publisher will not describe the relation a second time."""
    settings = Settings(journal="", segment_bytes=segment_bytes)
    receive(tmp_path, [*again, None], settings)
    receive(tmp_path, [*again, None, *transaction(0x300, insert(2)), None], settings)
    assert keys_of(tmp_path, 0x200) == [2]
    assert len(list(tmp_path.glob("*.arrow"))) == len({path.name for path in tmp_path.glob("*.arrow")})
    assert not list(tmp_path.glob("*.tmp"))


def test_a_stream_that_is_cut_off_is_sent_again_from_its_beginning(tmp_path):
    """Rule A22: a walsender that starts again knows nothing of the blocks before; its first one
    says so.
    """
    begun = streamed(replace(T, xid=XID), insert(1, xid=XID))
    receive(tmp_path, [*begun, None])
    receive(tmp_path, [*begun, m.StreamStart(XID, False), insert(2, xid=XID), m.StreamStop(),
                       m.StreamCommit(XID, LSN(0x1F8), LSN(0x200), 5), None])  # fmt: skip
    assert keys_of(tmp_path) == [1, 2]


@pytest.mark.parametrize(
    "again", [transaction(0x200, T, insert(1)), STREAMED, PREPARED], ids=["plain", "streamed", "prepared"]
)
def test_after_it_the_slot_is_idle_and_follows_the_keepalives(tmp_path, again):
    """A description that is kept must not hold the publisher's WAL until the next transaction."""
    receive(tmp_path, [*again, None])
    stream = receive(tmp_path, [*again, None, keepalive(0x900, reply_requested=True), None])
    assert stream.replies[-1].flushed_lsn == 0x900
    assert JournalReader(LocalStorage(tmp_path)).control().received == 0x900


@pytest.mark.parametrize("segment_bytes", [1, 10**6])
def test_the_description_of_what_is_sent_again_does_not_outlive_a_later_one_from_a_stream(tmp_path, segment_bytes):
    """Rule A24: the table was altered in between, and the stream's commit is the last that the
    publisher says of it.
    """
    wider = relation("public.t", {"a": "int4", "b": "text", "c": "text"}, key=["a"])
    old = transaction(0x200, T, insert(1))
    script = [
        *old, None,
        *streamed(replace(wider, xid=XID), m.Insert(wider.relation_id, values("2", "y", "z"), XID)),
        m.StreamCommit(XID, LSN(0x2F8), LSN(0x300), 5), None,
        *transaction(0x400, m.Insert(wider.relation_id, values("3", "y", "z"))), None,
    ]  # fmt: skip
    settings = Settings(journal="", segment_bytes=segment_bytes)
    receive(tmp_path, [*old, None], settings)
    receive(tmp_path, script, settings)
    assert keys_of(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("segment_bytes", [1, 150])
def test_a_spool_that_is_cut_leaves_no_file_behind(tmp_path, segment_bytes):
    """Parts of which nothing is left are removed at once, not when the next receiver starts."""
    script = [
        *streamed(replace(T, xid=XID), insert(1, xid=XID), insert(2, xid=701), insert(3, xid=701)),
        m.StreamAbort(XID, 701), m.StreamStart(XID, False), insert(4, xid=XID), m.StreamStop(),
        m.StreamCommit(XID, LSN(0x1F8), LSN(0x200), 5), None,
    ]  # fmt: skip
    receive(tmp_path, script, Settings(journal="", segment_bytes=segment_bytes))
    assert keys_of(tmp_path) == [1, 4]
    assert not list(tmp_path.glob("*.tmp"))


def test_the_collection_with_the_most_bytes_is_the_one_that_is_spilled(tmp_path):
    """Invariant bounded_memory: one large value weighs more than many small ones."""
    settings = Settings(journal="", segment_bytes=5000)
    large = streamed(replace(T, xid=XID), insert(1, "x" * 4000, xid=XID))
    script = [*large, *transaction(0x200, T, *(insert(key) for key in range(30)))[:-1], None]
    with journal_at(tmp_path) as journal:
        stream = ScriptedStream(script)
        receiver = WalReceiver(stream, journal, settings, clock=lambda: 0.0)
        receiver.run(lambda: stream.ended)
        assert receiver._spools.transactions[XID].builder.unwritten == 0
        assert receiver._plain.builder.unwritten == 32


def test_a_prepare_older_than_the_journal_s_end_is_kept_for_its_commit(tmp_path):
    """Rule C51: prepared before two_phase began, it is sent whole right before its COMMIT
    PREPARED.
    """
    other = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])
    script = [*transaction(0x300, other, insert(1)), None, *prepare(0x200, insert(2), xid=XID),
              *commit_prepared(0x400, xid=XID), None, *transaction(0x500, insert(3)), None]  # fmt: skip
    stream = receive(tmp_path, script)
    assert keys_of(tmp_path) == [1, 2, 3]
    assert stream.replies[-1].flushed_lsn == 0x500


@pytest.mark.parametrize(
    "after",
    [rollback_prepared(0x400, xid=XID), commit_prepared(0x400, xid=799)[:0], transaction(0x400, insert(9))],
    ids=["rolled back", "nothing", "another transaction"],
)
def test_an_old_prepare_without_its_commit_is_never_applied(tmp_path, after):
    """Its verdict was taken, and trimmed, before the crash; what it described still counts."""
    script = [*transaction(0x300, T, insert(1)), None, *prepare(0x200, insert(2), xid=XID), *after, None,
              *transaction(0x500, insert(3)), None]  # fmt: skip
    receive(tmp_path, script)
    assert [key for key in keys_of(tmp_path) if key != 9] == [1, 3]
