"""The statements around a transaction of MariaDB.

tests/targets/test_transactions.py executes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest
from pymysql.err import DataError, NotSupportedError, OperationalError, ProgrammingError

from subscriber.base.errors import (
    AlreadyRunning,
    ApplyError,
    ConflictError,
    SubscriberError,
    TargetUnavailable,
    UnsupportedValue,
)
from subscriber.targets import TargetTable
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.transactions import (
    CounterRestarts,
    MariaDBFacts,
    MariaDBPrepared,
    MariaDBRunLock,
    MariaDBTransactions,
    blockers,
    find_facts,
    has_long_defaults,
    learn,
)
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


# The statements of MariaDB's run lock. tests/targets/test_run_lock.py locks a real server.


NAME = f"subscriber run {hashlib.sha256(b'db').hexdigest()[:32]}"
GOT, TAKEN = [{"got": 1}], [{"got": 0}]


def run_lock(server: RecordedServer, database: str = "db") -> MariaDBRunLock:
    return MariaDBRunLock(server.engine(URL), MariaDBErrors(), database)


def test_the_lock_is_held_in_a_session_that_may_be_idle_for_a_year():
    server = RecordedServer({"get_lock": GOT})
    with run_lock(server).hold():
        connect, wait, lock = server.statements
        assert (connect, wait) == ("CONNECT", "SET SESSION wait_timeout = 31536000")
        assert lock.startswith(f"SELECT get_lock('{NAME}', 0)")
    release, close = server.statements[3:]
    assert release.startswith(f"SELECT release_lock('{NAME}')")
    assert close == "CLOSE"


def test_the_name_of_the_lock_is_short_enough_for_any_database():
    """A lock's name has at most 64 characters."""
    server = RecordedServer({"get_lock": GOT})
    with run_lock(server, "d" * 64).hold():
        assert len(server.statements[-1].split("'")[1]) <= 64


def test_a_second_runner_is_refused():
    server = RecordedServer({"get_lock": TAKEN})
    with pytest.raises(AlreadyRunning) as raised, run_lock(server).hold():
        pass
    assert raised.value.message == 'another "subscriber run" is already running for database "db"'
    assert not any("release_lock" in statement for statement in server.statements)


def test_a_lost_session_has_released_the_lock():
    server = RecordedServer({"get_lock": GOT, "release_lock": OperationalError(2013, "Lost connection")})
    with run_lock(server).hold():
        pass
    assert server.statements[-1] == "CLOSE"


@pytest.mark.parametrize(("session", "held"), [(None, False), (7, True)])
def test_another_connection_can_ask_for_the_lock(session, held):
    server = RecordedServer({"is_used_lock": [{"session": session}]})
    lock = run_lock(server)
    with server.engine(URL).connect() as connection:
        assert lock.is_held(connection) is held


# The statements of XA transactions. tests/targets/test_prepared.py executes them.


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


# The sessions that hold a lock, described. tests/conformance/test_waiting.py asks a server.


METADATA = [{"state": "Waiting for table metadata lock"}]


def holder(number: int, command: str | None) -> dict[str, Any]:
    known = number or None
    return {
        "id": number, "user": known and "u", "db": known and "d", "command": command, "since": "2026-11-21 01:02:03",
    }  # fmt: skip


def asked(answers: dict[str, Any]) -> list[str]:
    with RecordedServer(answers).engine(URL).connect() as connection:
        return blockers(connection, 7)


def test_the_holder_of_a_row_lock_is_named():
    """A session that sleeps in a transaction is idle in transaction, in PostgreSQL's words."""
    assert asked({"innodb_lock_waits": [holder(9, "Sleep")]}) == [
        'process 9 (user "u", database "d", idle in transaction, since 2026-11-21 01:02:03)'
    ]


def test_a_row_lock_of_a_prepared_transaction_has_no_session():
    assert asked({"innodb_lock_waits": [holder(0, None)]}) == [
        "a prepared transaction (since 2026-11-21 01:02:03; XA RECOVER lists the prepared transactions)"
    ]


@pytest.mark.parametrize("state", ["Waiting for table metadata lock", "Waiting for backup lock"])
def test_only_those_that_may_hold_a_metadata_lock_are_known(state):
    texts = asked({"SELECT state": [{"state": state}], "UNION ALL": [holder(9, "Query"), holder(0, None)]})
    assert [text.startswith("a lock of the table's definition, perhaps held by ") for text in texts] == [True, True]
    assert "Query" in texts[0]
    assert "a prepared transaction" in texts[1]


@pytest.mark.parametrize("state", [[], [{"state": None}], [{"state": "Sending data"}], [{"state": "Waiting for disk"}]])
def test_a_session_that_waits_for_no_lock_waits_for_nobody(state):
    assert asked({"SELECT state": state, "UNION ALL": [holder(9, "Query")]}) == []


# The facts about a server ------------------------------------------------------------------------

NO_XA = ProgrammingError(1064, "You have an error in your SQL syntax")
VARIABLES = "SHOW VARIABLES"
SEEKDB: dict[str, Any] = {
    VARIABLES: [
        {"Variable_name": "lower_case_table_names", "Value": "1"},
        {"Variable_name": "version", "Value": "5.7.25-OceanBase seekdb-v1.4.0.0"},
        {"Variable_name": "ob_query_timeout", "Value": "10000000"},
        {"Variable_name": "ob_trx_lock_timeout", "Value": "-1"},
    ],
    "SHOW COLLATION": [],
    "check_constraints": [{"count": 0}],
    "XA RECOVER": NO_XA,
}
MYSQL: dict[str, Any] = {
    VARIABLES: [
        {"Variable_name": "lower_case_table_names", "Value": "0"},
        {"Variable_name": "information_schema_stats_expiry", "Value": "86400"},
        {"Variable_name": "version", "Value": "8.4.6-0ubuntu0.24.04.1"},
    ],
    "SHOW COLLATION": [{"Collation": "utf8mb4_0900_bin"}],
    "check_constraints": [{"count": 0}],
    "XA RECOVER": OperationalError(1401, "XAER_RMERR: Fatal error occurred in the transaction branch"),
}
MARIADB: dict[str, Any] = {
    VARIABLES: [
        {"Variable_name": "lower_case_table_names", "Value": "0"},
        {"Variable_name": "version", "Value": "10.11.18-MariaDB-0+deb12u1"},
    ],
    "SHOW COLLATION": [{"Collation": "utf8mb4_nopad_bin"}],
    "check_constraints": [{"count": 1}],
}


@pytest.mark.parametrize(
    ("answers", "facts"),
    [
        (MARIADB, MariaDBFacts()),
        (MYSQL, MariaDBFacts(database="MySQL", exact_collation="utf8mb4_0900_bin", has_own_expressions=False,
                             settings=("information_schema_stats_expiry",))),
        (SEEKDB, MariaDBFacts(database="OceanBase seekdb", exact_collation=None, has_xa=False, has_own_expressions=False,
                              lower_case_tables=True, settings=("ob_query_timeout", "ob_trx_lock_timeout"))),
    ],
    ids=["MariaDB", "MySQL without the privilege XA_RECOVER_ADMIN", "seekdb"],
)  # fmt: skip
def test_what_differs_between_servers_is_asked_for(answers, facts):
    with RecordedServer(answers).engine(URL).connect() as connection:
        driver: Any = connection.connection.driver_connection
        assert find_facts(driver.cursor()) == facts


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([], True),
        (OperationalError(1067, "Invalid default value"), False),
        (OperationalError(1101, "can't have a default value"), False),
        (NotSupportedError(1235, "temporary table not supported"), False),
        (OperationalError(1044, "Access denied"), True),
    ],
    ids=["it takes one", "refused", "refused in old words", "no temporary tables", "it may not be tried"],
)
def test_a_longtext_has_a_default_unless_the_server_says_otherwise(answer, expected):
    server = RecordedServer({"CREATE TEMPORARY": answer})
    engine = server.engine(URL)
    assert [has_long_defaults(engine), has_long_defaults(engine)] == [expected, expected]
    assert len([one for one in server.statements if "LONGTEXT DEFAULT" in one]) == 1


def test_a_session_sets_only_the_variables_that_the_server_has():
    assert MariaDBFacts().session() == ""
    facts = MariaDBFacts(settings=("information_schema_stats_expiry",))
    assert facts.session() == ", SESSION information_schema_stats_expiry = 0"


def test_waits_for_locks_are_limited_by_the_variables_that_the_server_has():
    server = RecordedServer()
    engine = server.engine(URL)
    learn(engine.dialect, MariaDBFacts(settings=("ob_trx_lock_timeout",)))
    transactions = MariaDBTransactions(engine, MariaDBErrors(), CounterRestarts(engine, MariaDBErrors()))
    with engine.connect() as connection, transactions.limited_lock_waits(connection, 3):
        pass
    assert [one for one in server.statements if "ob_trx" in one] == [
        "SET SESSION ob_trx_lock_timeout = 3000000",
        "SET SESSION ob_trx_lock_timeout = 10000000",
    ]
