"""The examination of the run that stopped a batch."""

from __future__ import annotations

import pytest

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import ExactApplier
from subscriber.catalog import ConflictKind
from subscriber.errors import ConflictError
from subscriber.lsn import LSN
from tests.changes import insert
from tests.conflicts import T
from tests.failures import conflict_kind, conflict_of
from tests.frames import frame, relation, transaction

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("conflict_tables")


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


def test_transactions_before_the_failing_one_are_committed_before_it_is_looked_at(apply_changes, execute):
    """C35: a key that one of them has taken is there"""
    good = transaction(200, insert("1", "x", "3"))
    with pytest.raises(ConflictError, match="multiple_unique_conflicts") as raised:
        apply_changes(*good, *transaction(300, insert("2", "z", "5"), insert("1", "y", "3")))
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
