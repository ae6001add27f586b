"""The examination of the run that stopped a batch: the change that failed, and its keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.conflicts.collisions import Collisions, refined
from subscriber.apply.conflicts.conflict import Conflict, SearchKey, ViolatedKey
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG, ConflictKind
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target, open_target
from tests.changes import insert, update
from tests.conflicts import AT, T
from tests.failures import conflict_kind, conflict_of
from tests.frames import frame, relation, transaction

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("conflict_tables")


def without_savepoints(target: Target) -> Target:
    return replace(target, capabilities=replace(target.capabilities, savepoints=False))


def examined(target: Target, *changes: m.Message) -> Conflict | None:
    """The conflict of a transaction, after its examination."""
    applier = ExactApplier(target, subscription="sub", subid=1)
    with pytest.raises(ConflictError) as raised:
        apply_batch(applier, lambda: [frame([T], transaction(200, *changes))], START, END)
    return conflict_of(raised.value)


@pytest.mark.parametrize("adapted", [lambda target: target, without_savepoints], ids=["savepoints", "no savepoints"])
def test_the_failing_one_of_many_changes_is_found(target, execute, adapted):
    """C22: any row of one executemany may have failed. The rows before it count as written."""
    execute("INSERT INTO t (a, c) VALUES (1000, 2000)")
    changes = [insert(str(number), "x", str(number)) for number in range(40)]
    conflict = examined(adapted(target), *changes, insert("7", "y", "2000"), insert("41", "z", "41"))
    assert conflict is not None
    assert conflict.kind is ConflictKind.MULTIPLE_UNIQUE_CONFLICTS
    assert [key.index for key in conflict.violated] == ["t_pkey", "t_c_key"]


@pytest.mark.parametrize("adapted", [lambda target: target, without_savepoints], ids=["savepoints", "no savepoints"])
def test_the_failing_one_of_many_updates_is_found(target, execute, adapted):
    execute("INSERT INTO t (a, c) VALUES (1, 1), (2, 2), (3, 3)")
    changes = [update((key, "x", c), key=(key, None, None)) for key, c in (("1", "7"), ("2", "3"), ("3", "9"))]
    conflict = examined(adapted(target), *changes)
    assert conflict is not None
    assert (conflict.kind, conflict.search) == (ConflictKind.UPDATE_EXISTS, SearchKey(("a",)))
    assert [key.index for key in conflict.violated] == ["t_c_key"]


def test_values_are_shown_with_log_conflict_values(stopped, execute):
    execute("INSERT INTO t (a, c) VALUES (1000, 2000)")
    changes = [insert(str(number), "x", str(number)) for number in range(40)]
    error = stopped(*changes, insert("7", "y", "2000"), show=True)
    assert str(error.detail).splitlines()[1] == (
        "Key (a)=(7); existing local row (mine, 7, 7, x); remote row (default, 2000, 7, y)."
    )


def test_the_transactions_before_the_failing_one_are_committed_before_the_examination(apply_changes, execute):
    """C35: a row that one of them has written is a conflicting row."""
    good = transaction(200, insert("1", "x", "3"))
    with pytest.raises(ConflictError) as raised:
        apply_changes(*good, *transaction(300, insert("2", "z", "5"), insert("1", "y", "3")))
    assert (conflict_kind(raised.value), raised.value.lsn) == ("multiple_unique_conflicts", 292)
    assert execute("SELECT a FROM t") == [(1,)]


def test_a_conflict_that_is_gone_before_the_examination_is_not_found(target, execute):
    """C22: another session has removed the row."""
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


def test_a_batch_that_is_already_applied_is_not_examined(target):
    applier = ExactApplier(target, subscription="sub", subid=1)
    conflict = Conflict(ConflictKind.INSERT_EXISTS, "public.t", AT)
    assert applier.examine([], conflict, start=LSN(50), end=START) is None


def test_an_error_that_is_no_conflict_is_not_examined(target, execute):
    """The batch is read once."""
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


def test_an_index_that_refuses_a_key_without_a_row_is_named_with_what_creates_it_again(tmp_path):
    """DuckDB keeps the key of a deleted row in an index that was created beside a transaction."""
    with open_target(f"duckdb:///{tmp_path / 't.duckdb'}") as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, START)
            connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR, c INTEGER)")
            connection.exec_driver_sql("INSERT INTO t VALUES (1, 'x', 7)")
        with target.engine.connect() as reader:
            reader.exec_driver_sql("SELECT * FROM t")
            with target.begin() as connection:
                connection.exec_driver_sql("DELETE FROM t")
            with target.begin() as connection:
                connection.exec_driver_sql("CREATE UNIQUE INDEX t_c ON t (c)")
        applier = ExactApplier(target, subscription="sub", subid=1)

        def apply():
            apply_batch(
                applier,
                lambda: [frame([T], transaction(200, insert("2", "x", "3"), insert("1", "y", "7")))],
                START,
                END,
            )

        with pytest.raises(ConflictError) as raised:
            apply()
        assert conflict_kind(raised.value) == "insert_exists"
        _, _, statements = str(raised.value.hint).partition("again: ")
        assert statements == 'DROP INDEX "main"."t_c"; CREATE UNIQUE INDEX t_c ON t(c);'
        for statement in statements.rstrip(";").split("; "):
            with target.begin() as connection:
                connection.exec_driver_sql(statement)
        apply()
        with target.begin() as connection:
            found = connection.exec_driver_sql("SELECT a, c FROM t ORDER BY a").all()
        assert [tuple(row) for row in found] == [(1, 7), (2, 3)]


# The result ---------------------------------------------------------------------------------------

INSERT_EXISTS = Conflict(ConflictKind.INSERT_EXISTS, "public.t", AT)
PKEY, CKEY = ViolatedKey("t_pkey", ("a",)), ViolatedKey("t_c_key", ("c",))


@pytest.mark.parametrize("collisions", [None, Collisions(())], ids=["not examined", "no key"])
def test_a_conflict_without_a_violated_key_no_longer_exists(collisions):
    assert refined(INSERT_EXISTS, collisions) is None


def test_one_violated_key_leaves_the_kind_of_the_conflict():
    found = Collisions((PKEY,), search=SearchKey(("a",)), remote_row=("1", "x"))
    assert refined(INSERT_EXISTS, found) == Conflict(
        ConflictKind.INSERT_EXISTS, "public.t", AT, (PKEY,), SearchKey(("a",)), ("1", "x")
    )


def test_several_violated_keys_are_another_kind_of_conflict():
    """C22"""
    found = refined(INSERT_EXISTS, Collisions((PKEY, CKEY)))
    assert found == Conflict(ConflictKind.MULTIPLE_UNIQUE_CONFLICTS, "public.t", AT, (PKEY, CKEY))


def test_the_partition_with_the_conflicting_row_is_the_conflicts_relation():
    """C26"""
    found = refined(INSERT_EXISTS, Collisions((PKEY,), leaf=("public", "t_2026")))
    assert found is not None
    assert found.relation == "public.t_2026"
