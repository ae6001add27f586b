"""A journal, replayed to an output plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from subscriber.base.errors import OutputPluginError
from subscriber.postgres.logical_decoding import (
    Column,
    LogicalDecoding,
    MemoryDatabase,
    RecordedWal,
    ReorderSettings,
    ReplicationSlot,
    SlotFunctions,
    Toasted,
    WalSenderWriter,
    load_output_plugin,
)
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.publication.definition import Publication
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.stream.replay_journal import ReplayedWal
from tests.frames import relation, values
from tests.journals import T, publish, writing
from tests.streams import frame, receive

IN_STREAM = m.Relation(T.relation_id, T.namespace, T.name, T.replica_identity, T.columns, 7)
NO_XIDS = ("include-xids", "0")


def insert(key: str, lsn: int, xid: int | None = None) -> bytes:
    return frame(m.Insert(T.relation_id, values(key, "x"), xid), lsn)


def replayed(folder: Path, publications=(), **arguments) -> ReplayedWal:
    return ReplayedWal(JournalReader(LocalStorage(folder)), publications, **arguments)


def functions_of(wal: ReplayedWal, plugin: str = "test_decoding") -> SlotFunctions:
    return SlotFunctions(load_output_plugin(plugin), ReplicationSlot("s", plugin, two_phase=True), wal.recorded)


def lines(wal: ReplayedWal, *options: str) -> list[str]:
    return [change.data for change in functions_of(wal).peek_changes(None, None, *options)]


def test_every_kind_of_entry_is_replayed_in_the_order_of_the_commits(tmp_path):
    receive(
        tmp_path,
        [
            m.Begin(0x200, 5, 5), T, insert("1", 0x1F0), m.Commit(0x200, 0x210, 5),
            frame(m.LogicalMessage(False, 0x218, "p", b"out"), 0x218),
            m.StreamStart(7, True), IN_STREAM, insert("2", 0x1E0, 7), m.StreamStop(),
            m.StreamStart(7, False), insert("3", 0x230, 8), m.StreamStop(), m.StreamAbort(7, 8),
            m.StreamStart(7, False), frame(m.LogicalMessage(True, 0x238, "p", b"in", 7), 0x238), m.StreamStop(),
            m.StreamCommit(7, 0x240, 0x250, 9),
            m.BeginPrepare(0x300, 0x310, 10, 9, "g"), insert("4", 0x2F0), m.Prepare(0x300, 0x310, 10, 9, "g"),
            m.CommitPrepared(0x320, 0x330, 11, 9, "g"),
            m.BeginPrepare(0x350, 0x360, 12, 10, "h"), insert("5", 0x340), m.Prepare(0x350, 0x360, 12, 10, "h"),
            m.RollbackPrepared(0x360, 0x380, 12, 13, 10, "h"),
            m.Begin(0x400, 14, 11), frame(m.Truncate((T.relation_id,), True, True), 0x3F0), m.Commit(0x400, 0x410, 14),
        ],

    )  # fmt: skip
    wal = replayed(tmp_path)
    assert functions_of(wal).get_changes() == [
        (0x1F0, 5, "BEGIN 5"),
        (0x1F0, 5, "table public.t: INSERT: a[integer]:1 b[text]:'x'"),
        (0x210, 5, "COMMIT 5"),
        (0x218, 0, "message: transactional: 0 prefix: p, sz: 3 content:out"),
        (0x1E0, 7, "BEGIN 7"),
        (0x1E0, 7, "table public.t: INSERT: a[integer]:2 b[text]:'x'"),
        (0x238, 7, "message: transactional: 1 prefix: p, sz: 2 content:in"),
        (0x250, 7, "COMMIT 7"),
        (0x2F0, 9, "BEGIN 9"),
        (0x2F0, 9, "table public.t: INSERT: a[integer]:4 b[text]:'x'"),
        (0x310, 9, "PREPARE TRANSACTION 'g', txid 9"),
        (0x330, 9, "COMMIT PREPARED 'g', txid 9"),
        (0x340, 10, "BEGIN 10"),
        (0x340, 10, "table public.t: INSERT: a[integer]:5 b[text]:'x'"),
        (0x360, 10, "PREPARE TRANSACTION 'h', txid 10"),
        (0x380, 10, "ROLLBACK PREPARED 'h', txid 10"),
        (0x3F0, 11, "BEGIN 11"),
        (0x3F0, 11, "table public.t: TRUNCATE: restart_seqs cascade"),
        (0x410, 11, "COMMIT 11"),
    ]
    assert wal.missing == []


def test_reading_goes_on_where_the_slot_is_and_a_prepared_transaction_is_known_by_then(tmp_path):
    receive(
        tmp_path,
        [
            m.BeginPrepare(0x200, 0x210, 1, 9, "x_nodecode"), T, insert("4", 0x1F0), m.Prepare(0x200, 0x210, 1, 9, "x_nodecode"),
            m.Begin(0x300, 5, 5), insert("1", 0x2F0), m.Commit(0x300, 0x310, 5),
            m.CommitPrepared(0x320, 0x330, 11, 9, "x_nodecode"),
        ],

    )  # fmt: skip
    slot = functions_of(replayed(tmp_path))
    assert [change.xid for change in slot.get_changes(0x310)] == [5, 5, 5]
    assert [change.data for change in slot.get_changes(None, None, *NO_XIDS)] == [
        "BEGIN", "table public.t: INSERT: a[integer]:4 b[text]:'x'", "COMMIT",
    ]  # fmt: skip
    assert slot.get_changes() == []


def test_a_transaction_that_was_prepared_before_the_journal_is_missing(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x210, [m.CommitPrepared(0x200, 0x210, 11, 9, "g")], kind="k", xid=9)
        publish(journal, 0x230, [m.RollbackPrepared(0x190, 0x230, 11, 12, 10, "h")], kind="r", xid=10)
    wal = replayed(tmp_path)
    assert lines(wal) == []
    assert wal.missing == [
        'transaction 9 was prepared as "g" before the journal begins: its changes are missing, and its end at 0/210 is left out',
        'transaction 10 was prepared as "h" before the journal begins: its changes are missing, and its end at 0/230 is left out',
    ]
    assert lines(wal) == []
    assert len(wal.missing) == 2


def test_an_origin_has_its_name_and_a_number_of_the_replay(tmp_path):
    script: list[bytes | m.Message] = []
    for number, origin in enumerate(["o", None, "p", "o"]):
        at = 0x200 + 0x100 * number
        named = [] if origin is None else [m.Origin(5, origin)]
        script += [m.Begin(at, 5, 5 + number), *named, T, insert(str(number), at - 8), m.Commit(at, at + 8, 5)]
    receive(tmp_path, script)
    wal = replayed(tmp_path)
    assert len(lines(wal)) == 12
    assert lines(wal, *NO_XIDS, "only-local", "1")[1] == "table public.t: INSERT: a[integer]:1 b[text]:'x'"
    assert len(lines(wal, "only-local", "1")) == 3


def test_a_transaction_has_the_description_that_it_was_sent_with(tmp_path):
    wider = relation("public.t", {"a": "int4", "b": "text", "c": "int4"}, key=["a"])
    recreated = m.Relation(99, "public", "t", "n", T.columns[:1])
    receive(
        tmp_path,
        [
            m.Begin(0x200, 5, 5), T, insert("1", 0x1F0), wider,
            frame(m.Insert(T.relation_id, values("2", None, "3")), 0x1F8), m.Commit(0x200, 0x210, 5),
            m.Begin(0x300, 5, 6), frame(m.Insert(T.relation_id, values("3", None, "3")), 0x2F8), m.Commit(0x300, 0x310, 5),
            m.Begin(0x400, 5, 7), recreated, frame(m.Insert(99, values("4")), 0x3F8), m.Commit(0x400, 0x410, 5),
        ],
    )  # fmt: skip
    assert [line for line in lines(replayed(tmp_path)) if line.startswith("table")] == [
        "table public.t: INSERT: a[integer]:1 b[text]:'x'",
        "table public.t: INSERT: a[integer]:2 b[text]:null c[integer]:3",
        "table public.t: INSERT: a[integer]:3 b[text]:null c[integer]:3",
        "table public.t: INSERT: a[integer]:4",
    ]


def test_pgoutput_sends_what_was_received_if_the_publications_are_named(tmp_path):
    sent = (m.Begin(0x200, 5, 5), T, m.Insert(T.relation_id, values("1", "x")), m.Commit(0x200, 0x210, 5))
    receive(tmp_path, [sent[0], sent[1], frame(sent[2], 0x1F0), sent[3]])
    options = ("proto_version", "1", "publication_names", '"p q"')
    changes = functions_of(replayed(tmp_path, ["p q"]), "pgoutput").get_binary_changes(None, None, *options)
    assert [decode(change.data) for change in changes] == list(sent)
    with pytest.raises(OutputPluginError, match="produces binary output"):
        functions_of(replayed(tmp_path, ["p q"]), "pgoutput").get_changes(None, None, *options)


def test_the_server_version_is_the_callers(tmp_path):
    """E28."""
    receive(tmp_path, [m.Begin(0x200, 5, 5), frame(m.LogicalMessage(True, 0x1F8, "p", b"x"), 0x1F8), m.Commit(0x200, 0x210, 5)])  # fmt: skip
    assert len(lines(replayed(tmp_path), "skip-empty-xacts", "1")) == 3
    assert len(lines(replayed(tmp_path, server_version=150000), "skip-empty-xacts", "1")) == 1


def test_a_transaction_of_which_only_the_ends_were_sent_has_these(tmp_path):
    """A21: by a publisher older than 15, or if it was rolled back while it was decoded (E14)."""
    receive(
        tmp_path,
        [
            m.Begin(0x200, 5, 5), m.Commit(0x200, 0x210, 5),
            m.BeginPrepare(0x300, 0x310, 10, 9, "g"), T, m.Prepare(0x300, 0x310, 10, 9, "g"),
            m.RollbackPrepared(0x310, 0x330, 10, 11, 9, "g"),
        ],
    )  # fmt: skip
    ends = ["PREPARE TRANSACTION 'g', txid 9", "ROLLBACK PREPARED 'g', txid 9"]
    assert lines(replayed(tmp_path)) == ["BEGIN 5", "COMMIT 5", "BEGIN 9", *ends]
    assert lines(replayed(tmp_path), "skip-empty-xacts", "1") == ends[1:]


# The whole way ----------------------------------------------------------------------------------


def busy_publisher() -> MemoryDatabase:
    publisher = MemoryDatabase()
    publisher.create_table("t", {"a": "integer", "b": "text", "n": "numeric(5,2)"}, ["a"])
    publisher.create_table("f", {"a": "integer", "b": "text"}, ["a"])
    publisher.create_publication(Publication("p", all_tables=True))
    publisher.session().replica_identity("f", "full")
    publisher.take()
    one, two, three = (publisher.session() for _ in range(3))
    one.begin()
    one.insert("t", a=1, b=Toasted("x" * 9000), n="1.50")
    two.begin()
    two.insert("f", a=1, b="x")
    one.update("t", {"a": 1}, a=2)
    two.update("f", {"a": 1}, b="y")
    two.commit()
    one.savepoint("s")
    one.insert("t", a=3)
    one.rollback_to("s")
    one.savepoint("s")
    one.insert("t", a=4, b="it's")
    one.message("m", b"text")
    one.commit()
    three.begin()
    three.delete("f", {"a": 1})
    three.truncate("f", cascade=True)
    three.prepare("g'1")
    two.message("m", b"outside", transactional=False)
    three.commit_prepared("g'1")
    one.begin()
    one.add_column("t", Column("new", "date"))
    one.insert("t", a=5, new="2000-01-01")
    one.delete("t", {"a": 4})
    one.commit()
    two.begin()
    two.insert("t", a=6)
    two.prepare("h")
    two.rollback_prepared("h")
    return publisher


@pytest.mark.parametrize("streaming", ["off", "on", "parallel"])
@pytest.mark.parametrize("binary", ["false", "true"])
def test_the_lines_are_those_of_the_publisher_itself(tmp_path, streaming, binary):
    """What was sent through pgoutput and the journal gives the same lines as the WAL itself."""
    publisher = busy_publisher()
    frames: list[bytes] = []
    options = {
        "proto_version": "4", "publication_names": "p", "messages": "true", "two_phase": "true",
        "streaming": streaming, "binary": binary,
    }  # fmt: skip
    settings = ReorderSettings(debug_logical_replication_streaming="immediate")
    slot = ReplicationSlot("s", "pgoutput", two_phase=True)
    with LogicalDecoding(
        load_output_plugin("pgoutput"), slot, WalSenderWriter(frames.append), options,
        catalog=publisher.first_catalog, settings=settings,
    ) as decoding:  # fmt: skip
        for record in publisher.records:
            decoding.process(record)
    receive(tmp_path, frames, write_abort_info=streaming == "parallel", binary=binary == "true")
    # The WAL as it was when it was sent: nothing was known to be rolled back.
    sent = RecordedWal(lambda: publisher.records, publisher.first_catalog)
    direct = SlotFunctions(load_output_plugin("test_decoding"), ReplicationSlot("s", "t", two_phase=True), sent)
    timed = ("include-timestamp", "1")
    expected = [(change.xid, change.data) for change in direct.get_changes(None, None, *timed)]
    received = [
        (change.xid, change.data) for change in functions_of(replayed(tmp_path)).get_changes(None, None, *timed)
    ]
    assert received == expected
    assert len(expected) == 24
