"""A relation is found with its table's columns, once in a batch."""

from __future__ import annotations

import pytest

from subscriber.apply.relations.local_relations import RelationMap
from subscriber.errors import TargetRelationError
from subscriber.schema.relation_names import parse_names
from tests.frames import relation

AB = {"a": "int4", "b": "text"}


@pytest.fixture
def open_relation(target):
    def call(remote):
        with target.begin() as connection:
            return RelationMap(target, connection).open(remote)

    return call


def refused(call, remote) -> TargetRelationError:
    with pytest.raises(TargetRelationError) as raised:
        call(remote)
    assert raised.value.relation == remote.qualified_name
    return raised.value


def test_columns_match_by_name_whatever_their_order(execute, open_relation):
    """C2"""
    execute("CREATE TABLE t (extra INT, b TEXT, a INTEGER)")
    assert [column.name for column in open_relation(relation("public.t", AB)).columns] == ["a", "b"]


def test_one_missing_column_is_named(execute, open_relation):
    """C3"""
    execute("CREATE TABLE t (a INT)")
    message = refused(open_relation, relation("public.t", AB)).message
    assert message == 'logical replication target relation "public.t" is missing replicated column: "b"'


def test_missing_columns_are_named_in_remote_order_before_generated_ones(execute, open_relation):
    """C3"""
    execute("CREATE TABLE t (b TEXT, g INT GENERATED ALWAYS AS (1))")
    message = refused(open_relation, relation("public.t", {"z": "int4", "g": "int4", "b": "text", "a": "int4"})).message
    assert message == 'logical replication target relation "public.t" is missing replicated columns: "z", "a"'


@pytest.mark.parametrize("kind", ["STORED", "VIRTUAL"])
def test_generated_columns_cannot_be_written(execute, open_relation, kind):
    """C3"""
    execute(f"CREATE TABLE t (a INT, b TEXT GENERATED ALWAYS AS ('x') {kind})")
    message = refused(open_relation, relation("public.t", AB)).message
    assert message == 'logical replication target relation "public.t" has incompatible generated column: "b"'


def test_a_column_that_would_change_values_is_refused(execute, open_relation):
    """refuse_not_guess"""
    execute("CREATE TABLE t (a INT, b NUMERIC)")
    error = refused(open_relation, relation("public.t", AB))
    assert error.column == "b"
    assert str(error.detail).endswith("The publisher has (a integer, b text), the target (a INT, b NUMERIC).")


def test_a_relation_is_looked_up_once_for_each_shape(execute, target):
    """C1"""
    execute("CREATE TABLE t (a INT, b TEXT)")
    with target.begin() as connection:
        relations = RelationMap(target, connection)
        one = relations.open(relation("public.t", AB))
        assert relations.open(relation("public.t", AB)) is one
        assert relations.open(relation("public.t", {"a": "int4"})).columns != one.columns


# names of the target ------------------------------------------------------------------------------


def test_a_relation_is_found_under_the_name_that_the_map_gives_it(execute, target):
    execute("CREATE TABLE t (z INT)")
    execute('CREATE TABLE "archive.u" (a INT, b TEXT)')
    with target.begin() as connection:
        found = RelationMap(target, connection, parse_names("public.t => archive.u")).open(relation("public.t", AB))
    assert (found.table.name, found.qualified_name, found.remote.qualified_name) == (
        "archive.u",
        "archive.u",
        "public.t",
    )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("SELECT 1", 'logical replication target relation "archive.u" does not exist'),
        ('CREATE VIEW "archive.u" AS SELECT 1', 'cannot use relation "archive.u" as logical replication target'),
        (
            'CREATE TABLE "archive.u" (a INT)',
            'logical replication target relation "archive.u" is missing replicated column: "b"',
        ),
    ],
)
def test_errors_name_the_targets_relation(execute, target, made, message):
    """C3: PostgreSQL's messages name the relation that the subscriber has"""
    execute(made)
    with target.begin() as connection, pytest.raises(TargetRelationError) as raised:
        RelationMap(target, connection, parse_names("public.* => archive.*, public.t => archive.u")).open(
            relation("public.t", AB)
        )
    assert (raised.value.message, raised.value.relation) == (message, "archive.u")


# changes that are ignored -------------------------------------------------------------------------


def test_a_relation_whose_changes_are_ignored_is_looked_up_as_postgresql_does(execute, target):
    """C4: a missing column stops it; a column's type is nobody's matter, and is ours only where
    values are written
    """
    execute("CREATE TABLE t (a INT, b NUMERIC)")
    execute("CREATE TABLE u (a INT)")
    with target.begin() as connection:
        relations = RelationMap(target, connection)
        relations.look_up(relation("public.t", AB))
        with pytest.raises(TargetRelationError, match=r'"public\.u" is missing replicated column: "b"'):
            relations.look_up(relation("public.u", AB))
        with pytest.raises(TargetRelationError, match="cannot hold type text"):
            relations.open(relation("public.t", AB))


def test_a_relation_whose_changes_are_ignored_gets_no_columns(execute, target):
    execute("CREATE TABLE t (a INT)")
    with target.begin() as connection:
        RelationMap(target, connection, add_columns=True).look_up(relation("public.t", AB))
    assert execute("SELECT name FROM pragma_table_info('t')") == [("a",)]


def test_a_table_of_the_catalog_cannot_be_a_target(execute, target, open_relation):
    """B1: that of a publisher which is a target, too, comes with FOR ALL TABLES; it is ignored, and
    never written
    """
    remote = relation("public.subscriber_subscription", {"subid": "int4", "anything": "text"})
    error = refused(open_relation, remote)
    assert (error.sqlstate, "catalog tables" in str(error.detail)) == ("42809", True)
    execute('CREATE TABLE "archive.mine" (subid INT, anything TEXT)')
    with target.begin() as connection:
        RelationMap(target, connection).look_up(remote)
        mapped = RelationMap(target, connection, parse_names("public.subscriber_subscription => archive.mine"))
        assert mapped.open(remote).qualified_name == "archive.mine"
