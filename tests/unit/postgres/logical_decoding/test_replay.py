"""The replay of one transaction: the order of the changes, the catalogs, and what is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import TransactionAborted, WalRecordError
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange, Invalidation, RelationData
from subscriber.postgres.logical_decoding.reorder_txn import (
    Action,
    ReorderBufferChange,
    ReorderBufferTXN,
    SpillFile,
)
from subscriber.postgres.logical_decoding.replay import RelationCache, changes_of, merged_changes
from tests.output_plugins import CATALOG, WIDER, T, U, Wal, calls, recording_plugin, row
from tests.publications import table

UNLOGGED = RelationData(replace(table("public.v", {"a": "int4"}, oid=16386), persistence="unlogged"))
HEAP = RelationData(table("public.pg_temp_16384", {"a": "int4"}, oid=16387), relrewrite=T.oid)


@pytest.fixture
def wal_() -> Wal:
    made = Wal()
    made.begin(700)
    return made


def change(txn: ReorderBufferTXN, lsn: int) -> ReorderBufferChange:
    return ReorderBufferChange(Action.INSERT, lsn, txn)


def test_changes_on_disk_come_before_those_in_memory(tmp_path):
    txn = ReorderBufferTXN(700, 1)
    txn.spill = SpillFile(str(tmp_path / "f"), 700)
    txn.spill.append(change(txn, lsn).stored() for lsn in (1, 2))
    txn.changes = [change(txn, 3)]
    found = list(changes_of(txn, 1))
    assert [one.lsn for one in found] == [1, 2, 3]
    assert {one.txn for one in found} == {txn}


def test_the_changes_of_subtransactions_are_merged_by_position():
    """E12."""
    top = ReorderBufferTXN(700, 10)
    children = [ReorderBufferTXN(701, 20, top), ReorderBufferTXN(702, 60, top)]
    top.subtxns = children
    for txn, lsns in zip((top, *children), ((10, 30, 40, 70), (20, 50), (60,)), strict=True):
        txn.changes = [change(txn, lsn) for lsn in lsns]
        txn.nentries = len(lsns)
    assert [(one.lsn, one.txn.xid) for one in merged_changes(top, 1000)] == [
        (10, 700), (20, 701), (30, 700), (40, 700), (50, 701), (60, 702), (70, 700),
    ]  # fmt: skip


def test_a_transaction_sees_its_own_change_of_the_catalogs_from_there_on(wal_):
    """B12b."""
    wal_.insert(700, "1")
    wal_.schema_change(700, CatalogChange(relations=(WIDER,)))
    wal_.add(wal.InsertRecord, xid=700, relation_oid=T.oid, new=row("2", "x"))
    wal_.commit(700)
    widths = []
    plugin = recording_plugin(change=lambda _ctx, _txn, relation, _change: widths.append(len(relation.columns)))
    assert calls(plugin, wal_) == ["begin 700", "change 700 t 1", "change 700 t 2/x", "commit 700"]
    assert widths == [1, 2]


def test_a_change_of_another_transaction_counts_from_its_commit_on(wal_):
    """B12b."""
    wal_.insert(700, "1")
    wal_.begin(701)
    wal_.schema_change(701, CatalogChange(relations=(WIDER,)))
    wal_.insert(700, "2")
    wal_.commit(701)
    wal_.add(wal.InsertRecord, xid=700, relation_oid=T.oid, new=row("3", "x"))
    wal_.commit(700)
    assert calls(recording_plugin(), wal_) == [
        "begin 701", "commit 701", "begin 700", "change 700 t 1", "change 700 t 2", "change 700 t 3/x", "commit 700",
    ]  # fmt: skip


def test_a_change_of_the_catalogs_that_is_rolled_back_is_not_seen(wal_):
    wal_.sub(700, 701)
    wal_.schema_change(701, CatalogChange(relations=(WIDER,)))
    wal_.abort_sub(701)
    wal_.insert(700, "1")
    wal_.commit(700)
    wal_.begin(702)
    wal_.insert(702, "2")
    wal_.commit(702)
    assert calls(recording_plugin(), wal_)[1::3] == ["change 700 t 1", "change 702 t 2"]


def test_a_streamed_change_of_the_catalogs_is_undone_when_its_subtransaction_is_rolled_back(wal_):
    wal_.insert(700, "1")
    wal_.sub(700, 701)
    wal_.schema_change(701, CatalogChange(relations=(WIDER,)))
    wal_.add(wal.InsertRecord, xid=701, relation_oid=T.oid, new=row("2", "x"))
    wal_.abort_sub(701)
    wal_.insert(700, "3")
    wal_.commit(700)
    found = calls(recording_plugin(), wal_, debug_logical_replication_streaming="immediate")
    assert [one for one in found if "change" in one or "abort" in one] == [
        "stream_change 700 t 1", "stream_change 700 t 2/x@701", "stream_abort 701", "stream_change 700 t 3",
    ]  # fmt: skip


def test_a_plugin_is_told_what_to_forget_at_the_change_and_at_the_end(wal_):
    """A24."""
    seen = []
    plugin, recorder = recording_plugin(
        startup=lambda ctx, *_: ctx.register_invalidation_callback(
            lambda found: seen.append((found.relations, recorder.calls[-1]))
        )
    )
    wal_.insert(700, "1")
    wal_.schema_change(700, CatalogChange(relations=(WIDER,)))
    wal_.commit(700)
    calls((plugin, recorder), wal_)
    assert seen == [({T.oid}, "change 700 t 1"), ({T.oid}, "commit 700")]


def test_rows_of_tables_that_are_not_logged_are_left_out(wal_):
    wal_.insert(700, "1", UNLOGGED)
    wal_.commit(700)
    catalog = CATALOG.apply(CatalogChange(relations=(UNLOGGED,)))
    assert calls(recording_plugin(), wal_, catalog=catalog) == ["begin 700", "commit 700"]


@pytest.mark.parametrize("wanted", [False, True])
def test_rows_of_a_rewrite_are_decoded_if_the_plugin_wants_them(wal_, wanted):
    """E17."""
    wal_.insert(700, "1", HEAP)
    wal_.commit(700)
    catalog = CATALOG.apply(CatalogChange(relations=(HEAP,)))

    def startup(_ctx, options, _is_init):
        options.receive_rewrites = wanted

    found = calls(recording_plugin(startup=startup), wal_, catalog=catalog)
    assert ("change 700 pg_temp_16384 1" in found) is wanted


def test_a_speculative_insert_is_shown_when_it_is_confirmed(wal_):
    """E17."""
    for text, confirmed in (("1", True), ("2", False)):
        wal_.insert(700, text, speculative=True)
        wal_.add(wal.SpeculativeConfirmRecord, xid=700, relation_oid=T.oid, confirmed=confirmed)
    wal_.commit(700)
    assert calls(recording_plugin(), wal_) == ["begin 700", "change 700 t 1", "commit 700"]


def test_a_confirmation_without_a_speculative_insert_is_postgresqls_error(wal_):
    wal_.add(wal.SpeculativeConfirmRecord, xid=700, relation_oid=T.oid)
    wal_.commit(700)
    with pytest.raises(WalRecordError, match=r"^invalid ordering of speculative insertion changes$"):
        calls(recording_plugin(), wal_)


def test_a_row_of_an_unknown_relation_is_postgresqls_error(wal_):
    wal_.add(wal.InsertRecord, xid=700, relation_oid=1, new=row("1"))
    wal_.commit(700)
    with pytest.raises(WalRecordError, match=r"^could not open relation with OID 1$"):
        calls(recording_plugin(), wal_)


def test_a_row_that_does_not_fit_its_relation_is_refused(wal_):
    wal_.add(wal.InsertRecord, xid=700, relation_oid=T.oid, new=row("1", "2"))
    wal_.commit(700)
    with pytest.raises(WalRecordError, match=r'^a row of relation "public\.t" has 2 columns, but the relation has 1$'):
        calls(recording_plugin(), wal_)


def test_a_truncate_names_the_logged_relations_together(wal_):
    """E2: without the callback it is ignored."""
    wal_.add(wal.TruncateRecord, xid=700, relation_oids=(T.oid, UNLOGGED.oid, U.oid), cascade=True)
    wal_.commit(700)
    catalog = CATALOG.apply(CatalogChange(relations=(UNLOGGED,)))
    assert calls(recording_plugin(), wal_, catalog=catalog)[1] == "truncate 700 t,u"
    assert calls(recording_plugin(without=["truncate"]), wal_, catalog=catalog) == ["begin 700", "commit 700"]


@pytest.mark.parametrize("name", ["change", "begin", "commit"])
def test_a_committed_transaction_cannot_turn_out_to_be_rolled_back(wal_, name):
    def fail(*_arguments):
        raise TransactionAborted("gone")

    wal_.insert(700, "1")
    wal_.commit(700)
    with pytest.raises(TransactionAborted):
        calls(recording_plugin(**{name: fail}), wal_)


# Relations that are known -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("invalidation", "found"),
    [
        (Invalidation(), False),
        (Invalidation(frozenset({T.oid})), True),
        (Invalidation(frozenset({U.oid})), False),
        (Invalidation(publications=True), True),
        (Invalidation(schemas=True), True),
    ],
)
def test_a_rollback_is_found_at_the_next_change_of_a_relation_that_was_changed(invalidation, found):
    """E14."""
    cache = RelationCache(lambda _xid: True)
    insert = ReorderBufferChange(Action.INSERT, 100, ReorderBufferTXN(700, 100), relation_oid=T.oid)
    cache.open(insert, committed=True)
    cache.invalidate(invalidation)
    if found:
        with pytest.raises(TransactionAborted):
            cache.open(insert, committed=False)
    else:
        cache.open(insert, committed=False)


def test_no_catalog_is_read_for_a_message():
    """E14."""
    cache = RelationCache(lambda _xid: True)
    cache.open(ReorderBufferChange(Action.MESSAGE, 100, ReorderBufferTXN(700, 100)), committed=False)
