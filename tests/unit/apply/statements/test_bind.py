"""Values become parameters column by column, and each kind of absence keeps its meaning."""

from __future__ import annotations

import pytest

from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.statements.execute import bind_column, bind_rows, bulk_columns
from subscriber.apply.statements.identity import row_identity
from subscriber.apply.statements.row_statements import CompiledStatement, Parameter, build_statement
from subscriber.base.errors import ConflictError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import ChangeGroup
from tests.changes import T, delete, insert, update
from tests.frames import frame


@pytest.fixture
def local(target, tables) -> TargetRelation:
    with target.begin() as connection:
        return RelationMap(target, connection).open(T)


def group_of(*changes: m.Message) -> ChangeGroup:
    (group,) = frame([T], changes).groups
    return group


def statement_of(target, local: TargetRelation, group: ChangeGroup) -> CompiledStatement:
    return build_statement(target, local, group, None if group.action == "I" else row_identity(local))


def test_each_change_has_a_row_of_parameters(target, local):
    """They are in the order of the table's columns: a, c, b."""
    group = group_of(insert("1", "x", None), insert("2", None, "y"))
    assert bind_rows(target, statement_of(target, local, group), group) == [(1, None, "x"), (2, "y", None)]


def test_a_statement_without_parameters_is_executed_for_each_change_too(target):
    group = group_of(insert("1", "x", None), insert("2", None, "y"))
    assert bind_rows(target, CompiledStatement("DELETE FROM t", (), None), group) == [(), ()]


def test_parameters_may_have_names(target, local):
    group = group_of(delete("7", None, None))
    statement = statement_of(target, local, group)
    named = CompiledStatement(statement.sql, statement.parameters, ("p0",))
    assert bind_rows(target, named, group) == [{"p0": 7}]


def test_a_null_that_was_not_sent_is_bound_as_null(target, local):
    """C6"""
    group = group_of(insert("1", "x", "y"), insert("2", "x", "y"))
    parameter = Parameter(None, local.columns[1], 25)
    assert bind_column(target, parameter, group) == [None, None]
    (column,) = bulk_columns([parameter], group)
    assert (column.values.to_pylist(), column.type_oid) == ([None, None], 25)


@pytest.mark.parametrize(("side", "expected"), [("old", "1"), ("new", "5")])
def test_old_and_new_values_are_different_parameters(local, side, expected):
    group = group_of(update(("5", "x", None), key=("1", None, None)))
    (column,) = bulk_columns([Parameter(side, local.columns[0], 23)], group)
    assert str(column.values[0]) == expected


def test_a_null_for_a_column_that_would_get_a_generated_value_is_refused(target, local):
    """absence_is_typed: SQLite would generate a key."""
    group = group_of(insert(None, "x", None))
    statement = statement_of(target, local, group)
    for bound in (lambda: bind_rows(target, statement, group), lambda: bulk_columns(statement.written, group)):
        with pytest.raises(ConflictError, match='null value in column "a"') as raised:
            bound()
        assert (raised.value.sqlstate, raised.value.column) == ("23502", "a")
