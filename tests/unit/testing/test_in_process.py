"""A subscription to a publisher without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from subscriber.base.errors import ConflictError, ProtocolError, UsageError, WalRecordError
from subscriber.postgres.logical_decoding import (
    Action,
    Datum,
    HeapTuple,
    MemoryDatabase,
    RelationData,
    ReorderSettings,
)
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.targets import open_target
from subscriber.testing.in_process import InProcessSubscription, stream_options
from tests.publications import entry


class SmallPgoutput:
    """The plugin."""

    def begin(self, ctx, txn) -> None:
        """BEGIN is written with the first change (rule A21)."""

    def change(self, ctx, txn, relation, change) -> None:
        if not txn.output_plugin_private:
            txn.output_plugin_private = True
            self._write(ctx, m.Begin(txn.final_lsn, txn.xact_time, txn.xid))
        self._write(ctx, described(relation), last_write=False)
        old = None if change.old_tuple is None else sent(change.old_tuple)
        new = None if change.new_tuple is None else sent(change.new_tuple)
        kind: m.OldKind = "O" if relation.replica_identity == "f" else "K"
        if change.action is Action.INSERT:
            assert new is not None
            self._write(ctx, m.Insert(relation.oid, new))
        elif change.action is Action.UPDATE:
            assert new is not None
            self._write(ctx, m.Update(relation.oid, None if old is None else kind, old, new))
        elif old is not None:
            self._write(ctx, m.Delete(relation.oid, kind, old))

    def commit(self, ctx, txn, commit_lsn) -> None:
        if txn.output_plugin_private:
            self._write(ctx, m.Commit(commit_lsn, txn.end_lsn, txn.xact_time))

    def _write(self, ctx, message: m.Message, *, last_write: bool = True) -> None:
        ctx.prepare_write(last_write)
        ctx.out += encode(message)
        ctx.write(last_write)


def described(relation: RelationData) -> m.Relation:
    columns = tuple(
        m.RelationColumn(int(one.name in relation.identity_columns), one.name, one.type_oid, one.type_modifier)
        for one in relation.columns
    )
    return m.Relation(relation.oid, relation.schema, relation.name, relation.replica_identity, columns)


def sent(row: HeapTuple) -> m.TupleData:
    return tuple(m.TextValue(value.text) if isinstance(value, Datum) else value for value in row.values)


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        with opened.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        yield opened


@pytest.fixture
def publisher():
    made = MemoryDatabase()
    made.create_table("t", {"a": "integer", "b": "text"}, primary_key=["a"])
    return made


@pytest.fixture
def subscription(publisher, target):
    with InProcessSubscription(publisher, target, {}, plugin=SmallPgoutput()) as opened:
        yield opened


def rows(target) -> list[tuple[int, str | None]]:
    with target.begin() as connection:
        return [tuple(row) for row in connection.exec_driver_sql("SELECT a, b FROM t ORDER BY a")]


def test_the_target_has_what_the_publisher_has_committed(publisher, subscription, target):
    one, two = publisher.session(), publisher.session()
    one.begin()
    one.insert("t", a=1, b="x")
    two.insert("t", a=2)
    assert subscription.catch_up().transactions == 1
    assert rows(target) == [(2, None)]
    one.update("t", {"a": 1}, a=3)
    one.commit()
    two.delete("t", {"a": 2})
    result = subscription.catch_up()
    assert (result.transactions, result.changes) == (2, 3)
    assert rows(target) == [(3, "x")]


def test_what_exists_before_the_subscription_is_replicated(publisher, target):
    publisher.session().insert("t", a=1, b="x")
    with InProcessSubscription(publisher, target, {}, plugin=SmallPgoutput()) as subscription:
        subscription.catch_up()
    assert rows(target) == [(1, "x")]


def test_the_slot_is_confirmed_when_the_journal_is_durable_and_before_the_target_has_it(publisher, subscription):
    """Invariant slot_after_disk."""
    publisher.session().insert("t", a=1)
    subscription.receive()
    assert subscription.slot.confirmed_flush == publisher.records[-1].end_lsn
    assert subscription.apply().transactions == 1


def test_a_new_connection_sends_what_was_not_confirmed(publisher, subscription, target):
    one = publisher.session()
    one.begin()
    one.insert("t", a=1)
    publisher.session().insert("t", a=2)
    subscription.catch_up()
    subscription.reconnect()
    one.commit()
    assert subscription.catch_up().transactions == 1
    assert [key for key, _ in rows(target)] == [1, 2]


def test_the_journal_may_be_applied_in_small_batches(publisher, subscription, target):
    session = publisher.session()
    for key in (1, 2):
        session.insert("t", a=key)
        subscription.receive()
    assert subscription.apply(max_bytes=1).transactions == 1
    assert [key for key, _ in rows(target)] == [1]
    assert subscription.apply().transactions == 1


def test_the_journal_stays_where_it_is_asked_for(publisher, target, tmp_path):
    publisher.session().insert("t", a=1)
    folder = tmp_path / "journal"
    with InProcessSubscription(publisher, target, {}, plugin=SmallPgoutput(), folder=folder) as subscription:
        subscription.receive()
        assert subscription.journal.latest(subscription.journal.control().begin) > 0
    assert list(folder.iterdir())


def test_a_temporary_journal_is_removed(publisher, target):
    subscription = InProcessSubscription(publisher, target, {}, plugin=SmallPgoutput())
    folder = Path(subscription.journal.storage.url)
    assert folder.is_dir()
    subscription.close()
    assert not folder.exists()


def test_emulated_publications_filter(publisher, subscription, target):
    table = publisher.catalog.tables.find("public", "t")
    subscription.publishing = Publishing((Publication("p", tables=(entry(table, "a > 1"),)),), publisher.catalog.tables)
    for key in (1, 2):
        publisher.session().insert("t", a=key)
    subscription.catch_up()
    assert [key for key, _ in rows(target)] == [2]


def test_settings_reach_the_reorder_buffer(publisher, target):
    settings = ReorderSettings(logical_decoding_work_mem=1)
    with InProcessSubscription(publisher, target, {}, plugin=SmallPgoutput(), settings=settings) as subscription:
        publisher.session().insert("t", a=1)
        subscription.catch_up()
        assert subscription.sender.decoding.reorder_buffer.statistics.spill_count > 0
    assert [key for key, _ in rows(target)] == [1]


def test_a_conflict_stops_the_subscription_with_postgresqls_error(publisher, subscription, target):
    """Rule C35."""
    with target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (2, 'local')")
    for key in (1, 2):
        publisher.session().insert("t", a=key)
    with pytest.raises(ConflictError, match="insert_exists"):
        subscription.catch_up()
    assert rows(target) == [(1, None), (2, "local")]
    with target.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t WHERE a = 2")
    subscription.apply()
    assert rows(target) == [(1, None), (2, None)]


def test_output_that_is_no_message_is_an_error_and_is_not_in_the_journal(publisher, target):
    class Wrong(SmallPgoutput):
        def commit(self, ctx, txn, commit_lsn) -> None:
            ctx.prepare_write(True)
            ctx.out += b"?"
            ctx.write(True)

    publisher.session().insert("t", a=1)
    with InProcessSubscription(publisher, target, {}, plugin=Wrong()) as subscription:
        with pytest.raises(ProtocolError, match="invalid logical replication message type"):
            subscription.receive()
        assert subscription.slot.confirmed_flush == 0
        assert subscription.apply().transactions == 0


def test_records_out_of_order_are_an_error_and_nothing_is_confirmed(publisher, subscription):
    publisher.records.append(wal.CommitRecord(lsn=2**40, end_lsn=2**40 + 8, xid=99, timestamp=0))
    with pytest.raises(WalRecordError, match="transaction 99 is not in progress"):
        subscription.receive()
    assert subscription.slot.confirmed_flush < 2**40


def test_records_that_are_taken_by_somebody_else_are_an_error(publisher, subscription):
    publisher.take()
    with pytest.raises(WalRecordError, match="have been taken"):
        subscription.receive()


@pytest.mark.parametrize("version", [180000, 160000, 150000])
def test_pgoutput_is_the_default_plugin_and_has_the_rules_of_the_publishers_version(target, version):
    """Rule A29."""
    publisher = MemoryDatabase(version)
    publisher.create_table("t", {"a": "integer", "b": "text"}, primary_key=["a"])
    publisher.create_publication(Publication("p", all_tables=True))
    options = stream_options(["p"], proto_version=3, two_phase=True)
    with InProcessSubscription(publisher, target, options) as subscription:
        publisher.session().insert("t", a=1)
        subscription.catch_up()
    assert rows(target) == [(1, None)]


def test_options_that_the_plugin_refuses_leave_nothing_in_the_target(target):
    """Rule A29."""
    publisher = MemoryDatabase(150000)
    with pytest.raises(UsageError, match="but we only support protocol 3 or lower"):
        InProcessSubscription(publisher, target, stream_options(["p"], proto_version=4))
    with InProcessSubscription(publisher, target, stream_options(["p"], proto_version=3)):
        pass


def test_the_options_are_those_that_a_subscriber_gives():
    """Rule A33."""
    assert stream_options(["p", 'q"Q']) == {"proto_version": "4", "publication_names": '"p","q""Q"'}
    everything = stream_options(
        ["p"], proto_version=3, streaming="on", binary=True, two_phase=True, messages=True, origin="none"
    )
    assert everything == {
        "proto_version": "3",
        "publication_names": '"p"',
        "streaming": "on",
        "binary": "true",
        "two_phase": "on",
        "messages": "true",
        "origin": "none",
    }
