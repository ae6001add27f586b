"""The lines of test_decoding (rules E20-E28).

They are compared with a server's in ``conformance/test_lines_of_test_decoding.py``.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding import (
    CollectingWriter,
    Column,
    LogicalDecoding,
    MemoryDatabase,
    ReorderSettings,
    ReplicationSlot,
    Session,
    Toasted,
    callbacks_of,
)
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.context import CALLBACKS
from subscriber.postgres.logical_decoding.plugins.test_decoding import TestDecoding

IMMEDIATE = ReorderSettings(debug_logical_replication_streaming="immediate")
TYPES = {
    "i2": "smallint", "i4": "integer", "i8": "bigint", "o": "oid", "f4": "real", "f8": "double precision",
    "n": "numeric(10,2)", "b": "bit(3)", "vb": "bit varying(5)", "t": "boolean", "vc": "character varying(10)",
    "c": "character(3)", "ts": "timestamp without time zone", "ia": "integer[]", "by": "bytea", "d": "date",
}  # fmt: skip


@pytest.fixture
def publisher() -> MemoryDatabase:
    made = MemoryDatabase()
    made.create_table("t", {"a": "integer", "b": "text"}, ["a"])
    made.take()
    return made


def decoded(publisher: MemoryDatabase, options=None, settings=None, *, two_phase=False, catalog=None) -> list[str]:
    writer = CollectingWriter()
    slot = ReplicationSlot("s", "test_decoding", two_phase=two_phase)
    catalog = catalog or publisher.catalog
    with LogicalDecoding(TestDecoding(), slot, writer, options or {}, catalog=catalog, settings=settings) as decoding:
        for record in publisher.records:
            decoding.process(record)
    return writer.texts


def without_xids(publisher: MemoryDatabase, **options: str) -> list[str]:
    return decoded(publisher, {"include-xids": "0", "skip-empty-xacts": "1"} | options)


def start(publisher: MemoryDatabase) -> Session:
    session = publisher.session()
    session.begin()
    return session


def test_every_callback_is_registered():
    """E1a."""
    registered = callbacks_of(TestDecoding())
    assert [name for name in CALLBACKS if registered.get(name) is None] == []


# Rows ---------------------------------------------------------------------------------------------


def test_rows_are_printed_with_the_types_of_their_columns(publisher):
    """E22, E23."""
    session = start(publisher)
    session.insert("t", a=1, b="x")
    session.update("t", {"a": 1}, a=2)
    session.update("t", {"a": 2}, b=None)
    session.delete("t", {"a": 2})
    session.commit()
    assert decoded(publisher) == [
        "BEGIN 732",
        "table public.t: INSERT: a[integer]:1 b[text]:'x'",
        "table public.t: UPDATE: old-key: a[integer]:1 new-tuple: a[integer]:2 b[text]:'x'",
        "table public.t: UPDATE: a[integer]:2 b[text]:null",
        "table public.t: DELETE: a[integer]:2",
        "COMMIT 732",
    ]


def test_an_old_row_has_no_nulls_and_a_delete_without_identity_no_row(publisher):
    """E23, E24."""
    session = publisher.session()
    session.replica_identity("t", "full")
    session.insert("t", a=1)
    session.update("t", {"a": 1}, b="x")
    session.replica_identity("t", "nothing")
    session.delete("t", {"a": 1})
    assert [line for line in without_xids(publisher) if line.startswith("table")] == [
        "table public.t: INSERT: a[integer]:1 b[text]:null",
        "table public.t: UPDATE: old-key: a[integer]:1 new-tuple: a[integer]:1 b[text]:'x'",
        "table public.t: DELETE: (no-tuple-data)",
    ]


def test_literals_are_quoted_by_type(publisher):
    """E25; the spelling of types is that of format_type without a modifier (E24)."""
    publisher.create_table("v", TYPES)
    publisher.take()
    row = dict.fromkeys(TYPES, "1") | {
        "n": "1.50", "b": "101", "vb": "01", "t": True, "vc": r"it's \ here", "ts": "2000-01-01 00:00:00",
        "c": "1  ", "ia": "{1,2}", "by": r"\x00ff", "d": "2000-01-01", "f8": "NaN",
    }  # fmt: skip
    publisher.session().insert("v", row)
    assert without_xids(publisher)[1] == (
        "table public.v: INSERT: i2[smallint]:1 i4[integer]:1 i8[bigint]:1 o[oid]:1 f4[real]:1 f8[double precision]:NaN"
        " n[numeric]:1.50 b[bit]:B'101' vb[bit varying]:B'01' t[boolean]:true vc[character varying]:'it''s \\ here'"
        " c[character]:'1  ' ts[timestamp without time zone]:'2000-01-01 00:00:00' ia[integer[]]:'{1,2}'"
        " by[bytea]:'\\x00ff' d[date]:'2000-01-01'"
    )


def test_a_domain_is_quoted_whatever_its_base_type_and_names_are_quoted_if_they_must_be(publisher):
    """E24, E25."""
    session = publisher.session()
    session.create_domain("positive", "integer")
    session.create_table("Odd", {"select": "positive", "B b": "boolean", "ok": "boolean"})
    catalog = publisher.catalog
    publisher.take()
    session.insert("Odd", {"select": 5, "B b": False})
    assert decoded(publisher, {"include-xids": "0"}, catalog=catalog)[1] == (
        'table public."Odd": INSERT: "select"[positive]:\'5\' "B b"[boolean]:false ok[boolean]:null'
    )


def test_a_value_that_was_not_written_again_is_named(publisher):
    """E24."""
    session = publisher.session()
    session.insert("t", a=1, b=Toasted("x" * 5000))
    session.update("t", {"a": 1}, a=2)
    assert without_xids(publisher)[-2] == (
        "table public.t: UPDATE: old-key: a[integer]:1 new-tuple: a[integer]:2 b[text]:unchanged-toast-datum"
    )


def test_a_dropped_column_is_left_out(publisher):
    """E24."""
    session = publisher.session()
    session.drop_column("t", "b")
    session.insert("t", a=1)
    assert "table public.t: INSERT: a[integer]:1" in without_xids(publisher)


def test_truncate_names_all_tables_and_its_flags(publisher):
    """E26."""
    publisher.create_table("Two", {"a": "integer"})
    publisher.take()
    session = publisher.session()
    session.truncate("t", "Two", restart_identity=True, cascade=True)
    session.truncate("t")
    assert [line for line in without_xids(publisher) if line.startswith("table")] == [
        'table public.t, public."Two": TRUNCATE: restart_seqs cascade',
        "table public.t: TRUNCATE: (no-flags)",
    ]


def test_the_rows_of_a_rewrite_are_those_of_the_table(publisher):
    """E17, E20."""
    session = publisher.session()
    session.insert("t", a=1, b="x")
    publisher.take()
    session.rewrite_table("t")
    assert without_xids(publisher) == []
    assert without_xids(publisher, **{"include-rewrites": "1"}) == [
        "BEGIN", "table public.t: INSERT: a[integer]:1 b[text]:'x'", "COMMIT",
    ]  # fmt: skip


# Messages and two-phase commit --------------------------------------------------------------------


@pytest.mark.parametrize(("version", "begins"), [(180000, True), (170000, True), (160000, False), (150000, False)])
def test_a_message_in_a_transaction_begins_it_since_17(version, begins):
    """E26, E28."""
    publisher = MemoryDatabase(version)
    session = start(publisher)
    session.message("p", b"outside", transactional=False)
    session.message("p", b"text")
    session.commit()
    message = "message: transactional: 1 prefix: p, sz: 4 content:text"
    assert without_xids(publisher) == [
        "message: transactional: 0 prefix: p, sz: 7 content:outside",
        *(["BEGIN", message, "COMMIT"] if begins else [message]),
    ]


def prepared(publisher: MemoryDatabase, gid: str, end: str) -> None:
    session = start(publisher)
    session.insert("t", a=len(publisher.records))
    session.prepare(gid)
    getattr(session, end)(gid)


def test_two_phase_commit_has_lines_of_its_own(publisher):
    """E22."""
    prepared(publisher, "it's", "commit_prepared")
    prepared(publisher, "back\\slash", "rollback_prepared")
    lines = [line for line in decoded(publisher, two_phase=True) if not line.startswith("table")]
    assert lines == [
        "BEGIN 732",
        "PREPARE TRANSACTION 'it''s', txid 732",
        "COMMIT PREPARED 'it''s', txid 732",
        "BEGIN 733",
        "PREPARE TRANSACTION E'back\\\\slash', txid 733",
        "ROLLBACK PREPARED E'back\\\\slash', txid 733",
    ]


def test_a_name_with_nodecode_is_decoded_at_commit_prepared(publisher):
    """E21."""
    prepared(publisher, "x_nodecode", "commit_prepared")
    lines = decoded(publisher, two_phase=True)
    assert (lines[0], lines[-1], len(lines)) == ("BEGIN 732", "COMMIT 732", 3)


def test_an_empty_prepared_transaction_is_skipped_but_not_its_end(publisher):
    """E28."""
    session = start(publisher)
    session.create_table("new", {"a": "integer"})
    session.prepare("g")
    session.commit_prepared("g")
    assert decoded(publisher, {"skip-empty-xacts": "1"}, two_phase=True) == ["COMMIT PREPARED 'g', txid 732"]
    assert len(decoded(publisher, two_phase=True)) == 3


def test_a_prepared_transaction_without_any_change_is_prepared_but_does_not_begin(publisher):
    """E14."""
    session = start(publisher)
    publisher.log(wal.BeginRecord, xid=900)
    publisher.log(wal.PrepareRecord, xid=900, gid="g", timestamp=0)
    session.commit()
    assert decoded(publisher, {"skip-empty-xacts": "1"}, two_phase=True) == []
    assert decoded(publisher, two_phase=True) == ["PREPARE TRANSACTION 'g', txid 900"]


def test_times_are_printed_at_the_ends(publisher):
    """E22."""
    publisher.session().insert("t", a=1)
    prepared(publisher, "g", "rollback_prepared")
    session = start(publisher)
    session.insert("t", a=5)
    session.rollback()
    lines = decoded(publisher, {"include-timestamp": "1", "include-xids": "0"}, two_phase=True)
    timed = [line for line in lines if not line.startswith("table")]
    assert [line.partition(" (at ")[0] for line in timed] == [
        "BEGIN", "COMMIT", "BEGIN", "PREPARE TRANSACTION 'g'", "ROLLBACK PREPARED 'g'",
    ]  # fmt: skip
    assert [" (at 2025-12-31 00:00:00" in line for line in timed] == [False, True, False, True, True]


# Streaming ----------------------------------------------------------------------------------------


def streamed(publisher: MemoryDatabase, end: str, *arguments: str) -> None:
    session = start(publisher)
    session.insert("t", a=1)
    session.savepoint("s")
    session.insert("t", a=2)
    session.rollback_to("s")
    session.truncate("t")
    session.message("p", b"text")
    getattr(session, end)(*arguments)


def blocks(lines: list[str]) -> list[str]:
    """The lines without the borders of blocks: where a block ends is the host's decision."""
    return [line for line in lines if not line.startswith(("opening", "closing"))]


def test_streamed_changes_are_counted_but_not_shown(publisher):
    """E27."""
    streamed(publisher, "commit")
    lines = decoded(publisher, {"stream-changes": "1"}, IMMEDIATE)
    assert lines[0] == "opening a streamed block for transaction TXN 732"
    assert lines[2] == "closing a streamed block for transaction TXN 732"
    assert blocks(lines) == [
        "streaming change for TXN 732",
        "streaming change for TXN 732",
        "aborting streamed (sub)transaction TXN 733",
        "streaming truncate for TXN 732",
        "streaming message: transactional: 1 prefix: p, sz: 4",
        "committing streamed transaction TXN 732",
    ]


def test_without_numbers_the_lines_name_none(publisher):
    """E27."""
    streamed(publisher, "prepare", "it's")
    options = {"stream-changes": "1", "include-xids": "0"}
    lines = decoded(publisher, options, IMMEDIATE, two_phase=True)
    assert (lines[0], lines[2]) == (
        "opening a streamed block for transaction", "closing a streamed block for transaction",
    )  # fmt: skip
    assert blocks(lines) == [
        "streaming change for transaction",
        "streaming change for transaction",
        "aborting streamed (sub)transaction",
        "streaming truncate for transaction",
        "streaming message: transactional: 1 prefix: p, sz: 4",
        "preparing streamed transaction 'it''s'",
    ]
    assert decoded(publisher, options | {"include-xids": "1", "include-timestamp": "1"}, IMMEDIATE, two_phase=True)[
        -1
    ].startswith("preparing streamed transaction TXN 'it''s', txid 732 (at ")


def test_a_whole_streamed_transaction_can_be_aborted(publisher):
    """E27; the time is never printed."""
    streamed(publisher, "rollback")
    lines = decoded(publisher, {"stream-changes": "1", "include-timestamp": "1"}, IMMEDIATE)
    assert lines[-1] == "aborting streamed (sub)transaction TXN 732"


def test_empty_blocks_are_skipped(publisher):
    """E28: the line that opens a block is written before the first change."""
    session = start(publisher)
    session.create_table("new", {"a": "integer"})
    session.insert("new", a=1)
    session.commit()
    lines = decoded(publisher, {"stream-changes": "1", "skip-empty-xacts": "1"}, IMMEDIATE)
    assert lines == [
        "opening a streamed block for transaction TXN 732",
        "streaming change for TXN 732",
        "closing a streamed block for transaction TXN 732",
        "committing streamed transaction TXN 732",
    ]


def test_without_the_option_nothing_is_streamed(publisher):
    """E20: stream-changes without a value is ignored."""
    publisher.session().insert("t", a=1)
    for options in ({}, {"stream-changes": None}, {"stream-changes": "off"}):
        assert decoded(publisher, options, IMMEDIATE)[0] == "BEGIN 732"


# Options ------------------------------------------------------------------------------------------


def test_an_empty_transaction_is_skipped_and_begin_is_no_last_write(publisher):
    """E28."""
    publisher.create_table("new", {"a": "integer"})
    publisher.session().insert("t", a=1)
    writer = CollectingWriter()
    slot = ReplicationSlot("s", "test_decoding")
    with LogicalDecoding(
        TestDecoding(), slot, writer, {"skip-empty-xacts": None}, catalog=publisher.catalog
    ) as decoding:
        for record in publisher.records:
            decoding.process(record)
    assert [(output.data[:6], output.last_write) for output in writer.outputs] == [
        (b"BEGIN ", False), (b"table ", True), (b"COMMIT", True),
    ]  # fmt: skip


def test_only_local_filters_every_origin(publisher):
    """E21."""
    publisher.create_origin("o")
    session = publisher.session()
    session.replicate_origin("o")
    session.insert("t", a=1)
    publisher.session().insert("t", a=2)
    assert len(without_xids(publisher)) == 6
    assert without_xids(publisher, **{"only-local": "on"})[1] == "table public.t: INSERT: a[integer]:2 b[text]:null"


def started(options) -> tuple[LogicalDecoding, CollectingWriter]:
    writer = CollectingWriter()
    return LogicalDecoding(TestDecoding(), ReplicationSlot("s", "test_decoding"), writer, options), writer


def test_options_without_a_value_are_true_or_ignored():
    """E20."""
    decoding, _ = started([("force-binary", None), ("include-rewrites", None)])
    assert (decoding.ctx.options.output_type, decoding.ctx.options.receive_rewrites) == ("textual", False)
    decoding, _ = started([("force-binary", "yes"), ("force-binary", "no"), ("include-rewrites", "1")])
    assert (decoding.ctx.options.output_type, decoding.ctx.options.receive_rewrites) == ("binary", True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("include-xids", "maybe", 'could not parse value "maybe" for parameter "include-xids"'),
        ("stream-changes", " 1", 'could not parse value " 1" for parameter "stream-changes"'),
        ("include-sequences", "1", 'option "include-sequences" = "1" is unknown'),
        ("nonsense", None, 'option "nonsense" = "(null)" is unknown'),
    ],
)
def test_a_bad_option_is_refused_as_postgresql_does(name, value, message):
    """E20."""
    with pytest.raises(UsageError) as caught:
        started([(name, value)])
    assert (caught.value.message, caught.value.sqlstate) == (message, "22023")
    assert caught.value.context == 'slot "s", output plugin "test_decoding", in the startup callback'


def test_a_generated_column_is_a_column_and_a_virtual_one_is_null(publisher):
    """B.3: a virtual column is not stored."""
    columns = [Column("a", "integer"), Column("v", "integer", generated="virtual", expression="a + 1")]
    publisher.create_table("g", columns)
    publisher.take()
    publisher.session().insert("g", a=1)
    assert without_xids(publisher)[1] == "table public.g: INSERT: a[integer]:1 v[integer]:null"
