"""The statements around a transaction of MariaDB.

tests/targets/test_transactions.py executes them.
"""

from __future__ import annotations

import pytest
from pymysql.err import DataError, OperationalError

from subscriber.errors import TargetUnavailable, UnsupportedValue
from subscriber.targets import TargetTable
from subscriber.targets.mariadb.counters import CounterRestarts
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.transactions import MariaDBTransactions
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"
TABLE = TargetTable(None, "t", (), None)


class Opened:
    """The transactions of a recorded server, whose connections have the number 7."""

    def __init__(self, **answers) -> None:
        self.server = RecordedServer(answers, info={"thread_id": lambda: 7})
        self.engine, errors = self.server.engine(URL), MariaDBErrors()
        self.counters = CounterRestarts(self.engine, errors)
        self.transactions = MariaDBTransactions(self.engine, errors, self.counters)


def test_counters_are_reset_after_the_commit():
    """C29: ALTER TABLE commits, too."""
    opened = Opened()
    with opened.transactions.begin() as connection:
        opened.counters.want(connection, [TABLE])
        assert opened.server.statements == ["CONNECT"]
    statements = opened.server.statements
    assert statements.index("COMMIT") < statements.index("ALTER TABLE t AUTO_INCREMENT = 1")


def test_counters_of_a_transaction_that_is_rolled_back_stay():
    opened = Opened()
    with pytest.raises(InterruptedError), opened.transactions.begin() as connection:
        opened.counters.want(connection, [TABLE])
        raise InterruptedError
    assert opened.server.statements == ["CONNECT", "ROLLBACK"]


@pytest.mark.parametrize(
    ("error", "sessions"),
    [(OperationalError(1153, "Got a packet bigger"), 2), (DataError(1406, "Data too long"), 1)],
    ids=["larger than a packet", "another value"],
)
def test_a_value_that_was_too_large_closes_the_sessions(error, sessions):
    """Only new sessions use a limit that an administrator has raised."""
    opened = Opened(INSERT=error)
    with pytest.raises(UnsupportedValue), opened.transactions.begin() as connection:
        connection.exec_driver_sql("INSERT …")
    with opened.transactions.begin():
        pass
    assert opened.server.statements.count("CONNECT") == sessions


@pytest.mark.parametrize(("value", "warned"), [(1, False), (0, True), (2, True)])
def test_a_log_that_is_not_flushed_at_a_commit_is_warned_of(value, warned):
    opened = Opened(innodb_flush_log_at_trx_commit=[{"value": value}])
    warnings = opened.transactions.durability_warnings()
    assert bool(warnings) is warned
    for warning in warnings:
        assert warning.message.endswith(f"its innodb_flush_log_at_trx_commit is {value}")
        assert "SET GLOBAL innodb_flush_log_at_trx_commit = 1" in warning.hint


def test_a_setting_that_cannot_be_read_is_an_error():
    opened = Opened(innodb_flush_log_at_trx_commit=OperationalError(2013, "Lost connection"))
    with pytest.raises(TargetUnavailable):
        opened.transactions.durability_warnings()


def test_a_session_is_interrupted_by_its_number_on_another_connection():
    opened = Opened()
    with opened.engine.connect() as connection:
        assert opened.transactions.session_id(connection) == 7
        opened.transactions.interrupt(connection)
    assert opened.server.statements[:3] == ["CONNECT", "CONNECT", "KILL QUERY 7"]


def test_an_interrupt_that_does_not_reach_the_server_is_ignored():
    opened = Opened(KILL=OperationalError(1094, "Unknown thread id: 7"))
    with opened.engine.connect() as connection:
        opened.transactions.interrupt(connection)
    assert "KILL QUERY 7" in opened.server.statements


def test_a_session_that_is_still_being_opened_waits_for_nobody():
    opened = Opened()
    assert opened.transactions.waits_for(None) == ()
    assert opened.server.statements == []


def test_the_server_is_asked_for_whom_a_session_waits():
    opened = Opened(innodb_lock_waits=[{"id": 0, "user": None, "db": None, "command": None, "since": "noon"}])
    (text,) = opened.transactions.waits_for(7)
    assert text.startswith("a prepared transaction (since noon")


def test_the_limit_of_lock_waits_ends_with_its_block():
    opened = Opened()
    with (
        pytest.raises(InterruptedError),
        opened.transactions.begin() as connection,
        opened.transactions.limited_lock_waits(connection, 10),
    ):
        connection.exec_driver_sql("UPDATE …")
        raise InterruptedError
    assert opened.server.statements == [
        "CONNECT",
        "SET SESSION innodb_lock_wait_timeout = 10, SESSION lock_wait_timeout = 10",
        "UPDATE …",
        "SET SESSION innodb_lock_wait_timeout = DEFAULT, SESSION lock_wait_timeout = DEFAULT",
        "ROLLBACK",
    ]
