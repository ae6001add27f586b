"""Rows that another origin wrote last. How PostgreSQL reports origins is in
tests/conformance/test_origins.py; here a column tells who wrote a row.
"""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.apply.conflicts.conflict import Conflict, SearchKey
from subscriber.apply.conflicts.row_conflicts import OriginProbe, find_rows_of_others, without_values
from subscriber.apply.relations.target_relations import RelationMap
from subscriber.apply.statements.identity import row_identity
from subscriber.catalog.own_tables import ConflictKind
from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target
from tests.changes import delete, update
from tests.conflicts import AT
from tests.frames import frame, relation, values

T = relation("public.t", {"a": "int4", "b": "text"}, ["a"])
FULL = relation("public.f", {"a": "int4", "b": "text"}, identity="f", oid=2)
BY_OTHERS: sa.ColumnElement[bool] = sa.literal_column("writer = 'other'", sa.Boolean())


@pytest.fixture(autouse=True)
def tables(execute) -> None:
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, writer TEXT)")
    execute("CREATE TABLE f (a INTEGER, b TEXT)")


def found(
    target: Target, shape: m.Relation, *changes: Any, differs: sa.ColumnElement[bool] = BY_OTHERS
) -> list[Conflict]:
    """The conflicts; a probe agrees with them."""
    (group,) = frame([shape], changes).groups
    with target.begin() as connection:
        local = RelationMap(target, connection).open(shape)
        identity = row_identity(local)
        conflicts = list(find_rows_of_others(target, connection, local, group, identity, AT, differs))
        probe = OriginProbe(target, connection, {}, differs)
        assert probe.finds(local, group, identity) == bool(conflicts)
        return conflicts


def test_a_row_of_another_origin_is_reported_before_it_is_updated(target, execute):
    """C20, C21"""
    execute("INSERT INTO t VALUES (1, 'there', 'other'), (2, 'there', 'me')")
    changes = [update((key, "new")) for key in ("1", "2", "3")]
    assert found(target, T, *changes) == [
        Conflict(
            ConflictKind.UPDATE_ORIGIN_DIFFERS,
            "public.t",
            AT,
            search=SearchKey(("a",), ("1",)),
            remote_row=("1", "new", None),
            local_row=("1", "there", "other"),
            columns=("a", "b", "writer"),
        )
    ]
    assert execute("SELECT b FROM t WHERE a = 1") == [("there",)], "the row is changed later"


def test_a_row_of_another_origin_is_reported_before_it_is_deleted(target, execute):
    execute("INSERT INTO t VALUES (1, 'there', 'other')")
    (conflict,) = found(target, T, delete("1", None))
    assert (conflict.kind, conflict.remote_row) == (ConflictKind.DELETE_ORIGIN_DIFFERS, None)
    assert conflict.local_row == ("1", "there", "other")


@pytest.mark.parametrize("at", [0, 1, 10, 11, 100, 249])
def test_one_row_among_many_is_found(target, execute, at):
    """Probes of different sizes share the cached statements."""
    execute("INSERT INTO t VALUES " + ", ".join(f"({n}, 'x', '{'other' if n == at else 'me'}')" for n in range(250)))
    statements: dict[Any, Any] = {}
    for size in (at + 1, 250):
        group = frame([T], [delete(str(number), None) for number in range(size)]).groups[0]
        with target.begin() as connection:
            local = RelationMap(target, connection).open(T)
            probe = OriginProbe(target, connection, statements, BY_OTHERS)
            assert probe.finds(local, group, row_identity(local))
            if at:
                assert not probe.finds(local, group.slice(0, at), row_identity(local))
    assert len(statements) <= 3


def test_more_changes_than_one_query_searches_are_all_searched(target, execute):
    numbers = range(250)
    execute("INSERT INTO t VALUES " + ", ".join(f"({number}, 'x', 'other')" for number in numbers))
    conflicts = found(target, T, *(delete(str(number), None) for number in numbers))
    assert sorted(int(str((one.local_row or ())[0])) for one in conflicts) == list(numbers)


def test_of_several_equal_rows_one_is_reported_for_each_change(target, execute):
    """C16"""
    execute("INSERT INTO f VALUES (1, 'x'), (1, 'x'), (2, 'x')")
    changes = [m.Delete(2, "O", values("1", "x"))] * 2
    conflicts = found(target, FULL, *changes, differs=sa.true())
    assert [one.search for one in conflicts] == [SearchKey((), ("1", "x"), ("a", "b"))] * 2


def test_only_names_are_left_without_values():
    conflict = Conflict(
        ConflictKind.UPDATE_ORIGIN_DIFFERS,
        "public.t",
        AT,
        search=SearchKey(("a",), ("1",)),
        remote_row=("1", "new"),
        local_row=("1", "there"),
    )
    assert without_values(conflict) == Conflict(
        ConflictKind.UPDATE_ORIGIN_DIFFERS, "public.t", AT, search=SearchKey(("a",))
    )
