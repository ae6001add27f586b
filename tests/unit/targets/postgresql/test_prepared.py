"""The statements of prepared transactions. tests/targets/test_prepared.py executes them."""

from __future__ import annotations

import psycopg
import pytest

from subscriber.errors import ApplyError, ConflictError, SubscriberError
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from subscriber.targets.postgresql.origins import PostgreSQLOrigins
from subscriber.targets.postgresql.prepared import PostgreSQLPrepared
from subscriber.targets.postgresql.transactions import PostgreSQLTransactions
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"


class _Transactions(PostgreSQLTransactions):
    """Transactions without the settings of a replica."""

    def session_id(self, connection):
        del connection

    def apply_as_replica(self, connection):
        del connection


def prepared(server: RecordedServer) -> PostgreSQLPrepared:
    engine, errors = server.engine(URL), PostgreSQLErrors()
    return PostgreSQLPrepared(engine, errors, _Transactions(engine, errors), PostgreSQLOrigins(engine, errors))


def test_a_transaction_is_prepared_when_its_block_ends():
    """names_are_data"""
    server = RecordedServer()
    with prepared(server).begin("g'1") as connection:
        connection.exec_driver_sql("INSERT …")
    assert server.statements[1:3] == ["INSERT …", "PREPARE TRANSACTION 'g''1'"]


def test_a_transaction_is_rolled_back_when_its_block_raises():
    server = RecordedServer()
    with pytest.raises(InterruptedError), prepared(server).begin("g"):
        raise InterruptedError
    assert server.statements == ["CONNECT", "ROLLBACK"]


@pytest.mark.parametrize(
    ("answers", "error", "sqlstate", "message"),
    [
        (
            {"PREPARE TRANSACTION": psycopg.errors.ObjectNotInPrerequisiteState()},
            ApplyError, "55000", "prepared transactions are disabled",
        ),
        (
            {"PREPARE TRANSACTION": psycopg.errors.DuplicateObject()},
            ApplyError, "42710", 'transaction identifier "g" is already in use',
        ),
        (
            {"INSERT": psycopg.errors.UniqueViolation()},
            ConflictError, "23505", 'duplicate key value violates unique constraint "None"',
        ),
    ],
    ids=["disabled", "in use", "a change is refused"],
)  # fmt: skip
def test_an_error_of_prepare_has_the_apply_workers_text(answers, error, sqlstate, message):
    """C50, C52"""
    with pytest.raises(SubscriberError) as raised, prepared(RecordedServer(answers)).begin("g") as connection:
        connection.exec_driver_sql("INSERT …")
    assert type(raised.value) is error
    assert (raised.value.sqlstate, raised.value.message) == (sqlstate, message)


@pytest.mark.parametrize(("commit", "command"), [(True, "COMMIT"), (False, "ROLLBACK")])
def test_another_session_finishes_the_transaction(commit, command):
    server = RecordedServer()
    prepared(server).finish("g", commit=commit)
    assert server.statements[:2] == ["CONNECT", f"{command} PREPARED 'g'"]


def test_the_session_that_finishes_it_has_the_origin():
    """C32"""
    server = RecordedServer(
        {
            "FROM pg_database": [{"oid": "5"}],
            "session_setup": [{"pg_replication_origin_session_setup": "", "number": 1, "tracked": False}],
        }
    )
    prepared(server).finish("g", commit=True, origin="pg_1")
    *_, set_up, commit, _ = server.statements
    assert "session_setup" in set_up and "'subscriber_5_pg_1'" in set_up
    assert commit == "COMMIT PREPARED 'g'"


def test_a_transaction_that_does_not_exist_cannot_be_finished():
    """C50"""
    server = RecordedServer({"COMMIT PREPARED": psycopg.errors.UndefinedObject()})
    with pytest.raises(ApplyError) as raised:
        prepared(server).finish("g", commit=True)
    assert (raised.value.sqlstate, raised.value.message) == (
        "42704",
        'prepared transaction with identifier "g" does not exist',
    )


@pytest.mark.parametrize(("database", "gid"), [(None, "g"), ("db", "g_db")], ids=["free", "taken elsewhere"])
def test_a_gid_that_another_database_has_taken_is_extended(database, gid):
    """GIDs belong to the cluster."""
    server = RecordedServer({"pg_prepared_xacts": [{"max": database}]})
    with server.engine(URL).connect() as connection:
        assert prepared(server).free_gid(connection, "g") == gid


def test_the_names_are_those_of_this_database():
    server = RecordedServer({"pg_prepared_xacts": [{"gid": "g"}, {"gid": "h"}]})
    with server.engine(URL).connect() as connection:
        assert prepared(server).names(connection) == {"g", "h"}
    assert server.statements[1].endswith("WHERE database = current_database()")
