from __future__ import annotations

import pytest

from subscriber.apply.relations.local_relations import LocalRelation
from subscriber.apply.statements.identity import RowIdentity, row_identity
from subscriber.errors import TargetRelationError
from subscriber.targets import TargetColumn, TargetTable
from tests.frames import relation

AB = {"a": "int4", "b": "text"}


def local(remote, *, key=None, extra=(), locators: tuple[str, ...] = ("rowid",)) -> LocalRelation:
    columns = tuple(TargetColumn(column.name, "", "BLOB") for column in remote.columns)
    table = TargetTable(None, remote.name, (*columns, *extra), key, locators=locators)
    return LocalRelation(remote, table, columns, remote.qualified_name)


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
