"""The columns of the key that SET names (rules C9, C14)."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Literal

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.statements import change_statements
from subscriber.apply.statements.change_statements import parts
from subscriber.apply.statements.identity import in_leaf, row_identity
from subscriber.apply.statements.row_statements import build_statement, unchanged_columns
from subscriber.base.errors import Stopped, TargetRelationError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.targets import LeafRouting, Target, TargetColumn, TargetTable
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
        unchanged = unchanged_columns(target, local, group, identity)
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
def test_set_leaves_out_unchanged_columns_columns(target, execute, change, shape, expected):
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


# Parts of many rows, with a check before each.


@pytest.mark.parametrize(("rows", "expected"), [(0, []), (1, [(0, 1)]), (2, [(0, 2)]), (5, [(0, 2), (2, 4), (4, 5)])])
def test_the_parts_are_all_rows_and_each_is_checked(rows, expected):
    checks: list[int] = []
    assert [*parts(rows, lambda: checks.append(1), 2)] == expected
    assert len(checks) == len(expected)


def test_the_usual_size_is_that_of_one_executemany(monkeypatch):
    monkeypatch.setattr(change_statements, "ROWS_AT_A_TIME", 3)
    assert [*parts(4, lambda: None)] == [(0, 3), (3, 4)]


def test_a_batch_that_must_end_gets_no_further_part():
    checks = count()

    def check() -> None:
        if next(checks) == 1:
            raise Stopped("the work was stopped")

    with pytest.raises(Stopped):
        [*parts(9, check, 3)]
    assert next(checks) == 2


# The search in a partitioned table where only the partitions have keys (C26).


REMOTE = relation("public.t", {"id": "int4", "region": "text", "payload": "text"}, ["id", "region"])
LEAF_COLUMNS = (
    TargetColumn("id", "integer", "int4"),
    TargetColumn("region", "character varying(10)", "varchar"),
    TargetColumn("payload", "text", "text"),
    TargetColumn("tenant", "integer", "int4"),
)
LEAF_TABLE = TargetTable("public", "t", LEAF_COLUMNS, ("id",), "partitioned table", locators=("tableoid", "ctid"))
LOCAL = TargetRelation(REMOTE, LEAF_TABLE, LEAF_COLUMNS[:3], "public.t")


class Routed:
    """The matching of a target whose partitions alone have keys."""

    def __init__(self, routing: LeafRouting | None) -> None:
        self._routing = routing

    def routing(self, table: TargetTable) -> LeafRouting | None:
        return self._routing


def conditions(target: Target, columns: tuple[str, ...] | None, sent: tuple[str, ...]) -> list[str]:
    """The conditions as PostgreSQL's SQL; ``columns`` are those of the partition bounds."""
    routing = None if columns is None else LeafRouting("tableoid", "CASE WHEN region = 'eu' THEN 16391 END", columns)
    roles = replace(target.open_table_roles(), matching=Routed(routing))  # type: ignore[arg-type]
    routed = replace(target, open_table_roles=lambda: roles)
    found = in_leaf(routed, LOCAL, LEAF_TABLE.clause(), sent, lambda column: sa.literal_column(f":{column.name}"))
    return [" ".join(str(one.compile(dialect=postgresql.dialect())).split()) for one in found]


def test_a_table_that_has_a_key_is_searched_as_a_whole(target):
    assert conditions(target, None, ("id",)) == []


def test_the_row_is_searched_in_the_partition_that_its_values_belong_to(target):
    (condition,) = conditions(target, ("region",), ("id", "region"))
    assert condition == (
        "public.t.tableoid = (SELECT CASE WHEN region = 'eu' THEN 16391 END"
        " FROM (SELECT CAST(:region AS character varying(10)) AS region) AS subscriber_routed)"
    )


def test_a_column_that_the_publisher_does_not_have_is_null(target):
    """C15"""
    (condition,) = conditions(target, ("region", "tenant"), ("id", "region"))
    assert "CAST(NULL AS integer) AS tenant" in condition


def test_a_search_that_does_not_determine_the_partition_is_refused(target):
    """C12"""
    with pytest.raises(TargetRelationError) as caught:
        conditions(target, ("region",), ("id",))
    assert caught.value.message == (
        'logical replication target relation "public.t" has neither REPLICA IDENTITY index nor PRIMARY KEY'
        " and published relation does not have REPLICA IDENTITY FULL"
    )
    assert caught.value.sqlstate == "55000"
