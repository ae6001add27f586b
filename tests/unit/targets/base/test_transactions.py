from __future__ import annotations

import threading

import pytest

from subscriber.base import waiting
from subscriber.base.errors import TargetUnavailable
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.transactions import Transactions
from tests.unit.targets.tables import execute, rows


@pytest.fixture(autouse=True)
def table(target):
    execute(target, "CREATE TABLE t (a INT)")


def test_a_transaction_is_committed_when_its_block_ends(target):
    execute(target, "INSERT INTO t VALUES (1)")
    assert rows(target, "SELECT * FROM t") == [{"a": 1}]


def test_a_transaction_is_rolled_back_when_its_block_raises(target):
    with pytest.raises(InterruptedError), target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        raise InterruptedError
    assert rows(target, "SELECT * FROM t") == []


def test_a_transaction_translates_the_drivers_errors(target):
    with pytest.raises(TargetUnavailable, match="OperationalError"):
        execute(target, "SELECT * FROM missing")


def test_nothing_is_known_of_the_databases_sessions_and_settings(target):
    transactions = target.transactions
    with target.begin() as connection, transactions.interruptible(connection):
        transactions.interrupt(connection)
        transactions.set_synchronous_commit(connection, "remote_apply")
        with transactions.limited_lock_waits(connection, 10):
            connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        assert transactions.session_id(connection) is None
        assert transactions.waits_for(None) == ()
    assert transactions.durability_warnings() == ()
    assert transactions.write_engine() is target.engine


class _Locked(Transactions):
    """A database whose sessions have numbers and always wait."""

    def session_id(self, connection):
        del connection
        return 7

    def waits_for(self, session):
        return [f"a lock of session {session}"]


def test_a_transaction_that_waits_says_for_whom(target, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.01)
    told, answered = [], threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        answered.set()

    with waiting.notices_to(tell), _Locked(target.engine, Errors("the target")).begin():
        assert answered.wait(30)
        assert told[-1] in {
            "a transaction of the target (the target) waits for a lock of session 7",
            # It was asked before the session was opened.
            "a transaction of the target (the target) waits for a lock of session None",
        }
