"""The unique keys that a change violates, and the rows that have them. PostgreSQL's own subscriber
is compared in tests/conformance/test_conflicts_beside_native.py.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.conflicts.collisions import new_row, search_key, sent_texts
from subscriber.apply.conflicts.conflict import SearchKey
from subscriber.apply.exact import ExactApplier
from subscriber.apply.relations.target_relations import RelationMap
from subscriber.apply.statements.identity import row_identity
from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.targets.base.target import base_target
from tests.changes import delete, insert, update
from tests.conflicts import T
from tests.failures import conflict_kind, conflict_of
from tests.frames import frame, transaction, values

START, END = LSN(100), LSN(1000)
pytestmark = pytest.mark.usefixtures("conflict_tables")


def test_a_violated_key_is_reported_with_its_index(stopped, execute):
    """C20: SQLite does not record the writer of a row."""
    execute("INSERT INTO t (a, b, c) VALUES (10, 'there', 7)")
    error = stopped(insert("10", "secret", "8"))
    assert error.message == 'conflict detected on relation "public.t": conflict=insert_exists'
    assert error.detail == 'Key already exists in unique index "t_pkey".\nKey (a).'
    assert conflict_kind(error) == "insert_exists"


def test_several_violated_keys_are_another_kind_of_conflict(stopped, execute):
    """C20, C22: each has two lines; the primary key comes first."""
    execute("INSERT INTO t (a, c) VALUES (1, 3), (2, 4)")
    error = stopped(insert("1", None, "4"))
    assert error.message == 'conflict detected on relation "public.t": conflict=multiple_unique_conflicts'
    assert error.detail == (
        'Key already exists in unique index "t_pkey".\nKey (a).\nKey already exists in unique index "t_c_key".\nKey (c).'
    )
    assert error.sqlstate == "23505"


def test_one_row_may_have_every_violated_key(stopped, execute):
    """C22: PostgreSQL counts keys, not rows."""
    execute("INSERT INTO t (a, c) VALUES (1, 3)")
    assert conflict_kind(stopped(insert("1", None, "3"))) == "multiple_unique_conflicts"


def test_a_row_does_not_conflict_with_itself(stopped, execute):
    """C22: the UPDATE does not change the key a."""
    execute("INSERT INTO t (a, c) VALUES (1, 3), (2, 4)")
    error = stopped(update(("1", "b", "4"), key=("1", None, None)))
    assert conflict_kind(error) == "update_exists"
    assert error.detail == 'Key already exists in unique index "t_c_key".\nKey (c); replica identity (a).'


def test_an_unchanged_key_has_the_value_of_the_row(stopped, execute):
    """C9, C22: no other row has the unchanged c; only the new a exists already."""
    execute("INSERT INTO t (a, c) VALUES (1, 3), (2, 4)")
    assert conflict_kind(stopped(update(("2", "b", m.UNCHANGED), key=("1", None, None)))) == "update_exists"


def test_a_row_that_is_found_by_all_its_values_does_not_conflict_with_itself(apply_changes, execute):
    """C14, C22"""
    execute("CREATE UNIQUE INDEX f_b ON f (b)")
    execute("INSERT INTO f VALUES (1, 'x'), (2, NULL), (3, 'y')")
    with pytest.raises(ConflictError) as raised:
        apply_changes(*transaction(200, m.Update(2, "O", values("2", None), values("2", "y"))), show=True)
    assert raised.value.detail == (
        'Key already exists in unique index "f_b".\n'
        "Key (b)=(y); existing local row (3, y); remote row (2, y); replica identity full (2, null)."
    )


def test_values_are_shown_with_log_conflict_values(stopped, execute):
    """C21: rows have the target's column order. A column that the publisher does not have gets a
    default that is not known yet.
    """
    execute("INSERT INTO t (a, b, c) VALUES (10, 'there', 7)")
    assert stopped(insert("10", None, "8"), show=True).detail == (
        'Key already exists in unique index "t_pkey".\n'
        "Key (a)=(10); existing local row (mine, 7, 10, there); remote row (default, 8, 10, null)."
    )


def test_the_new_row_of_an_update_has_the_values_that_were_not_sent(stopped, execute):
    """C21"""
    execute("INSERT INTO t VALUES ('kept', 3, 1, 'old'), ('o', 4, 2, 'x')")
    assert stopped(update(("1", m.UNCHANGED, "4"), key=("1", None, None)), show=True).detail == (
        'Key already exists in unique index "t_c_key".\n'
        "Key (c)=(4); existing local row (o, 4, 2, x); remote row (kept, 4, 1, old); replica identity (a)=(1)."
    )


def test_an_index_of_an_expression_is_named_by_the_error_of_sqlite(stopped, execute):
    """C20: its columns are not known."""
    execute("CREATE UNIQUE INDEX t_lower ON t (lower(b))")
    execute("CREATE UNIQUE INDEX t_part ON t (own) WHERE b = 'never'")
    execute("INSERT INTO t (a, b, c) VALUES (1, 'X', 3)")
    error = stopped(insert("2", "x", "4"))
    assert (conflict_kind(error), error.detail) == (
        "insert_exists",
        'Key already exists in unique index "t_lower".',
    )


def test_the_keys_of_any_database_are_read_by_sqlalchemy(tmp_path):
    """C22: the meaning of such a database's errors is not known, so no error is a conflict."""
    url = sa.make_url(f"sqlite:///{tmp_path / 'generic.db'}")
    with base_target(url, sa.create_engine(url)) as target:
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
        with pytest.raises(ConflictError) as raised:
            apply_batch(applier, lambda: [rows], START, END)
        assert conflict_of(raised.value) is None


def test_a_null_conflicts_with_nothing(stopped, execute):
    """NULL equals nothing in a unique index."""
    execute("INSERT INTO t (a, c) VALUES (1, NULL)")
    error = stopped(insert("1", "x", None))
    assert (conflict_kind(error), error.detail) == (
        "insert_exists",
        'Key already exists in unique index "t_pkey".\nKey (a).',
    )


def test_a_key_that_gets_a_default_is_left_out(stopped, execute):
    """Its value is not known yet."""
    execute("CREATE UNIQUE INDEX t_own ON t (own)")
    execute("INSERT INTO t (a, c) VALUES (1, 3)")
    assert conflict_kind(stopped(insert("1", "x", "4"))) == "insert_exists"


@pytest.mark.parametrize(
    ("change", "key", "row"),
    [
        (insert("1", "x", None), None, ("1", "x", None, None)),
        (delete("1", None, None), SearchKey(("a",), ("1",)), None),
        (update(("2", m.UNCHANGED, "3"), key=("1", None, None)), SearchKey(("a",), ("1",)), ("2", None, "3", None)),
    ],
    ids=["INSERT", "DELETE", "UPDATE"],
)
def test_a_change_is_shown_with_the_values_that_were_sent(target, change, key, row):
    """C8, C21: the row in the target's column order (own, c, a, b)."""
    (group,) = frame([T], [change]).groups
    with target.begin() as connection:
        local = RelationMap(target, connection).open(T)
    in_order = None if row is None else (row[3], row[2], row[0], row[1])
    assert new_row(local, group) == in_order
    if key is not None:
        assert search_key(row_identity(local), group, values=True) == key
        assert search_key(row_identity(local), group, values=False) == SearchKey(("a",))


def test_columns_that_were_not_sent_have_no_text():
    """absence_is_typed"""
    (group,) = frame([T], [update(("1", m.UNCHANGED, None))]).groups
    assert sent_texts(group.new) == {"a": "1", "c": None}
    assert sent_texts(group.old) == {}
