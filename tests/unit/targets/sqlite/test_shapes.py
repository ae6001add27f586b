"""Where SQLite looks for a table. What is read of it is tested in test_catalog.py."""

from __future__ import annotations

import pytest

from subscriber.errors import TargetUnavailable
from tests.unit.targets.tables import execute, reflected


@pytest.mark.parametrize("name", ["T", "absent"])
def test_names_are_compared_exactly(target, name):
    """C1: SQLite ignores their case."""
    execute(target, "CREATE TABLE t (a)")
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, "public", name) is None


def test_a_table_of_another_schema_has_the_schema_in_its_name(target):
    """C1"""
    execute(target, 'CREATE TABLE "s.t" (a)')
    assert (reflected(target, "t", "s").schema, reflected(target, "t", "s").name) == ("main", "s.t")


def test_a_table_of_another_schema_may_be_in_an_attached_database(target, tmp_path):
    """C1"""
    with target.engine.connect() as connection:
        connection.rollback()
        connection.connection.driver_connection.execute(f"ATTACH '{tmp_path / 's.db'}' AS s")
        connection.exec_driver_sql("CREATE TABLE s.t (a)")
        found = target.shapes.reflect(connection, "s", "t")
        assert (found.schema, found.name) == ("s", "t")
        connection.exec_driver_sql('CREATE TABLE "s.t" (a)')
        found = target.shapes.reflect(connection, "s", "t")
        assert (found.schema, found.name) == ("main", "s.t")


def test_an_error_of_the_driver_is_translated(target, tmp_path):
    execute(target, "CREATE TABLE t (a)")
    with target.engine.connect() as connection, pytest.raises(TargetUnavailable, match="SQLITE_INTERRUPT"):
        driver = connection.connection.driver_connection
        driver.set_progress_handler(lambda: 1, 1)
        try:
            target.shapes.reflect(connection, "public", "t")
        finally:
            driver.set_progress_handler(None, 0)
