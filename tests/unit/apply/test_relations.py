from __future__ import annotations

import pytest

from subscriber.apply.relations import RelationMap
from subscriber.errors import TargetRelationError
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


def test_a_missing_table_is_named(open_relation):
    """C3"""
    error = refused(open_relation, relation("public.t", AB))
    assert error.message == 'logical replication target relation "public.t" does not exist'
    assert error.sqlstate == "55000"


def test_a_table_of_another_spelling_is_another_table(execute, open_relation):
    """C1: exact names, though SQLite itself would find it"""
    execute('CREATE TABLE "T" (a INT, b TEXT)')
    assert "does not exist" in refused(open_relation, relation("public.t", AB)).message


def test_a_view_cannot_be_a_target(execute, open_relation):
    """C3"""
    execute("CREATE VIEW t AS SELECT 1 AS a, '' AS b")
    error = refused(open_relation, relation("public.t", AB))
    assert error.message == 'cannot use relation "public.t" as logical replication target'
    assert error.detail == "This operation is not supported for views."


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
    assert refused(open_relation, relation("public.t", AB)).column == "b"


def test_a_relation_is_looked_up_once_for_each_shape(execute, target):
    """C1"""
    execute("CREATE TABLE t (a INT, b TEXT)")
    with target.begin() as connection:
        relations = RelationMap(target, connection)
        one = relations.open(relation("public.t", AB))
        assert relations.open(relation("public.t", AB)) is one
        assert relations.open(relation("public.t", {"a": "int4"})).columns != one.columns


def test_another_schema_is_a_dotted_name_or_an_attached_database(execute, target, open_relation, tmp_path):
    execute('CREATE TABLE "sales.t" (a INT, b TEXT)')
    assert open_relation(relation("sales.t", AB)).table.name == "sales.t"
    with target.engine.connect() as connection:
        connection.exec_driver_sql("SELECT 1")
        connection.rollback()
        connection.connection.driver_connection.execute(f"ATTACH '{tmp_path / 'other.db'}' AS archive")
        connection.exec_driver_sql("CREATE TABLE archive.t (a INT, b TEXT)")
        found = RelationMap(target, connection).open(relation("archive.t", AB)).table
        assert (found.schema, found.name) == ("archive", "t")
        connection.rollback()


def test_the_publishers_schema_main_is_not_the_database_itself(execute, open_relation):
    execute("CREATE TABLE t (a INT, b TEXT)")
    assert "does not exist" in refused(open_relation, relation("main.t", AB)).message
