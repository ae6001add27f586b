"""AUTO_INCREMENT counters that are reset after the transaction."""

from __future__ import annotations

from pymysql.err import OperationalError

from subscriber.targets import TargetTable
from subscriber.targets.mariadb.counters import CounterRestarts
from subscriber.targets.mariadb.errors import MariaDBErrors
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"
T, U = TargetTable(None, "t", (), None), TargetTable("s", "u", (), None)
WAIT, DEFAULT = "SET SESSION lock_wait_timeout = 5", "SET SESSION lock_wait_timeout = DEFAULT"


def restarts(server: RecordedServer) -> CounterRestarts:
    return CounterRestarts(server.engine(URL), MariaDBErrors())


def test_each_transaction_collects_its_own_tables(caplog):
    server = RecordedServer()
    counters, engine = restarts(server), server.engine(URL)
    with engine.connect() as one, engine.connect() as other:
        with counters.collected(one) as of_one, counters.collected(other) as of_other:
            counters.want(one, [T])
            counters.want(other, [U])
            counters.want(one, [U])
        assert (of_one, of_other) == ([T, U], [U])
    assert caplog.messages == []


def test_a_prepared_transaction_leaves_the_counters_and_says_so(caplog):
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        restarts(server).want(connection, [T])
    assert caplog.messages == [
        "a prepared transaction of MariaDB cannot set AUTO_INCREMENT back: TRUNCATE leaves it where it is"
    ]


def test_a_prepared_transaction_without_counters_says_nothing(caplog):
    server = RecordedServer()
    with server.engine(URL).connect() as connection:
        restarts(server).want(connection, [])
    assert caplog.messages == []


def test_a_transaction_that_has_ended_collects_nothing_more(caplog):
    server = RecordedServer()
    counters = restarts(server)
    with server.engine(URL).connect() as connection:
        with counters.collected(connection) as tables:
            pass
        counters.want(connection, [T])
    assert tables == []


def test_the_counters_are_reset_with_a_short_wait_for_other_sessions():
    server = RecordedServer()
    restarts(server).restart([T, U])
    assert server.statements == [
        "CONNECT", WAIT, "ALTER TABLE t AUTO_INCREMENT = 1", "ALTER TABLE s.u AUTO_INCREMENT = 1", DEFAULT, "ROLLBACK",
    ]  # fmt: skip


def test_a_reset_that_fails_is_a_warning(caplog):
    """The transaction is committed already."""
    server = RecordedServer({"ALTER TABLE": OperationalError(1205, "Lock wait timeout exceeded")})
    restarts(server).restart([T])
    assert server.statements[-2:] == [DEFAULT, "ROLLBACK"]
    (message,) = caplog.messages
    assert message.endswith("set AUTO_INCREMENT back: MariaDB is not available (error 1205, LOCK_WAIT_TIMEOUT)")
