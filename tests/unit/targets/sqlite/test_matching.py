"""Row matching in SQLite."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.targets import TargetColumn
from subscriber.targets.sqlite.catalog import SQLiteColumn, SQLiteTable
from subscriber.targets.sqlite.matching import SQLiteMatching
from tests.frames import OIDS
from tests.unit.targets.tables import execute, reflected

MATCHING = SQLiteMatching()
VALUE = sa.literal("x")


def column(storage: str = "TEXT", collation: str | None = "BINARY") -> SQLiteColumn:
    return SQLiteColumn("a", storage, storage, key_collation=collation)


def table(of: TargetColumn, *, may_watch_columns: bool = False) -> SQLiteTable:
    return SQLiteTable("main", "t", (of,), ("a",), may_watch_columns=may_watch_columns)


def clause(of: TargetColumn) -> sa.ColumnElement[str]:
    return table(of).clause().c.a


def sql(target, condition: sa.ClauseElement) -> str:
    return str(condition.compile(dialect=target.engine.dialect))


@pytest.mark.parametrize(
    ("collation", "condition"),
    [
        ("BINARY", 'main.t.a COLLATE "BINARY" = ?'),
        ("NOCASE", 'main.t.a COLLATE "NOCASE" = ?'),
        (None, "main.t.a = ?"),
    ],
)
def test_a_key_is_compared_with_the_collation_of_its_index(target, collation, condition):
    """C8"""
    of = column(collation=collation)
    assert sql(target, MATCHING.equals(of, clause(of), VALUE)).replace("(", "").replace(")", "") == condition
    assert sql(target, MATCHING.finds(of, clause(of), VALUE)).replace("(", "").replace(")", "") == condition


def test_in_a_whole_row_a_text_is_compared_exactly(target):
    """C14: whatever the collation of the column is; NULL equals NULL."""
    execute(target, "CREATE TABLE t (a TEXT COLLATE NOCASE)", "INSERT INTO t VALUES ('x'), ('X'), (NULL)")
    of = reflected(target, "t")
    (a,) = of.columns
    t = of.clause()
    with target.engine.connect() as connection:
        for value in ("x", "X", None):
            bound = sa.bindparam("v", value, sa.Text())
            found = connection.execute(sa.select(t.c.a).where(MATCHING.is_same(a, t.c.a, bound))).scalars().all()
            assert found == [value]


@pytest.mark.parametrize(
    ("name", "of", "same"),
    [
        ("int4", column("INTEGER", None), True),
        ("text", column(), True),
        ("text", column(collation="NOCASE"), False),
        ("text", column("BLOB"), False),
        ("bool", column("INTEGER"), False),
        ("numeric", column(), False),  # 1.0 finds 1.00
        ("text", TargetColumn("a", "TEXT", "TEXT"), False),
    ],
    ids=["integer", "text", "ignores case", "blob", "boolean", "numeric", "no column of SQLite"],
)
def test_a_key_column_is_left_out_of_set_if_equal_values_are_stored_alike(name, of, same):
    assert MATCHING.found_as_written(OIDS[name], table(of), of) is same


def test_every_column_is_in_set_if_a_trigger_may_depend_on_it():
    """C23"""
    of = column("INTEGER")
    assert not MATCHING.found_as_written(23, table(of, may_watch_columns=True), of)
