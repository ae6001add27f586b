"""Properties of SQLite's tables that PostgreSQL's tables do not have: conflict clauses and
collations.
"""

from __future__ import annotations

import pytest

from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.targets.base.loading import LoadColumn, insert_statement
from tests.changes import insert
from tests.frames import frame, relation, transaction, values

START, END = LSN(100), LSN(1000)
KEYED = relation("public.t", {"a": "int4", "b": "text"}, ["a"])


@pytest.fixture
def run(applier):
    return lambda shape, *messages: (
        applier.apply([frame([shape], transaction(200, *messages))], start=START, end=END).conflicts
    )


CLAUSES = {
    "a row in the way is not replaced": ("a INTEGER PRIMARY KEY ON CONFLICT REPLACE, b TEXT", insert("7", "x")),
    "a row is not passed over": ("a INTEGER PRIMARY KEY, b TEXT UNIQUE ON CONFLICT IGNORE", insert("1", "local")),
    "an update replaces no other row": (
        "a INTEGER PRIMARY KEY, b TEXT, UNIQUE (b) ON CONFLICT REPLACE",
        m.Update(16384, None, None, values("8", "local")),
    ),
    "a default does not replace a null": (
        "a INTEGER PRIMARY KEY, b TEXT NOT NULL ON CONFLICT REPLACE DEFAULT 'd'",
        insert("1", None),
    ),
}


@pytest.mark.parametrize("name", CLAUSES)
def test_on_conflict_of_a_constraint_does_not_hide_a_conflict(run, execute, name):
    """C22: every violation stops the transaction."""
    columns, change = CLAUSES[name]
    execute(f"CREATE TABLE t ({columns})")
    execute("INSERT INTO t VALUES (7, 'local'), (8, 'x')")
    with pytest.raises(ConflictError):
        run(KEYED, change)
    assert execute("SELECT * FROM t") == [(7, "local"), (8, "x")]


def test_copied_rows_do_not_replace_others_either(target, execute):
    """C22, D1"""
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY ON CONFLICT REPLACE, b TEXT)")
    execute("CREATE TABLE u (a INTEGER PRIMARY KEY, b TEXT)")
    with target.begin() as connection:
        tables = [target.shapes.reflect(connection, "public", name) for name in "tu"]
    dialect = target.engine.dialect
    sql = [insert_statement(dialect, target.writing, table, [LoadColumn(table.columns[0], 23)]).sql for table in tables]
    assert [statement.partition(" INTO ")[0] for statement in sql] == ["INSERT OR ABORT", "INSERT"]


def test_texts_of_a_whole_row_are_compared_exactly_whatever_the_collation(run, execute):
    """C14: these rows differ at the publisher."""
    execute("CREATE TABLE t (a INTEGER, b TEXT COLLATE NOCASE)")
    shape = relation("public.t", {"a": "int4", "b": "text"}, identity="f")
    update = m.Update(16384, "O", values("1", "x"), values("2", "x"))
    assert run(shape, insert("1", "X"), insert("1", "x"), insert("1", "x "), update) == {}
    assert execute("SELECT * FROM t") == [(1, "X"), (2, "x"), (1, "x ")]


def test_a_key_is_compared_with_the_collation_of_its_index(run, execute):
    """C13: it may differ from the collation of the column."""
    execute("CREATE TABLE t (a INTEGER, b TEXT COLLATE NOCASE, PRIMARY KEY (b COLLATE BINARY))")
    shape = relation("public.t", {"a": "int4", "b": "text"}, ["b"])
    update = m.Update(16384, None, None, values("2", "x"))
    delete = m.Delete(16384, "K", values(None, "X"))
    assert run(shape, insert("1", "X"), insert("1", "x"), update, delete) == {}
    assert execute("SELECT * FROM t") == [(2, "x")]


def test_a_key_that_ignores_case_finds_its_row_in_another_case(run, execute):
    """C13: as with citext."""
    execute("CREATE TABLE t (a INTEGER, b TEXT COLLATE NOCASE PRIMARY KEY)")
    shape = relation("public.t", {"a": "int4", "b": "text"}, ["b"])
    assert run(shape, insert("1", "X"), m.Update(16384, None, None, values("2", "x"))) == {}
    assert execute("SELECT * FROM t") == [(2, "x")]
