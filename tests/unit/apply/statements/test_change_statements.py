"""Statements are compiled once for each shape of change, and cached for a while."""

from __future__ import annotations

import pytest

from subscriber.apply.relations.target_relations import TargetRelation
from subscriber.apply.statements import change_statements
from subscriber.apply.statements.change_statements import StatementCache
from subscriber.apply.statements.identity import RowIdentity, row_identity
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.base.errors import ConflictError, TargetRelationError
from subscriber.postgres.protocol import messages as m
from subscriber.targets import TargetColumn, TargetTable
from tests.changes import T, U, delete, insert
from tests.frames import frame, relation
from tests.runs import runs

pytestmark = pytest.mark.usefixtures("tables")


def test_a_statement_is_compiled_once_for_each_shape_of_change(target):
    statements: StatementCache = {}
    changes: list[m.Message] = [
        insert("1", "x", None),
        insert("2", "y", None),
        delete("1", None, None),
        delete("2", None, None),
    ]
    for _ in range(2):
        made = frame([T], changes)
        with target.begin() as connection:
            using = ChangeWriter(target, connection, statements)
            using.open_frame(made)
            assert [list(using.write(run)) for run in runs(made)] == [[], []]
    assert [statement.sql.split()[0] for statement in statements.values()] == ["INSERT", "DELETE"]


def test_the_cache_is_emptied_when_it_is_full(target, monkeypatch):
    """bounded_memory"""
    monkeypatch.setattr(change_statements, "_MOST_STATEMENTS", 2)
    statements: StatementCache = {}
    made = frame([T, U], [insert("1", "x", None), insert("1", "u", into=2), delete("1")])
    with target.begin() as connection:
        using = ChangeWriter(target, connection, statements)
        using.open_frame(made)
        for run in runs(made):
            using.write(run)
    assert [statement.sql.split()[0] for statement in statements.values()] == ["DELETE"]


def test_an_error_of_the_driver_names_columns_and_no_values(target, execute):
    """names_are_data"""
    execute("INSERT INTO t (a) VALUES (1)")
    made = frame([T], [insert("1", "secret", None)])
    with pytest.raises(ConflictError) as raised, target.begin() as connection:
        using = ChangeWriter(target, connection, {})
        using.open_frame(made)
        using.write(runs(made)[0])
    assert "secret" not in repr(raised.value)
    assert raised.value.__cause__ is None


AB = {"a": "int4", "b": "text"}


def local(remote, *, key=None, extra=(), locators: tuple[str, ...] = ("rowid",)) -> TargetRelation:
    columns = tuple(TargetColumn(column.name, "", "BLOB") for column in remote.columns)
    table = TargetTable(None, remote.name, (*columns, *extra), key, locators=locators)
    return TargetRelation(remote, table, columns, remote.qualified_name)


def refused(relation_) -> TargetRelationError:
    with pytest.raises(TargetRelationError) as raised:
        row_identity(relation_)
    return raised.value


def test_the_local_key_finds_rows():
    """C11, C14"""
    assert row_identity(local(relation("t", AB, ["a"]), key=("a",))) == RowIdentity(("a",), whole_row=False)


def test_the_local_key_may_be_a_subset_of_the_remote_one():
    """C11"""
    assert row_identity(local(relation("t", AB, ["a", "b"]), key=("b",))).columns == ("b",)


def test_the_local_key_is_used_under_full_too():
    """C11, C13"""
    assert row_identity(local(relation("t", AB, identity="f"), key=("a",))) == RowIdentity(("a",), whole_row=False)


def test_without_a_local_key_full_compares_the_whole_row():
    """C13-C15: the target's own columns belong to it, generated columns do not."""
    extra = (TargetColumn("x", "", "BLOB"), TargetColumn("g", "", "BLOB", generated=True))
    identity = row_identity(local(relation("t", AB, identity="f"), extra=extra))
    assert identity == RowIdentity(("a", "b", "x"), whole_row=True)


@pytest.mark.parametrize(
    ("remote", "key"),
    [
        (relation("public.t", AB, ["a"]), ("b",)),
        (relation("public.t", AB, ["a"]), ("a", "b")),
        (relation("public.t", AB, identity="f"), ("x",)),
        (relation("public.t", AB, identity="n"), ("a",)),
    ],
)
def test_a_local_key_that_the_publisher_does_not_send_is_refused(remote, key):
    """C11, C12"""
    error = refused(local(remote, key=key, extra=(TargetColumn("x", "", "BLOB"),)))
    assert error.message == (
        'publisher did not send replica identity column expected by the logical replication target relation "public.t"'
    )
    assert error.sqlstate == "55000"


def test_no_local_key_and_no_full_identity_is_refused():
    """C12"""
    assert refused(local(relation("public.t", AB, ["a"]))).message == (
        'logical replication target relation "public.t" has neither REPLICA IDENTITY index nor PRIMARY KEY'
        " and published relation does not have REPLICA IDENTITY FULL"
    )
