"""The conflicts of a batch: counted, logged and stored."""

from __future__ import annotations

import logging

import pytest

from subscriber.apply.conflicts.conflict import Conflict, SearchKey, ViolatedKey
from subscriber.apply.conflicts.conflict_tally import SAID_ROWS, ConflictTally, records_of
from subscriber.catalog import KEPT_ROWS, ConflictKind, ConflictRecord, conflicts
from subscriber.errors import ConflictError
from subscriber.protocol import messages as m
from tests.changes import delete, insert, update
from tests.conflicts import AT
from tests.frames import transaction, values

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
            'conflict detected on relation "public.f": conflict=delete_missing\n'
            "DETAIL:  Could not find the row to be deleted.\nReplica identity full (2, null).\n"
            f'{context} "DELETE" for replication target relation "public.f" in transaction 731, finished at 0/C0'
        ),
        (
            'conflict detected on relation "public.t": conflict=update_missing\n'
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
    assert kept("remote_commit_lsn", "remote_xid", "attempts", "key_values")[1:] == [
        {"remote_commit_lsn": "0/C0", "remote_xid": 731, "attempts": 1, "key_values": None},
        {"remote_commit_lsn": "0/124", "remote_xid": 732, "attempts": 1, "key_values": None},
    ]
    assert "secret" not in str(kept())


def test_the_values_of_missing_rows_are_stored_with_log_conflict_values(apply_changes, execute, kept):
    """C21"""
    execute("INSERT INTO t (a) VALUES (2)")
    deletes = [delete(key, None, None) for key in ("1", "2", "3")]
    apply_changes(*transaction(200, *deletes, update(("4", "é", None), key=("4", None, None))), show=True)
    assert kept("key_values", "remote_row") == [
        {"key_values": '["1"]', "remote_row": None},
        {"key_values": '["3"]', "remote_row": None},
        {"key_values": '["4"]', "remote_row": '[null, null, "4", "é"]'},
    ]


def test_a_batch_that_is_rolled_back_stores_no_missing_rows(apply_changes, kept, execute):
    """C18, C35: they are stored when the batch is applied again."""
    execute("INSERT INTO t (a) VALUES (1)")
    with pytest.raises(ConflictError):
        apply_changes(*transaction(200, delete("9", None, None), insert("1", None, None)))
    assert kept() == []


def test_many_missing_rows_are_logged_and_stored_up_to_a_limit(monkeypatch, apply_changes, kept, execute, logged):
    """bounded_memory: the counters count them all."""
    monkeypatch.setattr(conflicts, "KEPT_ROWS", 25)
    deletes = [delete(str(key), None, None) for key in range(60)]
    apply_changes(*transaction(200, *deletes[:40]), *transaction(300, *deletes[40:], xid=732), show=True)
    assert len(logged()) == SAID_ROWS + 1
    assert logged()[-1] == 'conflict detected on relation "public.t": conflict=delete_missing (50 more in this batch)'
    assert kept("key_values") == [{"key_values": f'["{key}"]'} for key in range(35, 60)]
    assert execute("SELECT confl_delete_missing FROM subscriber_stat_subscription_stats") == [(60,)]


def test_a_tally_has_no_more_conflicts_than_are_stored():
    """bounded_memory"""
    tally, whole = ConflictTally(), ConflictTally()
    for _ in range(KEPT_ROWS + 5):
        tally.add(MISSING, 1)
    whole.merge(tally)
    whole.merge(tally)
    assert len(tally.pending) == len(whole.pending) == KEPT_ROWS
    assert len(whole.said["public.t", ConflictKind.DELETE_MISSING]) == SAID_ROWS
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
    keys = (
        ViolatedKey("t_pkey", ("a",), values=("1",), local_row=("1", "x")),
        ViolatedKey("t_lower", ("lower(b)",), values=("y",), local_row=("2", "Y")),
    )
    conflict = Conflict(ConflictKind.MULTIPLE_UNIQUE_CONFLICTS, "public.t", AT, keys, remote_row=("1", "y"))

    def record(**key: object) -> ConflictRecord:
        return ConflictRecord(
            kind=ConflictKind.MULTIPLE_UNIQUE_CONFLICTS,
            relation="public.t",
            final_lsn=AT.final_lsn,
            xid=AT.xid,
            timestamp=AT.timestamp,
            remote_row=("1", "y"),
            **key,  # type: ignore[arg-type]
        )

    assert records_of(conflict) == [
        record(index="t_pkey", columns=("a",), values=("1",), local_row=("1", "x")),
        record(index="t_lower", columns=("lower(b)",), values=("y",), local_row=("2", "Y")),
    ]


def test_a_search_by_the_whole_row_has_no_key_columns():
    conflict = Conflict(ConflictKind.UPDATE_MISSING, "public.t", AT, search=SearchKey((), ("1", None)))
    (record,) = records_of(conflict)
    assert (record.columns, record.values) == (None, ("1", None))
