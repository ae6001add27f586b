"""A database of which only SQLAlchemy's dialect is known: nothing is built, and that is said."""

from __future__ import annotations

import pytest

from subscriber.postgres.schema.shape import IndexKey, IndexShape
from subscriber.targets.table_changes import CannotBuild, FoundObjects, NewDefault, NewIndex
from tests.unit.targets.tables import execute, reflected


def test_nothing_is_known_and_nothing_is_built(target):
    execute(target, "CREATE TABLE t (a INTEGER)")
    table = reflected(target, "t")
    with target.objects.building() as connection:
        assert target.objects.find(connection, [table]) == [FoundObjects()]
        assert not target.objects.exists(connection, "public", "t")
        with pytest.raises(CannotBuild, match="how the target declares index is not known"):
            target.objects.statements(
                connection, table, NewIndex(IndexShape(name="i", keys=(IndexKey("a"),)), "i", ("a",))
            )
        target.objects.check(connection, table)
        assert target.objects.functions(connection) == {}
        assert target.objects.shown(connection, table, NewDefault("a", "1")) == "1"
        assert target.objects.same_constant(connection, table.columns[0], "1", "1")
        with pytest.raises(CannotBuild, match="how the target declares default is not known"):
            target.objects.removal(table, NewDefault("a", "1"), "a")


def test_what_is_not_known_in_an_expression_is_named(target):
    execute(target, "CREATE TABLE t (a TEXT)")
    columns = {"a": (25, reflected(target, "t").columns[0])}
    with pytest.raises(CannotBuild, match="function lower is not known to mean the same in the target"):
        target.objects.expression("lower(a)", columns)
    assert target.objects.expression("lower(a)", columns, loose=True) == "lower(a)"
    assert target.objects.default("now()", 1184, columns["a"][1]) is None
