"""The statements of XA transactions. tests/targets/test_prepared.py executes them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest
from pymysql.err import OperationalError

from subscriber.errors import ApplyError, ConflictError, SubscriberError, TargetUnavailable
from subscriber.targets.mariadb.counters import CounterRestarts
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.prepared import MariaDBPrepared
from subscriber.targets.mariadb.transactions import MariaDBTransactions
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"
XID = f"X'{b'g'.hex()}',X'{b'db'.hex()}'"
UNKNOWN = OperationalError(1397, "XAER_NOTA: Unknown XID")


def prepared(server: RecordedServer, database: str = "db") -> MariaDBPrepared:
    engine, errors = server.engine(URL), MariaDBErrors()
    return MariaDBPrepared(
        engine, errors, MariaDBTransactions(engine, errors, CounterRestarts(engine, errors)), database
    )


def recovered(*names: tuple[str, str]) -> Sequence[dict[str, Any]]:
    """The rows of XA RECOVER, for the two parts of each name."""
    return [
        {"formatID": 1, "gtrid_length": len(gid), "bqual_length": len(database), "data": (gid + database).encode()}
        for gid, database in names
    ]


def test_a_transaction_is_prepared_when_its_block_ends():
    server = RecordedServer()
    with prepared(server).begin("g") as connection:
        connection.exec_driver_sql("INSERT …")
    assert server.statements == [
        "CONNECT", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", f"XA START {XID}", "INSERT …", f"XA END {XID}", f"XA PREPARE {XID}", "CLOSE",
    ]  # fmt: skip


def test_a_transaction_is_rolled_back_when_its_block_raises():
    server = RecordedServer()
    with pytest.raises(InterruptedError), prepared(server).begin("g"):
        raise InterruptedError
    assert server.statements[-3:] == [f"XA END {XID}", f"XA ROLLBACK {XID}", "CLOSE"]


def test_a_rollback_that_fails_does_not_hide_the_error():
    server = RecordedServer({"XA END": OperationalError(2013, "Lost connection"), "XA ROLLBACK": UNKNOWN})
    with pytest.raises(InterruptedError), prepared(server).begin("g"):
        raise InterruptedError


@pytest.mark.parametrize(
    ("answers", "error", "sqlstate", "message"),
    [
        ({"XA START": OperationalError(1440, "XAER_DUPID")}, ApplyError, "42710", 'transaction identifier "g" is already in use'),
        ({"INSERT": OperationalError(1062, "for key 'u'")}, ConflictError, "23505", 'duplicate key value violates unique constraint "u"'),
        ({"XA PREPARE": OperationalError(1213, "Deadlock")}, TargetUnavailable, "08006", "MariaDB is not available (error 1213, LOCK_DEADLOCK)"),
    ],
    ids=["the name is in use", "a change is refused", "a deadlock"],
)  # fmt: skip
def test_an_error_has_postgresqls_text_if_postgresql_has_the_error(answers, error, sqlstate, message):
    """C50"""
    with pytest.raises(SubscriberError) as raised, prepared(RecordedServer(answers)).begin("g") as connection:
        connection.exec_driver_sql("INSERT …")
    assert type(raised.value) is error
    assert (raised.value.sqlstate, raised.value.message) == (sqlstate, message)


@pytest.mark.parametrize(("commit", "command"), [(True, "XA COMMIT"), (False, "XA ROLLBACK")])
def test_another_session_finishes_the_transaction(commit, command):
    server = RecordedServer()
    prepared(server).finish("g", commit=commit, origin="pg_1")
    assert server.statements[:2] == ["CONNECT", f"{command} {XID}"]


def test_a_transaction_that_does_not_exist_cannot_be_finished():
    """C50"""
    server = RecordedServer({"XA COMMIT": UNKNOWN, "XA RECOVER": recovered(("other", "db"))})
    with pytest.raises(ApplyError) as raised:
        prepared(server).finish("g", commit=True)
    assert raised.value.message == 'prepared transaction with identifier "g" does not exist'
    assert raised.value.sqlstate == "42704"


def test_a_session_that_still_ends_is_waited_for():
    """XA RECOVER lists the transaction, but only the session that prepared it can finish it."""
    attempts = 0

    def commit() -> Sequence[dict[str, Any]]:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise UNKNOWN
        return []

    prepared(RecordedServer({"XA COMMIT": commit, "XA RECOVER": recovered(("g", "db"))})).finish("g", commit=True)
    assert attempts == 3


def test_only_transactions_of_this_database_are_listed():
    server = RecordedServer({"XA RECOVER": recovered(("g", "db"), ("h", "other"), ("gd", "b"), ("é", "db"))})
    with server.engine(URL).connect() as connection:
        names = prepared(RecordedServer()).names(connection)
    assert names == {"g"}


def test_a_gid_is_free_in_every_database():
    with RecordedServer().engine(URL).connect() as connection:
        assert prepared(RecordedServer()).free_gid(connection, "g") == "g"


def test_the_second_part_of_a_name_has_at_most_64_bytes():
    server = RecordedServer()
    prepared(server, "é" * 33).finish("g", commit=True)
    digest = hashlib.sha256(("é" * 33).encode()).hexdigest().encode()
    assert server.statements[1] == f"XA COMMIT X'{b'g'.hex()}',X'{digest.hex()}'"
