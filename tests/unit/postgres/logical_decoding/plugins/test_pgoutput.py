"""pgoutput: which messages it sends, in which order. The servers 18, 16 and 15 send the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.logical_decoding import (
    CollectingWriter,
    Column,
    LogicalDecoding,
    MemoryDatabase,
    ReorderSettings,
    ReplicationSlot,
    Toasted,
    WalSenderWriter,
    callbacks_of,
    create_slot,
)
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.context import CALLBACKS, OutputWriter
from subscriber.postgres.logical_decoding.plugins.pgoutput import PgOutput
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.envelope import decode_envelope
from subscriber.postgres.protocol.messages import Message
from subscriber.postgres.publication.definition import Publication, TableEntry


def run(publisher: MemoryDatabase, writer: OutputWriter, *, work_mem: int = 0, **options: str) -> None:
    """Decode the records of a publisher with pgoutput.

    A session that streams does so at every change, unless ``work_mem`` is given.
    """
    given = {"proto_version": "4", "publication_names": "p", **options}
    immediate = given.get("streaming", "off") != "off" and not work_mem
    settings = ReorderSettings(
        logical_decoding_work_mem=work_mem or 64 << 20,
        debug_logical_replication_streaming="immediate" if immediate else "buffered",
    )
    slot = ReplicationSlot("s", "pgoutput")
    with LogicalDecoding(PgOutput(), slot, writer, given, settings=settings) as decoding:
        for record in publisher.records:
            decoding.process(record)


def messages(publisher: MemoryDatabase, **options: Any) -> list[Message]:
    """What pgoutput sends for the records of a publisher."""
    writer = CollectingWriter()
    run(publisher, writer, **options)
    found: list[Message] = []
    in_stream = False
    for output in writer.outputs:
        parallel = options.get("streaming") == "parallel"
        message = decode(output.data, in_stream=in_stream, write_abort_info=parallel)
        in_stream = isinstance(message, m.StreamStart) or (in_stream and not isinstance(message, m.StreamStop))
        found.append(message)
    return found


def words(found: Sequence[Message]) -> list[str]:
    """Messages as words: ``R t``, ``I 1 x``, ``U K 1 null: 2 x``."""
    names: dict[int, str] = {}
    return [_word(message, names) for message in found]


def sent(publisher: MemoryDatabase, **options: Any) -> list[str]:
    """What pgoutput sends, as words."""
    return words(messages(publisher, **options))


def changes(publisher: MemoryDatabase, **options: Any) -> list[str]:
    """The changes that pgoutput sends, without transactions and descriptions."""
    return [word for word in sent(publisher, **options) if word[0] in "IUDT"]


def _word(message: Message, names: dict[int, str]) -> str:
    match message:
        case m.Relation():
            names[message.relation_id] = message.name
            columns = ",".join(("*" if one.is_identity else "") + one.name for one in message.columns)
            word = f"R {message.name} {message.replica_identity} {columns}"
        case m.Type():
            word = f"Y {message.namespace}.{message.name}"
        case m.Insert():
            word = f"I {names[message.relation_id]} {_values(message.new)}"
        case m.Update():
            old = "" if message.old is None else f"{message.old_kind} {_values(message.old)}: "
            word = f"U {names[message.relation_id]} {old}{_values(message.new)}"
        case m.Delete():
            word = f"D {names[message.relation_id]} {message.old_kind} {_values(message.old)}"
        case m.Truncate():
            flags = " cascade" * message.cascade + " restart" * message.restart_identity
            word = f"T {','.join(names[oid] for oid in message.relation_ids)}{flags}"
        case m.LogicalMessage():
            word = (
                f"M {'' if message.transactional else 'non-'}transactional {message.prefix} {message.content.decode()}"
            )
        case m.Origin():
            word = f"O {message.name} {message.origin_lsn}"
        case m.StreamStart():
            word = f"S {message.xid}" + " first" * message.first_segment
        case m.StreamAbort():
            word = f"A {message.xid} {message.subxid}"
        case _:
            word = message.type_byte
    xid = getattr(message, "xid", None)
    changed = isinstance(message, m.Relation | m.Type | m.Insert | m.Update | m.Delete | m.Truncate | m.LogicalMessage)
    return f"{word} @{xid}" if changed and xid is not None else word


def _values(row: Sequence[m.ColumnValue]) -> str:
    return " ".join(one.name.lower() if isinstance(one, m.Absence) else one.data.decode() for one in row)


ALL = Publication("p", all_tables=True)


def publisher(publication: Publication = ALL, *names: str) -> MemoryDatabase:
    made = MemoryDatabase()
    for name in names or ("t",):
        made.create_table(name, {"a": "integer", "b": "text"}, primary_key=["a"])
    made.create_publication(publication)
    return made


def member(name: str, where: str | None = None) -> TableEntry:
    return TableEntry("public", name, None, where)


def ended(one: MemoryDatabase, count: int = 1) -> list[Any]:
    """The last records, which end transactions."""
    return list(one.records[-count:])


def test_it_has_every_callback_but_filter_prepare():
    """E2: every PREPARE is decoded."""
    assert set(callbacks_of(PgOutput()).registered) == set(CALLBACKS) - {"filter_prepare"}


def test_a_slot_is_created_without_options_and_without_streaming():
    """A31."""
    ctx = create_slot(PgOutput(), ReplicationSlot("s", "pgoutput", two_phase=True), CollectingWriter())
    assert (ctx.streaming, ctx.twophase, ctx.options.output_type) == (False, False, "binary")


# Transactions -----------------------------------------------------------------------------------


def test_changes_travel_between_begin_and_commit_after_their_description():
    one = publisher()
    session = one.session()
    session.begin()
    session.insert("t", a=1, b="x")
    session.update("t", {"a": 1}, b="y")
    session.update("t", {"a": 1}, a=2)
    session.delete("t", {"a": 2})
    session.commit()
    assert sent(one) == [
        "B", "R t d *a,b", "I t 1 x", "U t 1 y", "U t K 1 null: 2 y", "D t K 2 null", "C",
    ]  # fmt: skip


def test_begin_and_commit_have_the_positions_and_the_time_of_the_commit_record():
    """A17."""
    one = publisher()
    one.session().insert("t", a=1)
    begin, *_, commit = messages(one)
    (record,) = ended(one)
    assert begin == m.Begin(record.lsn, record.timestamp, record.xid)
    assert commit == m.Commit(record.lsn, record.end_lsn, record.timestamp)


def test_a_transaction_without_a_published_change_is_not_sent(caplog):
    """A21."""
    one = publisher(Publication("p", tables=(member("t", "a > 10"),)), "t", "u")
    with caplog.at_level("DEBUG", "subscriber.postgres.logical_decoding.plugins.pgoutput"):
        session = one.session()
        session.insert("u", a=1)
        session.insert("t", a=1)
        session.begin()
        session.insert("u", a=2)
        session.insert("t", a=11, b="x")
        session.commit()
        assert sent(one) == ["B", "R t d *a,b", "I t 11 x", "C"]
    assert "skipped replication of an empty transaction with XID: " in caplog.text


def test_progress_is_reported_for_transactions_that_are_left_out():
    """OutputPluginUpdateProgress."""

    class Progress(CollectingWriter):
        def __init__(self) -> None:
            super().__init__()
            self.skipped: list[bool] = []

        def update_progress(self, lsn: int, xid: int, skipped_xact: bool) -> None:
            self.skipped.append(skipped_xact)

    one = publisher(Publication("p", tables=(member("t"),)), "t", "u")
    one.session().insert("u", a=1)
    one.session().insert("t", a=1)
    writer = Progress()
    run(one, writer)
    assert writer.skipped[-2:] == [True, False]


def test_the_origin_follows_begin():
    """A15, A16."""
    one = publisher()
    one.create_origin("up")
    session = one.session()
    session.replicate_origin("up")
    session.begin()
    session.origin_xact(0xAA, 5)
    session.insert("t", a=1)
    session.commit()
    found = messages(one)
    assert found[:2] == [m.Begin(ended(one)[0].lsn, 5, ended(one)[0].xid), m.Origin(0xAA, "up")]


def test_an_origin_without_a_name_is_left_out_but_begin_is_sent_as_if_it_followed():
    """A15, A34."""
    one = publisher()
    one.create_origin("up")
    session = one.session()
    session.replicate_origin("up")
    session.insert("t", a=1)
    one.records = [record for record in one.records if not isinstance(record, wal.OriginChangeRecord)]
    writer = CollectingWriter()
    run(one, writer)
    assert [(chr(output.data[0]), output.last_write) for output in writer.outputs[:2]] == [("B", False), ("R", False)]


def test_changes_of_other_origins_are_left_out_if_the_client_asks_for_none():
    """E16."""
    one = publisher()
    one.create_origin("up")
    session = one.session()
    session.insert("t", a=1)
    session.replicate_origin("up")
    session.insert("t", a=2)
    assert changes(one, origin="none") == ["I t 1 null"]
    assert changes(one, origin="any") == ["I t 1 null", "I t 2 null"]


def test_only_the_last_write_of_a_callback_has_a_position():
    """A34."""
    one = publisher()
    one.create_origin("up")
    session = one.session()
    session.replicate_origin("up")
    session.insert("t", a=1)
    frames: list[bytes] = []
    run(one, WalSenderWriter(frames.append))
    envelopes: list[Any] = [decode_envelope(frame) for frame in frames]
    kinds = [(chr(one.payload[0]), one.start_lsn != 0) for one in envelopes]
    assert kinds == [("B", False), ("O", True), ("R", False), ("I", True), ("C", True)]


# Descriptions -----------------------------------------------------------------------------------


def test_a_table_is_described_again_after_ddl_also_inside_of_a_transaction():
    """A24, B12b."""
    one = publisher()
    session = one.session()
    session.begin()
    session.insert("t", a=1, b="x")
    session.add_column("t", Column("c", "integer"))
    session.insert("t", a=2, b="y", c=3)
    session.insert("t", a=3, b="z", c=4)
    session.commit()
    session.insert("t", a=4)
    session.insert("t", a=5)
    assert sent(one) == [
        "B", "R t d *a,b", "I t 1 x", "R t d *a,b,c", "I t 2 y 3", "I t 3 z 4", "C",
        "B", "R t d *a,b,c", "I t 4 null null", "C", "B", "I t 5 null null", "C",
    ]  # fmt: skip


def test_membership_is_that_of_the_position_of_the_change():
    """B12b."""
    one = publisher(Publication("p", tables=(member("t"),)), "t", "u")
    session = one.session()
    session.begin()
    session.insert("t", a=1)
    session.insert("u", a=1)
    session.create_publication(Publication("p", tables=(member("u"),)))
    session.insert("t", a=2)
    session.insert("u", a=2)
    session.commit()
    assert changes(one) == ["I t 1 null", "I u 2 null"]


def test_an_error_of_the_publications_comes_with_the_first_change():
    """B39."""
    one = publisher(Publication("p", tables=(TableEntry("public", "t", ("a",)),)))
    one.create_publication(Publication("q", tables=(member("t"),)))
    one.session().insert("t", a=1)
    with pytest.raises(NotSupportedError, match="cannot use different column lists") as caught:
        sent(one, publication_names="p,q")
    assert caught.value.context is not None
    assert "in the change callback, associated LSN " in caught.value.context


# Rows -------------------------------------------------------------------------------------------


def test_a_delete_without_an_old_row_is_left_out():
    """B13."""
    one = publisher()
    session = one.session()
    session.replica_identity("t", "nothing")
    session.insert("t", a=1)
    session.update("t", {"a": 1}, b="x")
    session.delete("t", {"a": 1})
    assert changes(one) == ["I t 1 null", "U t 1 x"]


def test_a_whole_old_row_is_sent_with_identity_full_and_unchanged_values_are_marked():
    """A10, A11, B14."""
    one = publisher()
    session = one.session()
    session.replica_identity("t", "full")
    session.insert("t", a=1, b=Toasted("long"))
    session.update("t", {"a": 1}, a=2)
    assert changes(one) == ["I t 1 long", "U t O 1 long: 2 unchanged"]


def test_operations_that_are_not_published_are_left_out_but_a_filter_may_make_others():
    """B19."""
    where = Publication("p", tables=(member("t", "a > 10"),), publish=frozenset({"update"}))
    one = publisher(where)
    session = one.session()
    session.insert("t", a=11)
    session.update("t", {"a": 11}, a=1)
    session.update("t", {"a": 1}, a=12)
    session.delete("t", {"a": 12})
    session.truncate("t")
    assert changes(one) == ["D t K 11 null", "I t 12 null"]


def test_binary_values_are_sent_in_binary_format():
    """A11."""
    one = publisher()
    one.session().insert("t", a=1, b="x")
    (insert,) = [one for one in messages(one, binary="true") if isinstance(one, m.Insert)]
    assert insert.new == (m.BinaryValue(b"\0\0\0\1"), m.BinaryValue(b"x"))


def test_tables_that_cannot_be_published_are_left_out():
    """B1."""
    one = publisher()
    one.create_table("pg_catalog.c", {"a": "integer"}, ["a"])
    one.session().insert("t", a=1)
    assert changes(one) == ["I t 1 null"]


# Partitions -------------------------------------------------------------------------------------


def partitioned(publication: Publication) -> MemoryDatabase:
    made = MemoryDatabase()
    session = made.session()
    session.create_table("r", {"a": "integer", "b": "text"}, ["a"], partition_by="a")
    session.create_partition("r1", "r", [1], columns={"b": "text", "a": "integer"})
    session.create_partition("r2", "r")
    session.create_publication(publication)
    return made


def test_partitions_travel_under_their_own_names_or_as_their_root():
    """A23, B2, B12, B21."""
    for via_root, expected in (
        (False, ["B", "R r1 d b,*a", "I r1 x 1", "C", "B", "R r1 d b,*a", "R r2 d *a,b", "T r1,r2", "C"]),
        (True, ["B", "R r d *a,b", "R r1 d b,*a", "I r 1 x", "C", "B", "R r d *a,b", "T r", "C"]),
    ):
        one = partitioned(Publication("p", tables=(member("r"),), via_root=via_root))
        session = one.session()
        session.insert("r", a=1, b="x")
        session.truncate("r")
        assert sent(one) == expected


def test_the_truncate_of_a_partition_alone_is_not_sent_if_its_root_is_published():
    """B21."""
    one = partitioned(Publication("p", tables=(member("r"),), via_root=True))
    one.session().truncate("r1")
    assert sent(one) == []


def test_a_truncate_names_the_published_tables_and_has_the_flags_of_the_command():
    """A26, B22."""
    one = publisher(Publication("p", tables=(member("t"), member("v"))), "t", "u", "v")
    session = one.session()
    session.truncate("u", "v", "t", cascade=True, restart_identity=True)
    session.truncate("u")
    assert sent(one) == ["B", "R v d *a,b", "R t d *a,b", "T v,t cascade restart", "C"]


# Messages ---------------------------------------------------------------------------------------


def test_messages_are_sent_if_the_client_asks_for_them():
    """A25, A17."""
    one = publisher()
    session = one.session()
    session.begin()
    lsn = session.message("pre", "one")
    session.message("pre", "two", transactional=False)
    session.rollback()
    session.message("pre", "three")
    assert sent(one) == []
    found = messages(one, messages="true")
    assert words(found) == ["M non-transactional pre two", "B", "M transactional pre three", "C"]
    assert isinstance(found[0], m.LogicalMessage)
    assert found[0].lsn > lsn


# Two-phase commit -------------------------------------------------------------------------------


def prepared(*, commit: bool) -> MemoryDatabase:
    one = publisher()
    session = one.session()
    session.begin()
    session.insert("t", a=1)
    session.prepare("g")
    (session.commit_prepared if commit else session.rollback_prepared)("g")
    return one


def test_a_prepared_transaction_is_sent_at_prepare():
    """A22."""
    one = prepared(commit=True)
    found = messages(one, two_phase="on")
    prepare, commit = ended(one, 2)
    assert words(found) == ["b", "R t d *a,b", "I t 1 null", "P", "K"]
    body = (prepare.lsn, prepare.end_lsn, prepare.timestamp, prepare.xid, "g")
    assert found[0] == m.BeginPrepare(*body)
    assert found[3] == m.Prepare(*body)
    assert found[4] == m.CommitPrepared(commit.lsn, commit.end_lsn, commit.timestamp, commit.xid, "g")


def test_a_rollback_names_the_end_and_time_of_prepare():
    one = prepared(commit=False)
    prepare, rollback = ended(one, 2)
    assert messages(one, two_phase="on")[-1] == m.RollbackPrepared(
        prepare.end_lsn, rollback.end_lsn, prepare.timestamp, rollback.timestamp, prepare.xid, "g"
    )


def test_without_the_option_a_prepared_transaction_is_sent_at_its_commit():
    """E5."""
    assert sent(prepared(commit=True)) == ["B", "R t d *a,b", "I t 1 null", "C"]
    assert sent(prepared(commit=False)) == []


def test_a_prepared_transaction_is_announced_even_if_nothing_is_published():
    """A22."""
    one = publisher(Publication("p"), "t")
    session = one.session()
    session.begin()
    session.insert("t", a=1)
    session.prepare("g")
    assert sent(one, two_phase="on") == ["b", "P"]


# Streaming --------------------------------------------------------------------------------------


def streamed() -> MemoryDatabase:
    one = publisher()
    session = one.session()
    session.begin()
    session.insert("t", a=1)
    session.savepoint("s")
    session.insert("t", a=2)
    session.rollback_to("s")
    session.insert("t", a=3)
    return one


def test_a_streamed_change_has_the_number_of_its_subtransaction():
    """A3, A24: described once for the transaction, and the number is that of the change."""
    one = publisher()
    session = one.session()
    session.begin()
    session.savepoint("s")
    session.insert("t", a=1)
    session.release("s")
    session.insert("t", a=2)
    session.commit()
    session.insert("t", a=3)
    top = next(record.top_xid for record in one.records if isinstance(record, wal.SubtransactionStartRecord))
    assert sent(one, streaming="on")[:8] == [
        f"S {top} first", f"R t d *a,b @{top + 1}", f"I t 1 null @{top + 1}", "E",
        f"S {top}", f"I t 2 null @{top}", "E", "c",
    ]  # fmt: skip


@pytest.mark.parametrize(("end", "described"), [("commit", False), ("rollback", True)])
def test_a_committed_stream_leaves_its_descriptions_and_an_aborted_one_does_not(end, described):
    """A24: the second transaction is small, and so it is not streamed."""
    one = publisher()
    session = one.session()
    session.begin()
    session.insert("t", a=1, b="x" * 100_000)
    getattr(session, end)()
    session.insert("t", a=2)
    found = sent(one, streaming="on", work_mem=65536)
    expected = ["B", "R t d *a,b", "I t 2 null", "C"] if described else ["B", "I t 2 null", "C"]
    assert found[-len(expected) :] == expected
    assert ("R t d *a,b" in found) is described
    assert any(word.startswith("S ") for word in found)


@pytest.mark.parametrize("mode", ["on", "parallel"])
def test_an_abort_has_its_position_and_time_only_for_parallel_apply(mode):
    """A5, A6."""
    one = streamed()
    aborted = next(record for record in one.records if isinstance(record, wal.SubtransactionAbortRecord))
    (abort,) = [one for one in messages(one, streaming=mode) if isinstance(one, m.StreamAbort)]
    assert (abort.xid, abort.subxid) == (aborted.xid - 1, aborted.xid)
    info = (aborted.end_lsn, aborted.timestamp) if mode == "parallel" else (None, None)
    assert (abort.abort_lsn, abort.abort_timestamp) == info


def test_the_origin_follows_the_first_block_only_and_without_a_position():
    """A15."""
    one = publisher()
    one.create_origin("up")
    session = one.session()
    session.replicate_origin("up")
    session.begin()
    session.origin_xact(0xAA, 5)
    session.insert("t", a=1)
    session.insert("t", a=2)
    session.commit()
    found = sent(one, streaming="on")
    assert [word for word in found if word[0] in "OSEc"] == [found[0], "O up 0", "E", found[0][:-6], "E", "c"]


def test_a_stream_is_committed_with_the_position_of_its_commit():
    one = publisher()
    one.session().insert("t", a=1)
    (record,) = ended(one)
    assert messages(one, streaming="on")[-1] == m.StreamCommit(record.xid, record.lsn, record.end_lsn, record.timestamp)


def test_a_stream_can_be_prepared():
    one = prepared(commit=True)
    prepare, _ = ended(one, 2)
    found = messages(one, streaming="on", two_phase="on")
    assert words(found)[-2:] == ["p", "K"]
    assert found[-2] == m.StreamPrepare(prepare.lsn, prepare.end_lsn, prepare.timestamp, prepare.xid, "g")


def test_messages_and_truncates_of_a_stream_have_its_number():
    """A3."""
    one = publisher()
    session = one.session()
    session.begin()
    session.message("pre", "one")
    session.truncate("t")
    session.commit()
    xid = ended(one)[0].xid
    found = sent(one, streaming="on", messages="true")
    assert f"M transactional pre one @{xid}" in found
    assert f"T t @{xid}" in found
