"""What is found out, said and kept about conflicts (section C.4), on SQLite; beside PostgreSQL's
own subscriber: tests/conformance/test_conflicts_beside_native.py."""

from __future__ import annotations

import json
import logging

import pytest
import sqlalchemy as sa

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.batch_rules import Rules
from subscriber.apply.conflict import (
    ChangePlace,
    Conflict,
    SearchKey,
    ViolatedKey,
    describe,
    row_text,
)
from subscriber.apply.conflict_tally import SAID_ROWS, ConflictTally, records_of
from subscriber.apply.exact import ExactApplier
from subscriber.catalog import CATALOG, KEPT_ROWS, ConflictKind, ConflictLog, OriginProgress, conflicts
from subscriber.catalog.conflicts import forget_conflicts
from subscriber.errors import ConflictError
from subscriber.lsn import LSN
from subscriber.protocol import messages as m
from subscriber.targets import RowVersion
from subscriber.targets.generic.target import generic_target
from tests.failures import conflict_kind, conflict_of
from tests.frames import frame, relation, transaction, values

START, END = LSN(100), LSN(1000)
T = relation("public.t", {"a": "int4", "b": "text", "c": "int4"}, ["a"])
F = relation("public.f", {"a": "int4", "b": "text"}, identity="f", oid=2)
AT = ChangePlace(731, LSN(0x1000), 1_000_000)


@pytest.fixture(autouse=True)
def tables(execute):
    execute("CREATE TABLE t (own TEXT DEFAULT 'mine', c INTEGER UNIQUE, a INTEGER PRIMARY KEY, b TEXT)")
    execute("CREATE TABLE f (a INTEGER, b TEXT)")


@pytest.fixture
def run(target):
    def call(*messages, show=False, end=END):
        rules = Rules(log_conflict_values=show)
        applier = ExactApplier(target, subscription="sub", subid=1, read_rules=lambda _: rules)
        return apply_batch(applier, lambda: [frame([T, F], messages)], START, end)

    return call


@pytest.fixture
def stopped(run):
    """Applies one transaction that must stop with a conflict."""

    def call(*changes, show=False):
        with pytest.raises(ConflictError) as raised:
            run(*transaction(200, *changes), show=show)
        return raised.value

    return call


@pytest.fixture
def kept(execute):
    def rows(columns="relation, conflict_type, index_name, key_columns"):
        return execute(f"SELECT {columns} FROM subscriber_conflict ORDER BY conflictid")

    return rows


def insert(*texts, into=16384):
    return m.Insert(into, values(*texts))


def update(key, *texts):
    return m.Update(16384, "K", values(key, None, None), values(*texts))


# --- keys ---------------------------------------------------------------------------------------


def test_a_change_that_violates_one_key_is_told_with_its_index(stopped, execute):
    """C20: what wrote the row, SQLite does not know"""
    execute("INSERT INTO t (a, b, c) VALUES (10, 'there', 7)")
    error = stopped(insert("10", "secret", "8"))
    assert error.message == 'conflict detected on relation "public.t": conflict=insert_exists'
    assert error.detail == 'Key already exists in unique index "t_pkey".\nKey (a).'
    assert conflict_kind(error) == "insert_exists"


def test_a_change_that_violates_several_keys_is_another_conflict(stopped, execute):
    """C20, C22: one pair of lines for each, the primary key first"""
    execute("INSERT INTO t (a, c) VALUES (1, 3), (2, 4)")
    error = stopped(insert("1", None, "4"))
    assert error.message == 'conflict detected on relation "public.t": conflict=multiple_unique_conflicts'
    assert error.detail == (
        'Key already exists in unique index "t_pkey".\nKey (a).\nKey already exists in unique index "t_c_key".\nKey (c).'
    )
    assert error.sqlstate == "23505"


def test_one_row_may_stand_in_the_way_with_all_its_keys(stopped, execute):
    """C22: keys are counted, and not rows"""
    execute("INSERT INTO t (a, c) VALUES (1, 3)")
    assert conflict_kind(stopped(insert("1", None, "3"))) == "multiple_unique_conflicts"


def test_a_row_does_not_stand_in_its_own_way(stopped, execute):
    """C22: an UPDATE that leaves a key as it is"""
    execute("INSERT INTO t (a, c) VALUES (1, 3), (2, 4)")
    error = stopped(update("1", "1", "b", "4"))
    assert conflict_kind(error) == "update_exists"
    assert error.detail == 'Key already exists in unique index "t_c_key".\nKey (c); replica identity (a).'


def test_an_update_takes_what_was_not_sent_from_its_row(stopped, execute):
    """C9, C22: the unchanged c moves with the row, into the way of nobody; only the new a
    is taken
    """
    execute("INSERT INTO t (a, c) VALUES (1, 3), (2, 4)")
    assert conflict_kind(stopped(update("1", "2", "b", m.UNCHANGED))) == "update_exists"


def test_the_row_of_an_update_is_found_without_a_key_too(run, execute):
    """C14, C22"""
    execute("CREATE UNIQUE INDEX f_b ON f (b)")
    execute("INSERT INTO f VALUES (1, 'x'), (2, NULL), (3, 'y')")
    with pytest.raises(ConflictError) as raised:
        run(*transaction(200, m.Update(2, "O", values("2", None), values("2", "y"))), show=True)
    assert raised.value.detail == (
        'Key already exists in unique index "f_b".\n'
        "Key (b)=(y); existing local row (3, y); remote row (2, y); replica identity full (2, null)."
    )


def test_values_are_shown_where_they_are_asked_for(stopped, execute):
    """C21: rows in the target's column order; what the publisher does not send is its default,
    which nobody knows yet
    """
    execute("INSERT INTO t (a, b, c) VALUES (10, 'there', 7)")
    assert stopped(insert("10", None, "8"), show=True).detail == (
        'Key already exists in unique index "t_pkey".\n'
        "Key (a)=(10); existing local row (mine, 7, 10, there); remote row (default, 8, 10, null)."
    )


def test_an_update_shows_the_row_as_it_would_have_become(stopped, execute):
    """C21"""
    execute("INSERT INTO t VALUES ('kept', 3, 1, 'old'), ('o', 4, 2, 'x')")
    assert stopped(update("1", "1", m.UNCHANGED, "4"), show=True).detail == (
        'Key already exists in unique index "t_c_key".\n'
        "Key (c)=(4); existing local row (o, 4, 2, x); remote row (kept, 4, 1, old); replica identity (a)=(1)."
    )


def test_the_failing_one_of_many_changes_is_found(stopped, execute):
    """C22: a run is one executemany, and the row that fails may be any of it; what it did before is
    seen
    """
    execute("INSERT INTO t (a, c) VALUES (1000, 2000)")
    changes = [insert(str(number), "x", str(number)) for number in range(40)]
    error = stopped(*changes, insert("7", "y", "2000"), insert("41", "z", "41"), show=True)
    assert conflict_kind(error) == "multiple_unique_conflicts"
    assert str(error.detail).splitlines()[1] == (
        "Key (a)=(7); existing local row (mine, 7, 7, x); remote row (default, 2000, 7, y)."
    )


def test_transactions_before_the_failing_one_are_committed_before_it_is_looked_at(run, execute):
    """C35: a key that one of them has taken is there"""
    good = transaction(200, insert("1", "x", "3"))
    with pytest.raises(ConflictError, match="multiple_unique_conflicts") as raised:
        run(*good, *transaction(300, insert("2", "z", "5"), insert("1", "y", "3")))
    assert raised.value.lsn == 292
    assert execute("SELECT a FROM t") == [(1,)]


def test_a_conflict_that_is_gone_when_it_is_looked_at_stays_what_it_was(target, execute):
    """C22: somebody has removed the row between the attempt and the look"""
    execute("INSERT INTO t (a, c) VALUES (1, 3)")
    applier = ExactApplier(target, subscription="sub", subid=1)
    frames = [frame([T], transaction(200, insert("1", None, "3")))]
    with pytest.raises(ConflictError) as raised:
        applier.apply(frames, start=START, end=END)
    execute("DELETE FROM t")
    conflict = conflict_of(raised.value)
    assert conflict is not None
    assert conflict.kind is ConflictKind.INSERT_EXISTS
    assert applier.examine(frames, conflict, start=START, end=END) is None
    assert execute("SELECT count(*) FROM t") == [(0,)]


def test_another_error_is_not_looked_at(target, execute):
    execute("CREATE TABLE n (a INTEGER NOT NULL)")
    applier = ExactApplier(target, subscription="sub", subid=1)
    n = relation("public.n", {"a": "int4"}, ["a"])
    reads = []

    def read():
        reads.append(1)
        return [frame([n], transaction(200, insert(None)))]

    with pytest.raises(ConflictError, match="not-null"):
        apply_batch(applier, read, START, END)
    assert len(reads) == 1


def test_partial_indexes_and_indexes_of_expressions_are_told_by_their_own_error(stopped, execute):
    """C20: SQLite names them, and what they are about is not known"""
    execute("CREATE UNIQUE INDEX t_lower ON t (lower(b))")
    execute("CREATE UNIQUE INDEX t_part ON t (own) WHERE b = 'never'")
    execute("INSERT INTO t (a, b, c) VALUES (1, 'X', 3)")
    error = stopped(insert("2", "x", "4"))
    assert (conflict_kind(error), error.detail) == (
        "insert_exists",
        'Key already exists in unique index "t_lower".',
    )


def test_any_sqlalchemy_target_tells_its_keys(tmp_path):
    """C22: by SQLAlchemy's inspector"""
    url = sa.make_url(f"sqlite:///{tmp_path / 'generic.db'}")
    with generic_target(url, sa.create_engine(url)) as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, START)
            connection.exec_driver_sql(
                "CREATE TABLE t (a INTEGER, b TEXT UNIQUE, c INTEGER, CONSTRAINT both UNIQUE (a, c), PRIMARY KEY (a))"
            )
            connection.exec_driver_sql("CREATE UNIQUE INDEX t_c ON t (c)")
            connection.exec_driver_sql("CREATE INDEX t_plain ON t (b, c)")
            connection.exec_driver_sql("INSERT INTO t VALUES (1, 'x', 2)")
            table = target.shapes.reflect(connection, "public", "t")
            assert table is not None
            found = {(index.name, index.keys) for index in target.shapes.unique_indexes(connection, table)}
        assert found == {("t_pkey", ("a",)), ("both", ("a", "c")), ("t_b_key", ("b",)), ("t_c", ("c",))}
        rows = frame([T], transaction(200, insert("1", "y", "2")))
        applier = ExactApplier(target, subscription="sub", subid=1)
        # What such a database's errors mean is not known, so nothing is called a conflict.
        with pytest.raises(ConflictError) as raised:
            apply_batch(applier, lambda: [rows], START, END)
        assert conflict_of(raised.value) is None


# --- missing rows -------------------------------------------------------------------------------


def test_missing_rows_are_said_as_postgresql_says_them(run, caplog):
    """C18-C21"""
    caplog.set_level(logging.INFO)
    run(*transaction(200, update("1", "5", m.UNCHANGED, "7"), m.Delete(2, "O", values("2", None))), show=True)
    said = [record.getMessage() for record in caplog.records]
    context = 'CONTEXT:  processing remote data for replication origin "pg_1" during message type'
    assert said == [
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


def test_missing_rows_are_kept_one_row_each(run, execute, kept):
    """C18: with names only"""
    execute("INSERT INTO t (a) VALUES (2)")
    deletes = [m.Delete(16384, "K", values(key, None, None)) for key in ("1", "2", "3")]
    run(*transaction(200, *deletes), *transaction(300, m.Delete(2, "O", values("4", "secret")), xid=732))
    assert kept() == [
        ("public.t", "delete_missing", None, '["a"]'),
        ("public.t", "delete_missing", None, '["a"]'),
        ("public.f", "delete_missing", None, None),
    ]
    assert kept("subid, subname, remote_commit_lsn, remote_xid, remote_commit_ts, attempts, key_values")[1:] == [
        (1, "sub", "0/C0", 731, "2000-01-01T00:00:01.000000+00:00", 1, None),
        (1, "sub", "0/124", 732, "2000-01-01T00:00:01.000000+00:00", 1, None),
    ]
    assert "secret" not in str(kept("*"))


def test_which_rows_are_missing_is_kept_where_values_are_asked_for(run, execute, kept):
    """C21"""
    execute("INSERT INTO t (a) VALUES (2)")
    deletes = [m.Delete(16384, "K", values(key, None, None)) for key in ("1", "2", "3")]
    run(*transaction(200, *deletes, update("4", "4", "é", None)), show=True)
    assert kept("key_values, remote_row") == [
        ('["1"]', None),
        ('["3"]', None),
        ('["4"]', '[null, null, "4", "é"]'),
    ]


def test_a_batch_that_is_rolled_back_keeps_no_missing_rows(run, kept, execute):
    """C18, C35: they come again with it"""
    execute("INSERT INTO t (a) VALUES (1)")
    missing = m.Delete(16384, "K", values("9", None, None))
    with pytest.raises(ConflictError):
        run(*transaction(200, missing, insert("1", None, None)))
    assert kept() == []


def test_many_missing_rows_are_said_and_kept_within_bounds(monkeypatch, run, kept, execute, caplog):
    """bounded_memory: the counters have them all"""
    monkeypatch.setattr(conflicts, "KEPT_ROWS", 25)
    caplog.set_level(logging.INFO)
    deletes = [m.Delete(16384, "K", values(str(key), None, None)) for key in range(60)]
    run(*transaction(200, *deletes[:40]), *transaction(300, *deletes[40:], xid=732), show=True)
    assert len(caplog.records) == SAID_ROWS + 1
    assert caplog.messages[-1] == (
        'conflict detected on relation "public.t": conflict=delete_missing (50 more in this batch)'
    )
    assert [key for (key,) in kept("key_values")] == [f'["{key}"]' for key in range(35, 60)]
    assert execute("SELECT confl_delete_missing FROM subscriber_stat_subscription_stats") == [(60,)]


def test_of_a_tally_no_more_is_remembered_than_is_kept():
    """bounded_memory"""
    tally, whole = ConflictTally(), ConflictTally()
    conflict = Conflict(ConflictKind.DELETE_MISSING, "public.t", AT, search=SearchKey(("a",)))
    for _ in range(KEPT_ROWS + 5):
        tally.add(conflict, 1)
    whole.merge(tally)
    whole.merge(tally)
    assert len(tally.pending) == len(whole.pending) == KEPT_ROWS
    assert len(whole.said["public.t", ConflictKind.DELETE_MISSING]) == SAID_ROWS
    assert whole.by_kind() == {"delete_missing": 2 * (KEPT_ROWS + 5)}


# --- the table ----------------------------------------------------------------------------------


@pytest.fixture
def log(target):
    def write(write_conflicts, subid=1):
        with target.begin() as connection:
            write_conflicts(ConflictLog(connection, subid, "sub"))

    return write


def test_a_conflict_that_stops_is_kept_once_for_all_attempts(log, kept):
    """C35: attempts counts them; another transaction, index or kind is another conflict"""
    key = ViolatedKey("t_pkey", ("a",), ("1",), ("mine", None))
    first = Conflict(ConflictKind.INSERT_EXISTS, "public.t", AT, (key,), remote_row=("x", None))
    several = Conflict(
        ConflictKind.MULTIPLE_UNIQUE_CONFLICTS, "public.t", AT, (key, ViolatedKey("t_c_key", ("c", "d")))
    )
    later = Conflict(ConflictKind.INSERT_EXISTS, "public.t", ChangePlace(732, LSN(0x2000), 0))
    for conflict in (first, first, several, later, first, later):
        log(lambda table, conflict=conflict: table.write_stop(records_of(conflict)))
    assert kept("conflict_type, index_name, key_columns, attempts, remote_commit_lsn") == [
        ("insert_exists", "t_pkey", '["a"]', 3, "0/1000"),
        ("multiple_unique_conflicts", "t_pkey", '["a"]', 1, "0/1000"),
        ("multiple_unique_conflicts", "t_c_key", '["c", "d"]', 1, "0/1000"),
        ("insert_exists", None, None, 2, "0/2000"),
    ]
    assert [json.loads(text) for text in kept("key_values, local_row, remote_row")[0]] == [
        ["1"],
        ["mine", None],
        ["x", None],
    ]


def test_the_newest_rows_of_each_subscription_are_kept(monkeypatch, log, kept):
    monkeypatch.setattr(conflicts, "KEPT_ROWS", 2)
    for number in range(6):
        conflict = Conflict(ConflictKind.DELETE_MISSING, f"public.t{number}", AT)
        if number % 3:
            log(lambda table, conflict=conflict: table.write(records_of(conflict)), subid=1)
        else:
            log(lambda table, conflict=conflict: table.write_stop(records_of(conflict)), subid=2)
    log(lambda table: table.write_stop(records_of(Conflict(ConflictKind.INSERT_EXISTS, "public.t", AT))), subid=1)
    assert kept("subid, relation") == [(2, "public.t0"), (2, "public.t3"), (1, "public.t5"), (1, "public.t")]


def test_a_dropped_subscriptions_rows_are_forgotten(log, kept, target):
    """Numbers are given again."""
    for subid in (1, 2):
        log(lambda table: table.write(records_of(Conflict(ConflictKind.DELETE_MISSING, "public.t", AT))), subid=subid)
    with target.begin() as connection:
        forget_conflicts(connection, 1)
    assert kept("subid") == [(2,)]


# --- words --------------------------------------------------------------------------------------

KEY = ViolatedKey("t_pkey", ("a",), ("1",), ("x",))


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (None, ""),
        (RowVersion(779), ", modified in transaction 779"),
        (RowVersion(779, "2026-01-01 00:00:00+00"), ", modified locally in transaction 779 at 2026-01-01 00:00:00+00"),
        (RowVersion(779, "now", "pg_1"), ', modified by origin "pg_1" in transaction 779 at now'),
        (RowVersion(779, "now", ""), ", modified by a non-existent origin in transaction 779 at now"),
    ],
)
def test_who_wrote_the_row_is_said_as_far_as_it_is_known(version, words):
    """C20"""
    conflict = Conflict(ConflictKind.INSERT_EXISTS, "public.t", AT, (ViolatedKey("t_pkey", ("a",), version=version),))
    assert describe(conflict).splitlines()[0] == f'Key already exists in unique index "t_pkey"{words}.'


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (RowVersion(7, "now"), "locally in transaction 7 at now"),
        (RowVersion(7, "now", "pg_2"), 'by a different origin "pg_2" in transaction 7 at now'),
        (RowVersion(7, "now", ""), "by a non-existent origin in transaction 7 at now"),
    ],
)
def test_whose_row_is_touched_is_said(version, words):
    """C20, C21"""
    search = SearchKey(("a",), ("1",))
    touched = Conflict(ConflictKind.UPDATE_ORIGIN_DIFFERS, "public.t", AT, (), search, ("r",), ("l",), version)
    assert describe(touched) == (
        f"Updating the row that was modified {words}.\n"
        "Existing local row (l); remote row (r); replica identity (a)=(1)."
    )


def test_a_value_of_a_row_is_cut_to_64_bytes_and_between_characters(stopped, execute, kept):
    """C21, bounded_memory: in the table too; a key's is not"""
    assert row_text(["x" * 64, "x" * 63 + "é", "é" * 1000, None]) == (
        "x" * 64,
        "x" * 63 + "...",
        "é" * 32 + "...",
        None,
    )
    execute("CREATE UNIQUE INDEX t_b ON t (b)")
    execute(f"INSERT INTO t VALUES ('o', 1, 2, '{'k' * 100}')")
    assert str(stopped(insert("3", "k" * 100, "4"), show=True).detail).splitlines()[1] == (
        f"Key (b)=({'k' * 100}); existing local row (o, 1, 2, {'k' * 64}...); remote row (default, 4, 3, {'k' * 64}...)."
    )
