"""The conditions that find a row, as PostgreSQL's SQL."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from subscriber.targets import LeafRouting, TargetColumn, TargetTable
from subscriber.targets.postgresql.catalog import PostgreSQLColumn, PostgreSQLTable
from subscriber.targets.postgresql.matching import PostgreSQLMatching
from subscriber.types.equality import EXACT, NONE

MATCHING = PostgreSQLMatching()
TEXT = PostgreSQLColumn("a", "text", "text")
ROUNDED = PostgreSQLColumn("a", "numeric(5,2)", "numeric", compared_as="numeric(5,2)")
CITEXT = PostgreSQLColumn("a", "ext.citext", "ext.citext", compared_as="ext.citext", own_operator="ext.=")
ODD = PostgreSQLColumn("a", '"100%"', '"100%"', compared_as='"100%"')
VALUE = sa.literal("x")


def sql(statement: sa.ClauseElement) -> str:
    compiled = statement.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
    return " ".join(str(compiled).split())


def table(column: TargetColumn = TEXT, kind="table", routing=None) -> PostgreSQLTable:
    return PostgreSQLTable("public", "t", (column,), ("a",), kind, routing=routing)


def clause(column: TargetColumn) -> sa.ColumnElement[str]:
    return table(column).clause().c.a


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (TEXT, "public.t.a = 'x'"),
        (TargetColumn("a", "text", "text"), "public.t.a = 'x'"),
        (ROUNDED, "public.t.a = CAST('x' AS numeric(5,2))"),
        (CITEXT, "public.t.a OPERATOR(ext.=) CAST('x' AS ext.citext)"),
        (ODD, "public.t.a = CAST('x' AS \"100%%\")"),
    ],
    ids=["text", "no column of PostgreSQL", "rounded", "own operator", "percent sign"],
)
def test_a_key_is_compared_by_the_operator_of_its_type(column, condition):
    """C8, C23: the value is rounded as the column would store it. The operator of an extension is
    written with its schema, because the search_path is empty. The driver reads %% as %.
    """
    assert sql(MATCHING.equals(column, clause(column), VALUE)) == condition
    assert sql(MATCHING.finds(column, clause(column), VALUE)) == condition


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (TEXT, "public.t.a IS NOT DISTINCT FROM 'x'"),
        (ROUNDED, "public.t.a IS NOT DISTINCT FROM CAST('x' AS numeric(5,2))"),
        (
            CITEXT,
            "CAST(row(CAST(public.t.a AS ext.citext)) AS record) = CAST(row(CAST('x' AS ext.citext)) AS record)",
        ),
    ],
    ids=["text", "rounded", "own operator"],
)
def test_in_a_whole_row_null_equals_null(column, condition):
    """C14: records are compared by the equality of their types, in any schema."""
    assert sql(MATCHING.is_same(column, clause(column), VALUE)) == condition


@pytest.mark.parametrize(
    ("storage", "equality"),
    [("text", EXACT), ("numeric", EXACT), ("jsonb", EXACT), ("json", NONE), ("xml", NONE), ("point", NONE), ("mood", EXACT)],
)  # fmt: skip
def test_the_equality_is_that_of_the_columns_type(storage, equality):
    """C17: the publisher's type does not matter."""
    assert MATCHING.equality(114, PostgreSQLColumn("a", storage, storage)) == equality


def test_every_column_that_was_sent_is_in_set():
    """C23: a trigger with UPDATE OF a key column fires."""
    assert not MATCHING.found_as_written(25, table(), TEXT)


@pytest.mark.parametrize(
    ("kind", "only"), [("table", "ONLY public.t"), ("partitioned table", "public.t")], ids=["table", "partitioned"]
)
def test_a_statement_affects_no_tables_that_inherit(kind, only):
    of = table(kind=kind)
    t = of.clause()
    assert sql(MATCHING.own_rows(of, sa.delete(t), t)) == f"DELETE FROM {only}"
    assert sql(MATCHING.own_rows(of, sa.update(t).values(a=VALUE), t)) == f"UPDATE {only} SET a='x'"
    assert sql(MATCHING.own_rows(of, sa.select(t.c.a), t)) == f"SELECT public.t.a FROM {only}"


def test_a_row_is_looked_for_in_its_partition_if_only_partitions_have_keys():
    """C26"""
    routing = LeafRouting("tableoid", "CASE WHEN true THEN 1 END", ("a",))
    assert MATCHING.routing(table(kind="partitioned table", routing=routing)) is routing
    assert MATCHING.routing(table()) is None
    assert MATCHING.routing(TargetTable("public", "t", (), None)) is None
