"""The unique keys that a change violates, and the rows that have them. PostgreSQL's own subscriber
is compared in tests/conformance/test_conflicts_beside_native.py.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import ExactApplier
from subscriber.catalog import CATALOG, OriginProgress
from subscriber.errors import ConflictError
from subscriber.lsn import LSN
from subscriber.protocol import messages as m
from subscriber.targets.generic.target import generic_target
from tests.changes import insert, update
from tests.conflicts import T
from tests.failures import conflict_kind, conflict_of
from tests.frames import frame, transaction, values

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("conflict_tables")


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
    error = stopped(update(("1", "b", "4"), key=("1", None, None)))
    assert conflict_kind(error) == "update_exists"
    assert error.detail == 'Key already exists in unique index "t_c_key".\nKey (c); replica identity (a).'


def test_an_update_takes_what_was_not_sent_from_its_row(stopped, execute):
    """C9, C22: the unchanged c moves with the row, into the way of nobody; only the new a
    is taken
    """
    execute("INSERT INTO t (a, c) VALUES (1, 3), (2, 4)")
    assert conflict_kind(stopped(update(("2", "b", m.UNCHANGED), key=("1", None, None)))) == "update_exists"


def test_the_row_of_an_update_is_found_without_a_key_too(apply_changes, execute):
    """C14, C22"""
    execute("CREATE UNIQUE INDEX f_b ON f (b)")
    execute("INSERT INTO f VALUES (1, 'x'), (2, NULL), (3, 'y')")
    with pytest.raises(ConflictError) as raised:
        apply_changes(*transaction(200, m.Update(2, "O", values("2", None), values("2", "y"))), show=True)
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
    assert stopped(update(("1", m.UNCHANGED, "4"), key=("1", None, None)), show=True).detail == (
        'Key already exists in unique index "t_c_key".\n'
        "Key (c)=(4); existing local row (o, 4, 2, x); remote row (kept, 4, 1, old); replica identity (a)=(1)."
    )


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
