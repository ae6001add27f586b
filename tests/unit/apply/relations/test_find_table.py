"""The target's table of a relation is found by its exact name, or the error says why it cannot be
used.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from subscriber.apply.relations.find_table import find_table
from subscriber.errors import TargetRelationError
from subscriber.schema.relation_names import SAME_NAMES, parse_names
from subscriber.targets import TargetTable
from tests.frames import relation

AB = {"a": "int4", "b": "text"}


@pytest.fixture
def find(target) -> Callable[..., TargetTable]:
    def call(name: str, rules: str | None = None) -> TargetTable:
        names = SAME_NAMES if rules is None else parse_names(rules)
        with target.begin() as connection:
            return find_table(target, connection, names, relation(name, AB))

    return call


def refused(find: Callable[..., TargetTable], name: str) -> TargetRelationError:
    with pytest.raises(TargetRelationError) as raised:
        find(name)
    return raised.value


def test_a_missing_table_is_named(find):
    """C3"""
    error = refused(find, "public.t")
    assert error.message == 'logical replication target relation "public.t" does not exist'
    assert error.sqlstate == "55000"


def test_a_table_of_another_spelling_is_another_table(execute, find):
    """C1: names are compared exactly, although SQLite ignores case."""
    execute('CREATE TABLE "T" (a INT, b TEXT)')
    assert "does not exist" in refused(find, "public.t").message


def test_a_view_cannot_be_a_target(execute, find):
    """C3"""
    execute("CREATE VIEW t AS SELECT 1 AS a, '' AS b")
    error = refused(find, "public.t")
    assert error.message == 'cannot use relation "public.t" as logical replication target'
    assert error.detail == "This operation is not supported for views."


def test_another_schema_is_a_dotted_name_or_an_attached_database(execute, target, find, tmp_path):
    execute('CREATE TABLE "sales.t" (a INT, b TEXT)')
    assert find("sales.t").name == "sales.t"
    with target.engine.connect() as connection:
        connection.exec_driver_sql("SELECT 1")
        connection.rollback()
        connection.connection.driver_connection.execute(f"ATTACH '{tmp_path / 'other.db'}' AS archive")
        connection.exec_driver_sql("CREATE TABLE archive.t (a INT, b TEXT)")
        found = find_table(target, connection, SAME_NAMES, relation("archive.t", AB))
        assert (found.schema, found.name) == ("archive", "t")
        connection.rollback()


def test_the_publishers_schema_main_is_not_the_database_itself(execute, find):
    execute("CREATE TABLE t (a INT, b TEXT)")
    assert "does not exist" in refused(find, "main.t").message


def test_a_table_is_found_under_the_name_that_the_map_gives_it(execute, find):
    execute('CREATE TABLE "archive.u" (a INT, b TEXT)')
    assert find("public.t", "public.t => archive.u").name == "archive.u"


def test_a_table_of_the_catalog_is_never_found(find):
    """B1: a publisher that is a target, too, has such tables"""
    error = refused(find, "public.subscriber_subscription")
    assert (error.sqlstate, "catalog tables" in str(error.detail)) == ("42809", True)
