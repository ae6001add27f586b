"""Statements that write to PostgreSQL. tests/targets/test_writing.py executes them."""

from __future__ import annotations

import psycopg
import pytest

from subscriber.errors import SubscriberError
from subscriber.targets import TargetTable
from subscriber.targets.postgresql.catalog import PostgreSQLTable
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from subscriber.targets.postgresql.writing import PostgreSQLWriting
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"
WRITING = PostgreSQLWriting(PostgreSQLErrors())
TABLES = [
    TargetTable("s.x", "t", (), None),
    TargetTable("public", "P", (), None, "partitioned table"),
]


def truncate(*tables: TargetTable, restart_identity: bool) -> list[str]:
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        WRITING.truncate(connection, tables, restart_identity=restart_identity)
    return [statement for statement in server.statements if statement not in ("CONNECT", "ROLLBACK")]


@pytest.mark.parametrize(("restart", "identity"), [(True, "RESTART IDENTITY"), (False, "CONTINUE IDENTITY")])
def test_all_tables_are_truncated_at_once(restart, identity):
    """C29, C30: partitions are truncated, tables that inherit are not."""
    assert truncate(*TABLES, restart_identity=restart) == [f'TRUNCATE ONLY "s.x".t, public."P" {identity} RESTRICT']


def test_nothing_is_truncated_without_tables():
    assert truncate(restart_identity=True) == []


def test_an_error_of_the_driver_is_translated():
    """C30"""
    server = RecordedServer({"TRUNCATE": psycopg.errors.FeatureNotSupported("cannot truncate")})
    with server.engine(URL).connect() as connection, pytest.raises(SubscriberError) as raised:
        WRITING.truncate(connection, TABLES, restart_identity=False)
    assert raised.value.sqlstate == "0A000"


@pytest.mark.parametrize(
    ("insert", "overriding"),
    [
        (
            "INSERT INTO t (a, b) VALUES (%s, %s)",
            "INSERT INTO t (a, b) OVERRIDING SYSTEM VALUE VALUES (%s, %s)",
        ),
        (
            'INSERT INTO t ("a VALUES (") VALUES (%s)',
            'INSERT INTO t ("a VALUES (") OVERRIDING SYSTEM VALUE VALUES (%s)',
        ),
        ("INSERT INTO t DEFAULT VALUES", "INSERT INTO t DEFAULT VALUES"),
    ],
    ids=["columns", "a column's name", "no columns"],
)
def test_an_insert_also_writes_identity_columns(insert, overriding):
    """C7, names_are_data"""
    assert WRITING.override_identity(insert) == overriding


@pytest.mark.parametrize(
    ("table", "may"),
    [
        (PostgreSQLTable("public", "t", (), None, may_suppress=True), True),
        (PostgreSQLTable("public", "t", (), None), False),
        (TargetTable("public", "t", (), None), False),
    ],
)
def test_a_before_trigger_may_suppress_a_change(table, may):
    assert WRITING.may_suppress(table) is may


@pytest.mark.parametrize("rows", [[], [{"relname": "t", "is_same": True}], [{"relname": "u", "is_same": False}]])
def test_a_delete_acts_on_other_rows_by_a_foreign_key_of_its_own_or_another_table(rows):
    server = RecordedServer({"confdeltype": rows})
    with server.engine(URL).connect() as connection:
        assert WRITING.delete_acts(connection, TABLES[1]) is bool(rows)
