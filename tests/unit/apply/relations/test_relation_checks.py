"""What is checked of a relation beyond its columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from subscriber.apply.relations.local_relations import LocalRelation, RelationMap
from subscriber.apply.relations.relation_checks import check_binary, check_required, with_shapes
from subscriber.errors import ConflictError, SubscriberError, TargetRelationError, UnsupportedValue
from subscriber.protocol import messages as m
from tests.changes import T, insert, update
from tests.frames import frame, relation

R = relation("public.r", {"a": "int4", "b": "text"}, ["a"])


@pytest.fixture
def local(target, execute) -> Callable[[str], LocalRelation]:
    def call(columns: str) -> LocalRelation:
        execute(f"CREATE TABLE r ({columns})")
        with target.begin() as connection:
            return RelationMap(target, connection).open(R)

    return call


@pytest.mark.parametrize("column", ["own TEXT", "own TEXT NOT NULL DEFAULT 'x'", "own TEXT NOT NULL AS ('x') STORED"])
def test_a_column_that_needs_no_value_is_allowed(local, column):
    check_required(local(f"a INTEGER PRIMARY KEY, b TEXT, {column}"))


def test_a_column_that_needs_a_value_is_refused(local):
    with pytest.raises(TargetRelationError, match='requires a value for column: "own"') as raised:
        check_required(local("a INTEGER PRIMARY KEY, b TEXT, own TEXT NOT NULL"))
    assert raised.value.sqlstate == "23502"
    assert "The publisher has (a integer, b text)" in str(raised.value.detail)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (insert("1", "x", None), True),
        (insert("1", None, None), False),
        (update(("1", m.UNCHANGED, None)), False),
        (update(("1", None, None), old=("1", "x", None)), True),
    ],
    ids=["a value", "NULL", "not sent", "a value of the old row"],
)
def test_a_binary_value_is_refused_where_the_type_cannot_read_it(target, tables, monkeypatch, change, refused):
    """C5"""
    error = UnsupportedValue("incorrect binary data format", column="b")
    monkeypatch.setattr(target.values, "refused_binary", lambda oid, column, number=0: error if number == 2 else None)
    with target.begin() as connection:
        local = RelationMap(target, connection).open(T)
    (group,) = frame([T], [change], binary=("b",)).groups
    if not refused:
        check_binary(target, local, group)
        return
    with pytest.raises(UnsupportedValue, match="incorrect binary data format"):
        check_binary(target, local, group)


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (
            ConflictError("null value", sqlstate="23502", detail="Failing row."),
            "Failing row. The publisher has (a integer, b text), the target (a INTEGER, b TEXT).",
        ),
        (
            UnsupportedValue("too long", column="b"),
            'Column "b" of table "public.r" has type text at the publisher and TEXT in the target.',
        ),
        (ConflictError("duplicate key", sqlstate="23505", detail="Key (a)."), "Key (a)."),
    ],
    ids=["NOT NULL", "a value", "another error"],
)
def test_an_error_shows_the_types_where_they_may_have_caused_it(local, error: SubscriberError, detail):
    assert with_shapes(error, local("a INTEGER PRIMARY KEY, b TEXT")).detail == detail


def test_an_error_about_a_value_says_what_to_do(local):
    table = local("a INTEGER PRIMARY KEY, b TEXT")
    said = with_shapes(UnsupportedValue("NaN", column="b"), table).hint
    assert said is not None and "unrepresentable_values" in said
    assert with_shapes(UnsupportedValue("NaN", column="b", hint="Do this."), table).hint == "Do this."
