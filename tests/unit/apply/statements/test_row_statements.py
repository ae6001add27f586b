"""The columns of the key that SET names (rules C9, C14)."""

from __future__ import annotations

from typing import Literal

import pytest

from subscriber.apply.relations.local_relations import RelationMap
from subscriber.apply.statements.identity import row_identity
from subscriber.apply.statements.row_statements import build_statement, unchanged_key
from subscriber.lsn import LSN
from subscriber.protocol import messages as m
from tests.frames import frame, relation, transaction, values

COLUMNS = {"a": "int4", "k": "text", "b": "int4"}
DEFAULT = relation("public.t", COLUMNS, ["a", "k"])
FULL = relation("public.t", COLUMNS, ["a", "k"], identity="f")
TABLE = "CREATE TABLE t (a integer, k text, b integer, PRIMARY KEY (a, k))"


def set_clause(target, change: m.Update, shape: m.Relation = DEFAULT) -> str:
    """The part of an UPDATE between SET and WHERE, without the table's name and schema."""
    (group,) = frame([shape], transaction(200, change)).groups
    with target.begin() as connection:
        local = RelationMap(target, connection).open(shape)
        identity = row_identity(local)
        unchanged = unchanged_key(target, local, group, identity)
        sql = build_statement(target, local, group, identity, unchanged).sql
    words = sql.partition(" SET ")[2].partition(" WHERE ")[0].replace('"', "")
    return words.replace("main.t.", "").replace("t.", "")


def update(
    new: tuple[str | m.Absence, ...], old: tuple[str | None, ...] | None = None, kind: Literal["K", "O"] = "O"
) -> m.Update:
    return m.Update(16384, None if old is None else kind, None if old is None else values(*old), values(*new))


@pytest.mark.parametrize(
    ("change", "shape", "expected"),
    [
        (update(("1", "x", "2")), DEFAULT, "b=?"),
        (update(("1", "y", "2"), ("1", "x", None), "K"), DEFAULT, "k=?, b=?"),
        (update(("1", "x", "2"), ("1", "x", "1")), FULL, "b=?"),
        (update(("2", "x", "2"), ("1", "x", "1")), FULL, "a=?, b=?"),
        (update(("1", "x", m.UNCHANGED)), DEFAULT, "b=b"),
        (update(("1", "x", m.UNCHANGED), ("2", "x", None), "K"), DEFAULT, "a=?"),
    ],
    ids=["no old tuple", "key changed", "full", "full, key changed", "nothing to set", "only the key"],
)
def test_set_leaves_out_unchanged_key_columns(target, execute, change, shape, expected):
    execute(TABLE)
    assert set_clause(target, change, shape) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("(a integer, k text COLLATE NOCASE, b integer, PRIMARY KEY (a, k))", "k=?, b=?"),
        ("(a numeric, k text, b integer, PRIMARY KEY (a, k))", "a=?, b=?"),
        ("(a integer PRIMARY KEY, k text, b integer)", "k=?, b=?"),
    ],
    ids=["collation", "affinity", "no key of the target's"],
)
def test_the_targets_table_decides_what_is_exact(target, execute, table, expected):
    execute(f"CREATE TABLE t {table}")
    assert set_clause(target, update(("1", "x", "2"))) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("(g integer GENERATED ALWAYS AS (1), a integer, k text, own integer, PRIMARY KEY (a, k))", "own=own"),
        ("(a integer, k text, PRIMARY KEY (a, k))", "a=a"),
    ],
    ids=["a column of the target's own", "nothing but the key"],
)
def test_where_nothing_is_left_a_column_is_set_to_itself(target, execute, table, expected):
    """C18: the row must exist."""
    execute(f"CREATE TABLE t {table}")
    shape = relation("public.t", {"a": "int4", "k": "text"}, ["a", "k"])
    assert set_clause(target, update(("1", "x")), shape) == expected


def test_no_column_is_left_out_where_the_whole_row_is_compared(target, execute):
    execute("CREATE TABLE t (a integer, k text, b integer)")
    assert set_clause(target, update(("1", "x", "2"), ("1", "x", "1")), FULL) == "a=?, k=?, b=?"


def test_the_key_of_a_table_with_triggers_is_always_set(target, execute):
    """A trigger with UPDATE OF the key fires, as with PostgreSQL's worker."""
    execute(TABLE)
    execute("CREATE TRIGGER r AFTER UPDATE OF a ON T BEGIN SELECT 1; END")
    assert set_clause(target, update(("1", "x", "2"))) == "a=?, k=?, b=?"


def test_a_cached_statement_is_not_used_where_the_key_changes(target, execute, applier):
    """Two frames have one shape, and the second one changes the key."""
    execute(TABLE)
    execute("INSERT INTO t VALUES (1, 'x', 0)")
    same, other = update(("1", "x", "1"), ("1", "x", "0")), update(("2", "x", "2"), ("1", "x", "1"))
    for start, change in ((100, same), (1000, other)):
        applier.apply([frame([FULL], transaction(start + 100, change))], start=LSN(start), end=LSN(start + 900))
    assert execute("SELECT a, k, b FROM t") == [(2, "x", 2)]
