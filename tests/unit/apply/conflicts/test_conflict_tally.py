"""The conflicts of a batch: counted, logged and stored."""

from __future__ import annotations

import logging

import pytest

from subscriber.apply.conflicts.conflict import Conflict, SearchKey, ViolatedKey
from subscriber.apply.conflicts.conflict_tally import LOGGED_ROWS, ConflictTally, records_of
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import ConflictKind
from subscriber.catalog.statistics import KEPT_ROWS
from subscriber.postgres.protocol import messages as m
from subscriber.targets import RowVersion
from tests.appliers import obeying
from tests.changes import delete, insert, update
from tests.conflicts import AT, F, T
from tests.frames import frame, transaction, values

MISSING = Conflict(ConflictKind.DELETE_MISSING, "public.t", AT, search=SearchKey(("a",)))


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records]


def test_missing_rows_are_logged_in_postgresqls_words(apply_changes, logged):
    """C18-C21"""
    changes: list[m.Message] = [
        update(("5", m.UNCHANGED, "7"), key=("1", None, None)),
        m.Delete(2, "O", values("2", None)),
    ]
    apply_changes(*transaction(200, *changes), show=True)
    context = 'CONTEXT:  processing remote data for replication origin "pg_1" during message type'
    assert logged() == [
        (
            'subscription "sub": conflict detected on relation "public.f": conflict=delete_missing\n'
            "DETAIL:  Could not find the row to be deleted.\nReplica identity full (2, null).\n"
            f'{context} "DELETE" for replication target relation "public.f" in transaction 731, finished at 0/C0'
        ),
        (
            'subscription "sub": conflict detected on relation "public.t": conflict=update_missing\n'
            "DETAIL:  Could not find the row to be updated.\n"
            "Remote row (null, 7, 5, null); replica identity (a)=(1).\n"
            f'{context} "UPDATE" for replication target relation "public.t" in transaction 731, finished at 0/C0'
        ),
    ]


def test_each_missing_row_is_stored_with_names_only(apply_changes, execute, kept):
    """C18"""
    execute("INSERT INTO t (a) VALUES (2)")
    deletes = [delete(key, None, None) for key in ("1", "2", "3")]
    apply_changes(*transaction(200, *deletes), *transaction(300, m.Delete(2, "O", values("4", "secret")), xid=732))
    of_t = {"relation": "public.t", "conflict_type": "delete_missing", "index_name": None, "key_columns": '["a"]'}
    assert kept("relation", "conflict_type", "index_name", "key_columns") == [
        of_t,
        of_t,
        {"relation": "public.f", "conflict_type": "delete_missing", "index_name": None, "key_columns": None},
    ]
    assert kept("remote_commit_lsn", "remote_xid", "attempts", "replica_identity")[1:] == [
        {"remote_commit_lsn": "0/C0", "remote_xid": 731, "attempts": 1, "replica_identity": None},
        {"remote_commit_lsn": "0/124", "remote_xid": 732, "attempts": 1, "replica_identity": None},
    ]
    assert "secret" not in str(kept())


def test_the_values_of_missing_rows_are_stored_with_log_conflict_values(apply_changes, execute, kept):
    """C21"""
    execute("INSERT INTO t (a) VALUES (2)")
    deletes = [delete(key, None, None) for key in ("1", "2", "3")]
    apply_changes(*transaction(200, *deletes, update(("4", "é", None), key=("4", None, None))), show=True)
    assert kept("replica_identity", "remote_tuple", "local_conflicts") == [
        {"replica_identity": '{"a": "1"}', "remote_tuple": None, "local_conflicts": "[]"},
        {"replica_identity": '{"a": "3"}', "remote_tuple": None, "local_conflicts": "[]"},
        {
            "replica_identity": '{"a": "4"}',
            "remote_tuple": '{"own": null, "c": null, "a": "4", "b": "é"}',
            "local_conflicts": "[]",
        },
    ]


def test_a_batch_that_is_rolled_back_stores_no_missing_rows(apply_changes, kept, execute):
    """C18, C35: they are stored when the batch is applied again."""
    execute("INSERT INTO t (a) VALUES (1)")
    with pytest.raises(ConflictError):
        apply_changes(*transaction(200, delete("9", None, None), insert("1", None, None)))
    assert kept() == []


def test_many_missing_rows_are_logged_and_stored_up_to_a_limit(monkeypatch, apply_changes, kept, execute, logged):
    """bounded_memory: the counters count them all."""
    monkeypatch.setattr("subscriber.catalog.statistics.KEPT_ROWS", 25)
    deletes = [delete(str(key), None, None) for key in range(60)]
    apply_changes(*transaction(200, *deletes[:40]), *transaction(300, *deletes[40:], xid=732), show=True)
    assert len(logged()) == LOGGED_ROWS + 1
    assert (
        logged()[-1]
        == 'subscription "sub": conflict detected on relation "public.t": conflict=delete_missing (50 more in this batch)'
    )
    assert kept("replica_identity") == [{"replica_identity": f'{{"a": "{key}"}}'} for key in range(35, 60)]
    assert execute("SELECT confl_delete_missing FROM subscriber_stat_subscription_stats") == [(60,)]


def test_a_tally_has_no_more_conflicts_than_are_stored():
    """bounded_memory"""
    tally, whole = ConflictTally(), ConflictTally()
    for _ in range(KEPT_ROWS + 5):
        tally.add(MISSING, 1)
    whole.merge(tally)
    whole.merge(tally)
    assert len(tally.pending) == len(whole.pending) == KEPT_ROWS
    assert len(whole.logged["public.t", ConflictKind.DELETE_MISSING]) == LOGGED_ROWS
    assert whole.by_kind() == {"delete_missing": 2 * (KEPT_ROWS + 5)}


def test_equal_conflicts_are_added_together():
    tally = ConflictTally()
    tally.add(MISSING, 3)
    tally.add(Conflict(ConflictKind.DELETE_MISSING, "public.u", AT), 1)
    tally.add(Conflict(ConflictKind.UPDATE_MISSING, "public.t", AT), 2)
    assert tally.by_kind() == {ConflictKind.DELETE_MISSING: 4, ConflictKind.UPDATE_MISSING: 2}
    assert [record.relation for record in tally.records()] == ["public.t"] * 3 + ["public.u"] + ["public.t"] * 2


def test_a_conflict_that_occurred_very_often_has_no_more_records_than_are_stored():
    """bounded_memory"""
    tally = ConflictTally()
    tally.add(MISSING, KEPT_ROWS + 5)
    assert sum(1 for _ in tally.records()) == KEPT_ROWS
    assert tally.by_kind() == {ConflictKind.DELETE_MISSING: KEPT_ROWS + 5}


def test_an_empty_tally_logs_nothing(logged):
    ConflictTally().log("pg_1")
    assert (logged(), ConflictTally().by_kind()) == ([], {})


def test_a_conflict_has_a_record_for_each_violated_key():
    """Rows are stored with PostgreSQL 20's columns."""
    keys = (
        ViolatedKey("t_pkey", ("a",), ("1",), ("1", "x"), RowVersion(7, "now", "pg_2")),
        ViolatedKey("t_lower", ("lower(b)",), values=("y",), local_row=("2", "Y")),
    )
    kind = ConflictKind.MULTIPLE_UNIQUE_CONFLICTS
    first, second = records_of(Conflict(kind, "public.t", AT, keys, remote_row=("1", "y"), columns=("a", "b")))
    assert (first.kind, first.relation, first.final_lsn) == (kind, "public.t", AT.final_lsn)
    assert first.remote_tuple == second.remote_tuple == {"a": "1", "b": "y"}
    assert (first.replica_identity_full, first.replica_identity) == (None, None)
    assert (first.index, first.columns, second.index, second.columns) == ("t_pkey", ("a",), "t_lower", ("lower(b)",))
    assert first.local_conflicts == [
        {"xid": "7", "commit_ts": "now", "origin": "pg_2", "key": {"a": "1"}, "tuple": {"a": "1", "b": "x"}}
    ]
    assert second.local_conflicts == [
        {"xid": None, "commit_ts": None, "origin": None, "key": {"lower(b)": "y"}, "tuple": {"a": "2", "b": "Y"}}
    ]


def test_a_row_of_another_origin_is_the_local_conflict():
    conflict = Conflict(
        ConflictKind.UPDATE_ORIGIN_DIFFERS,
        "public.t",
        AT,
        search=SearchKey(("a",)),
        version=RowVersion(7, "now"),
    )
    (record,) = records_of(conflict)
    assert record.local_conflicts == [{"xid": "7", "commit_ts": "now", "origin": None, "key": None, "tuple": None}]
    assert (record.replica_identity_full, record.replica_identity) == (False, None)


def test_a_search_by_the_whole_row_has_no_key_columns():
    search = SearchKey((), ("1", None), ("a", "b"))
    (record,) = records_of(Conflict(ConflictKind.UPDATE_MISSING, "public.t", AT, search=search))
    assert (record.columns, record.replica_identity_full) == (None, True)
    assert record.replica_identity == {"a": "1", "b": None}


@pytest.mark.parametrize(
    ("destination", "stored", "detail"),
    [
        ("log", 0, "Could not find the row to be deleted."),
        ("table", 1, "Conflict details are logged to the conflict log table: subscriber_conflict"),
        ("all", 1, "Could not find the row to be deleted."),
    ],
)
def test_a_subscription_says_where_conflicts_are_recorded(
    target, conflict_tables, execute, kept, logged, destination, stored, detail
):
    """The counters count them anyhow."""
    rules = obeying(conflict_log_destination=destination)
    applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: rules)
    messages = transaction(200, delete("9", None, None))
    applier.apply([frame([T, F], messages)], start=LSN(100), end=LSN(1000))
    assert len(kept("conflictid")) == stored
    assert logged()[0].splitlines()[1] == f"DETAIL:  {detail}"
    assert execute("SELECT confl_delete_missing FROM subscriber_stat_subscription_stats") == [(1,)]
