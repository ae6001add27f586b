"""A session of logical decoding: its start and end, what it leaves out, two-phase commit, and
records that are wrong.
"""

from __future__ import annotations

import logging

import pytest

from subscriber.base.errors import OutputPluginError, OutputPluginFailed, WalRecordError
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.context import ReplicationSlot
from subscriber.postgres.logical_decoding.decoding import LogicalDecoding, create_slot
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange
from subscriber.postgres.logical_decoding.sql_functions import CollectingWriter
from tests.output_plugins import WIDER, T, Wal, calls, decode, recording_plugin, row

IMMEDIATE = {"debug_logical_replication_streaming": "immediate"}


@pytest.fixture
def wal_() -> Wal:
    made = Wal()
    made.begin(700)
    return made


def two_phase() -> ReplicationSlot:
    return ReplicationSlot("s", "recording", two_phase=True)


# Start and end ------------------------------------------------------------------------------------


def test_the_creation_of_a_slot_calls_startup_without_options():
    """E18."""
    seen = []
    plugin, recorder = recording_plugin(
        startup=lambda ctx, _options, is_init: seen.append((is_init, ctx.output_plugin_options))
    )
    create_slot(plugin, ReplicationSlot("s", "p"), CollectingWriter())
    assert seen == [(True, ())]
    assert recorder.calls == ["startup", "shutdown"]


@pytest.mark.parametrize("options", [{"a": "1", "b": None}, [("a", "1"), ("b", None)]])
def test_a_session_gives_the_plugin_its_options(wal_, options):
    seen = []
    plugin, recorder = recording_plugin(
        startup=lambda ctx, _options, is_init: seen.append((is_init, ctx.output_plugin_options))
    )
    decode(plugin, Wal(), options=options)
    assert seen == [(False, (("a", "1"), ("b", None)))]
    assert recorder.calls == ["startup", "shutdown"]


def test_an_option_may_be_given_twice_so_that_the_plugin_can_refuse_it():
    seen = []
    plugin, _ = recording_plugin(startup=lambda ctx, *_: seen.append(ctx.output_plugin_options))
    decode(plugin, Wal(), options=[("a", "1"), ("a", "2")])
    assert seen == [(("a", "1"), ("a", "2"))]


def test_a_plugin_without_startup_and_shutdown_is_decoded(wal_):
    """E2."""
    wal_.insert(700, "1")
    wal_.commit(700)
    assert calls(recording_plugin(only=["begin", "change", "commit"]), wal_) == [
        "begin 700",
        "change 700 t 1",
        "commit 700",
    ]


@pytest.mark.parametrize(
    ("can", "wants", "slot_two_phase", "asked", "is_on"),
    [
        (True, True, False, False, False),
        (True, True, True, False, True),
        (True, True, False, True, True),
        (True, False, True, True, False),
        (False, True, True, True, False),
    ],
)
def test_two_phase_needs_the_callbacks_the_plugin_and_the_slot_or_the_option(can, wants, slot_two_phase, asked, is_on):
    """E5, E6."""

    def startup(ctx, _options, _is_init):
        ctx.twophase = ctx.twophase and wants
        ctx.twophase_opt_given = asked

    only = {"begin", "change", "commit", "startup", *(["prepare"] if can else [])}
    slot = ReplicationSlot("s", "p", two_phase=slot_two_phase, confirmed_flush=50)
    plugin, _ = recording_plugin(only=only, startup=startup)
    session = LogicalDecoding(plugin, slot, CollectingWriter(), start_lsn=70)
    assert session.ctx.twophase is is_on
    assert slot.two_phase is (slot_two_phase or is_on)
    assert slot.two_phase_at == (70 if is_on and not slot_two_phase else 0)


def test_a_plugin_may_switch_streaming_off(wal_):
    """E6."""

    def startup(ctx, _options, _is_init):
        ctx.streaming = False

    wal_.insert(700, "1")
    wal_.commit(700)
    found = calls(recording_plugin(startup=startup), wal_, **IMMEDIATE)
    assert found == ["begin 700", "change 700 t 1", "commit 700"]


@pytest.mark.parametrize(("asked", "start"), [(0, 0x1000), (0x500, 0x1000), (0x1000, 0x1000), (0x2000, 0x2000)])
def test_a_position_before_the_confirmed_one_is_forwarded(asked, start, caplog):
    """E18."""
    caplog.set_level(logging.INFO)
    session = LogicalDecoding(
        recording_plugin()[0], ReplicationSlot("s", "p", confirmed_flush=0x1000), CollectingWriter(), start_lsn=asked
    )
    assert session.start_lsn == start
    expected = ["0/500 has been already streamed, forwarding to 0/1000"] if asked == 0x500 else []
    assert [one.getMessage() for one in caplog.records] == expected


def test_transactions_that_committed_before_the_start_are_not_sent(wal_):
    """E18: but what they did to the catalogs counts."""
    wal_.schema_change(700, CatalogChange(relations=(WIDER,)))
    wal_.insert(700, "1")
    commit = wal_.commit(700)
    wal_.begin(701)
    wal_.add(wal.InsertRecord, xid=701, relation_oid=T.oid, new=row("2", "x"))
    wal_.commit(701)
    found = calls(recording_plugin(), wal_, start_lsn=commit.lsn + 1)
    assert found == ["begin 701", "change 701 t 2/x", "commit 701"]


def test_every_callback_gets_its_place_in_the_stream(wal_):
    """E8, A17."""
    seen = []
    first = wal_.insert(700, "1")
    message = wal_.add(wal.LogicalMessageRecord, xid=700, transactional=True, prefix="p", content=b"m")
    commit = wal_.commit(700, origin_lsn=7, origin_timestamp=8)
    plugin, recorder = recording_plugin(
        commit=lambda _ctx, txn, lsn: seen.append((lsn, txn.final_lsn, txn.end_lsn, txn.xact_time, txn.origin_lsn))
    )
    decode(plugin, wal_)
    assert recorder.locations == [
        ("begin", first.lsn, 700), ("change", first.lsn, 700),
        ("message", message.end_lsn, 700), ("commit", commit.end_lsn, 700),
    ]  # fmt: skip
    assert seen == [(commit.lsn, commit.lsn, commit.end_lsn, 8, 7)]


# Messages -----------------------------------------------------------------------------------------


def test_a_message_outside_of_the_transaction_comes_at_once_and_survives_its_abort(wal_):
    """A25, E2."""
    wal_.insert(700, "1")
    wal_.add(wal.LogicalMessageRecord, xid=700, transactional=False, prefix="p", content=b"in")
    wal_.add(wal.LogicalMessageRecord, transactional=False, prefix="p", content=b"out")
    wal_.add(wal.LogicalMessageRecord, xid=700, transactional=True, prefix="p", content=b"lost")
    wal_.abort(700)
    assert calls(recording_plugin(), wal_) == ["message 700 p in", "message p out"]
    assert calls(recording_plugin(without=["message"]), wal_) == []


def test_a_message_before_the_start_is_not_sent(wal_):
    message = wal_.add(wal.LogicalMessageRecord, transactional=False, prefix="p", content=b"m")
    assert calls(recording_plugin(), wal_, start_lsn=message.lsn + 1) == []


def test_a_transactional_message_without_a_transaction_is_refused(wal_):
    wal_.add(wal.LogicalMessageRecord, transactional=True, prefix="p", content=b"m")
    with pytest.raises(WalRecordError, match="transaction 0 is not in progress"):
        calls(recording_plugin(), wal_)


# Origins ------------------------------------------------------------------------------------------


def of_origin(ctx, origin_id):
    return origin_id == 1


def test_changes_and_transactions_of_a_filtered_origin_are_dropped(wal_):
    """E16."""
    wal_.insert(700, "1", origin_id=1)
    wal_.insert(700, "2", origin_id=2)
    wal_.add(wal.LogicalMessageRecord, xid=700, origin_id=1, transactional=True, prefix="p", content=b"m")
    wal_.commit(700)
    wal_.begin(701)
    wal_.insert(701, "3")
    wal_.commit(701, origin_id=1)
    found = calls(recording_plugin(filter_by_origin=of_origin), wal_)
    assert found == ["begin 700", "change 700 t 2", "commit 700"]
    everything = calls(recording_plugin(without=["filter_by_origin"]), wal_)
    assert "change 700 t 1" in everything
    assert "begin 701" in everything


def test_a_prepared_transaction_of_a_filtered_origin_is_dropped(wal_):
    """E16."""
    wal_.insert(700, "1", origin_id=1)
    wal_.prepare(700, origin_id=1)
    wal_.commit_prepared(700, origin_id=1)
    wal_.begin(701)
    wal_.insert(701, "1", origin_id=1)
    wal_.prepare(701, "h", origin_id=1)
    wal_.rollback_prepared(701, "h", origin_id=1)
    assert calls(recording_plugin(filter_by_origin=of_origin), wal_, slot=two_phase()) == []


def test_the_names_of_origins_are_known_from_their_records(wal_):
    """A15."""
    wal_.add(wal.OriginChangeRecord, 0, number=1, name="one")
    wal_.add(wal.OriginChangeRecord, 0, number=2, name="two")
    wal_.add(wal.OriginChangeRecord, 0, number=1, name=None)
    wal_.insert(700, "1")
    wal_.commit(700)
    seen = []
    plugin, _ = recording_plugin(begin=lambda ctx, _txn: seen.append((ctx.origin_name(1), ctx.origin_name(2))))
    decode(plugin, wal_)
    assert seen == [(None, "two")]


# Two-phase commit ---------------------------------------------------------------------------------


def test_a_prepared_transaction_is_sent_at_prepare_and_finished_later(wal_):
    """E4."""
    seen = []
    wal_.insert(700, "1")
    prepare = wal_.prepare(700)
    wal_.commit_prepared(700)
    wal_.begin(701)
    wal_.insert(701, "2")
    prepared = wal_.prepare(701, "h")
    wal_.rollback_prepared(701, "h")
    plugin, recorder = recording_plugin(
        begin_prepare=lambda _ctx, txn: seen.append((txn.gid, txn.final_lsn, txn.end_lsn, txn.xact_time)),
        rollback_prepared=lambda _ctx, txn, lsn, time: seen.append((txn.gid, lsn, time, txn.xact_time)),
    )
    assert calls((plugin, recorder), wal_, slot=two_phase()) == [
        "begin_prepare 700", "change 700 t 1", "prepare 700", "commit_prepared 700",
        "begin_prepare 701", "change 701 t 2", "prepare 701", "rollback_prepared 701",
    ]  # fmt: skip
    assert seen == [
        ("g", prepare.lsn, prepare.end_lsn, 3000),
        ("h", prepared.lsn, prepared.end_lsn, 3000),
        ("h", prepared.end_lsn, 3000, 5000),
    ]


def test_a_filtered_prepared_transaction_is_sent_at_its_commit(wal_):
    """E15."""
    wal_.insert(700, "1")
    wal_.prepare(700)
    wal_.commit_prepared(700)
    wal_.begin(701)
    wal_.insert(701, "2")
    wal_.prepare(701, "h")
    wal_.rollback_prepared(701, "h")
    plugin, recorder = recording_plugin(filter_prepare=lambda *_: True)
    assert calls((plugin, recorder), wal_, slot=two_phase()) == ["begin 700", "change 700 t 1", "commit 700"]
    assert recorder.calls.count("filter_prepare g") == 2
    assert calls(recording_plugin(), wal_) == ["begin 700", "change 700 t 1", "commit 700"]


def test_a_streamed_transaction_is_prepared_as_a_stream(wal_):
    """E13."""
    wal_.insert(700, "1")
    wal_.prepare(700)
    wal_.commit_prepared(700)
    assert calls(recording_plugin(), wal_, slot=two_phase(), **IMMEDIATE) == [
        "stream_start 700", "stream_change 700 t 1", "stream_stop 700", "stream_prepare 700", "commit_prepared 700",
    ]  # fmt: skip


def test_a_prepared_transaction_that_is_rolled_back_meanwhile_is_prepared_and_rolled_back(wal_):
    """E14."""
    wal_.insert(700, "1")
    wal_.prepare(700)
    wal_.rollback_prepared(700)
    found = calls(recording_plugin(), wal_, slot=two_phase(), did_abort=lambda _xid: True)
    assert found == ["begin_prepare 700", "prepare 700", "rollback_prepared 700"]


def test_a_prepared_transaction_without_a_change_is_prepared_without_a_begin(wal_):
    """E14: so PostgreSQL 18.4 does with a transaction that only locked rows."""
    wal_.prepare(700)
    wal_.commit_prepared(700)
    assert calls(recording_plugin(), wal_, slot=two_phase()) == ["prepare 700", "commit_prepared 700"]


def test_a_transaction_prepared_before_two_phase_was_on_is_sent_at_its_commit(wal_):
    """E5, C51."""
    wal_.insert(700, "1")
    prepare = wal_.prepare(700)
    wal_.commit_prepared(700)
    slot = ReplicationSlot("s", "p", two_phase=True, two_phase_at=prepare.end_lsn, confirmed_flush=prepare.end_lsn)
    assert calls(recording_plugin(), wal_, slot=slot) == [
        "begin_prepare 700", "change 700 t 1", "prepare 700", "commit_prepared 700",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("begin_prepare", "logical replication at prepare time requires a begin_prepare_cb callback"),
        ("prepare", "logical replication at prepare time requires a prepare_cb callback"),
        ("commit_prepared", "logical replication at prepare time requires a commit_prepared_cb callback"),
        ("rollback_prepared", "logical replication at prepare time requires a rollback_prepared_cb callback"),
        ("stream_prepare", "logical streaming at prepare time requires a stream_prepare_cb callback"),
    ],
)
def test_a_two_phase_callback_is_missed_when_it_is_needed(wal_, name, text):
    """E4."""
    wal_.insert(700, "1")
    wal_.prepare(700)
    (wal_.rollback_prepared if name == "rollback_prepared" else wal_.commit_prepared)(700)
    settings = IMMEDIATE if name == "stream_prepare" else {}
    with pytest.raises(OutputPluginError) as caught:
        calls(recording_plugin(without=[name]), wal_, slot=two_phase(), **settings)
    assert (caught.value.message, caught.value.sqlstate) == (text, "55000")


# Records that are wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(("lsn", "end_lsn"), [(99, 107), (100, 99), (0, 0), (104, 112)])
def test_records_must_come_in_the_order_of_the_wal(lsn, end_lsn):
    plugin, recorder = recording_plugin()
    session = LogicalDecoding(plugin, ReplicationSlot("s", "p"), CollectingWriter())
    session.process(wal.BeginRecord(lsn=100, end_lsn=108, xid=700))
    with pytest.raises(WalRecordError, match=r"follows a record ending at 0/6C$"):
        session.process(wal.BeginRecord(lsn=lsn, end_lsn=end_lsn, xid=701))
    assert recorder.calls == ["startup"]


@pytest.mark.parametrize(
    ("add", "text"),
    [
        (lambda wal_: wal_.insert(700, "2"), "transaction 700 is prepared"),
        (lambda wal_: wal_.commit(700), "transaction 700 is prepared"),
        (lambda wal_: wal_.abort(700), "transaction 700 is prepared"),
        (lambda wal_: wal_.commit_prepared(700, "h"), 'prepared transaction with identifier "h" does not exist'),
        (lambda wal_: wal_.rollback_prepared(700, "h"), 'prepared transaction with identifier "h" does not exist'),
        (lambda wal_: wal_.prepare(700), "transaction 700 is prepared"),
    ],
)
@pytest.mark.parametrize("slot_two_phase", [False, True])
def test_a_prepared_transaction_can_only_be_finished_by_its_name(wal_, add, text, slot_two_phase):
    wal_.insert(700, "1")
    wal_.prepare(700)
    add(wal_)
    with pytest.raises(WalRecordError) as caught:
        calls(recording_plugin(), wal_, slot=ReplicationSlot("s", "p", two_phase=slot_two_phase))
    assert caught.value.message == text


def test_a_transaction_that_was_not_prepared_cannot_be_finished_as_one(wal_):
    wal_.insert(700, "1")
    wal_.commit_prepared(700)
    with pytest.raises(WalRecordError, match=r'^prepared transaction with identifier "g" does not exist$') as caught:
        calls(recording_plugin(), wal_)
    assert caught.value.sqlstate == "42704"


@pytest.mark.parametrize("kind", ["commit", "abort", "prepare"])
def test_a_subtransaction_has_no_end_of_a_transaction(wal_, kind):
    wal_.sub(700, 701)
    getattr(wal_, kind)(701)
    with pytest.raises(WalRecordError, match=r"^transaction 701 is a subtransaction of 700$"):
        calls(recording_plugin(), wal_)


@pytest.mark.parametrize("kind", [wal.SubtransactionCommitRecord, wal.SubtransactionAbortRecord])
def test_a_transaction_has_no_end_of_a_subtransaction(wal_, kind):
    fields = {"timestamp": 1} if kind is wal.SubtransactionAbortRecord else {}
    wal_.add(kind, xid=700, **fields)
    with pytest.raises(WalRecordError, match=r"^transaction 700 is not a subtransaction$"):
        calls(recording_plugin(), wal_)


def test_after_an_error_nothing_more_is_decoded_and_shutdown_is_not_called(wal_):
    wal_.insert(700, "1")
    commit = wal_.commit(700)
    plugin, recorder = recording_plugin(change=lambda *_: 1 / 0)
    session = LogicalDecoding(plugin, ReplicationSlot("s", "p"), CollectingWriter(), catalog=None)
    for record in wal_.records[:-1]:
        session.process(record)
    with pytest.raises(OutputPluginError):
        session.process(commit)
    with pytest.raises(OutputPluginError, match=r"^logical decoding has ended$"):
        session.process(wal.BeginRecord(lsn=1000, end_lsn=1000, xid=701))
    session.close()
    assert "shutdown" not in recorder.calls


def test_a_failing_callback_names_the_plugin_and_the_position(wal_):
    """E9."""
    change = wal_.insert(700, "1")
    wal_.commit(700)
    with pytest.raises(OutputPluginFailed) as caught:
        calls(recording_plugin(change=lambda *_: 1 / 0), wal_)
    assert (
        caught.value.context
        == f'slot "s", output plugin "recording", in the change callback, associated LSN 0/{change.lsn:X}'
    )


def test_a_session_is_closed_once(wal_):
    plugin, recorder = recording_plugin()
    session = LogicalDecoding(plugin, ReplicationSlot("s", "p"), CollectingWriter())
    session.close()
    session.close()
    assert recorder.calls == ["startup", "shutdown"]
    with pytest.raises(OutputPluginError, match=r"^logical decoding has ended$"):
        session.process(wal_.records[0])


def test_a_change_of_catalogs_outside_of_transactions_takes_effect_at_once():
    """A journal's descriptions hold for whatever follows them, also in transactions in progress."""
    told: list[frozenset[int]] = []

    def listen(ctx, *_rest):
        ctx.register_invalidation_callback(lambda invalidation: told.append(invalidation.relations))

    wal_ = Wal()
    wal_.begin(7)
    wal_.insert(7, "1")
    wal_.schema_change(0, CatalogChange(relations=(WIDER,)))
    wal_.add(wal.InsertRecord, xid=7, relation_oid=T.oid, new=row("2", "x"))
    wal_.commit(7)
    wal_.begin(8)
    wal_.add(wal.InsertRecord, xid=8, relation_oid=T.oid, new=row("3", "y"))
    wal_.commit(8)
    made = recording_plugin(startup=listen)
    assert calls(made, wal_) == [
        "begin 7", "change 7 t 1", "change 7 t 2/x", "commit 7", "begin 8", "change 8 t 3/y", "commit 8",
    ]  # fmt: skip
    assert told
    assert set(told) == {frozenset({T.oid})}
