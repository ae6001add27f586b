"""The role shapes of PostgreSQL. How a table is read is tested in test_catalog.py."""

from __future__ import annotations

import psycopg
import pytest

from subscriber.errors import TargetUnavailable
from subscriber.targets import TargetTable, UniqueIndex
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from subscriber.targets.postgresql.shapes import PostgreSQLShapes
from subscriber.targets.postgresql.transactions import PostgreSQLTransactions
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"


def shapes(server: RecordedServer) -> PostgreSQLShapes:
    errors = PostgreSQLErrors()
    return PostgreSQLShapes(errors, PostgreSQLTransactions(server.engine(URL), errors))


def test_a_table_is_read_as_a_replica_sees_it():
    """C23: as long as it is not known that the role may not be one."""
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        assert shapes(server).reflect(connection, "public", "absent") is None
    assert "CAST('RA'" in server.statements[1]


def test_an_error_of_the_driver_is_translated():
    server = RecordedServer({"pg_class": psycopg.errors.LockNotAvailable()})
    with server.engine(URL).connect() as connection, pytest.raises(TargetUnavailable, match="lock timeout"):
        shapes(server).reflect(connection, "public", "t")


def test_unique_indexes_are_read_from_the_catalog():
    row = {"name": "t_pkey", "keys": ["a"], "columns": ["a"], "predicate": None, "nulls_distinct": True}
    server = RecordedServer({"indisunique": [row]})
    with server.engine(URL).connect() as connection:
        found = shapes(server).unique_indexes(connection, TargetTable("public", "t", (), ("a",)))
    assert found == [UniqueIndex("t_pkey", ("a",))]
