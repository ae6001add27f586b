"""The statements around a transaction of PostgreSQL. tests/targets/test_transactions.py executes
them.
"""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import exc

from subscriber.base.errors import AlreadyRunning, ApplyError, ConflictError, SubscriberError, TargetUnavailable
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from subscriber.targets.postgresql.transactions import (
    RUN_LOCK_KEY,
    PostgreSQLOrigins,
    PostgreSQLPrepared,
    PostgreSQLRunLock,
    PostgreSQLTransactions,
    check_connection,
    reset_origin,
    set_up_session,
)
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"
SCHEMA = {"current_schema": [{"current_schema": "app"}]}
REPLICA = "set_config('session_replication_role'"
NOT_ALLOWED = psycopg.errors.InsufficientPrivilege("permission denied to set parameter")


class Opened:
    """The transactions of a recorded server."""

    def __init__(self, answers: dict[str, Any] | None = None, **info: Any) -> None:
        self.server = RecordedServer(SCHEMA | (answers or {}), info={"info": SimpleNamespace(backend_pid=7)} | info)
        self.engine = self.server.engine(URL)
        self.transactions = PostgreSQLTransactions(self.engine, PostgreSQLErrors())

    def connect(self):
        connection = self.engine.connect()
        connection.info["subscriber_time_zone"] = "Europe/Vienna"
        return connection

    def asked(self, part: str) -> list[str]:
        return [statement for statement in self.server.statements if part in statement]


# The replica --------------------------------------------------------------------------------------


def test_each_transaction_applies_changes_as_a_replica():
    """C23: with an empty search_path, and with the time zone of the role and the database."""
    opened = Opened()
    for _ in range(2):
        with opened.connect() as connection:
            opened.transactions.apply_as_replica(connection)
    first, *both = opened.asked(REPLICA)
    assert "search_path" not in first  # finds out whether the role may do so
    assert len(both) == 2
    for settings in both:
        assert "set_config('search_path', '', true)" in settings
        assert "set_config('TimeZone', 'Europe/Vienna', true)" in settings


def test_the_catalogs_tables_are_found_without_a_search_path():
    opened = Opened()
    with opened.connect() as connection:
        opened.transactions.apply_as_replica(connection)
        assert connection.get_execution_options()["schema_translate_map"][None] == "app"


def test_a_role_that_may_not_be_a_replica_is_warned_once(caplog):
    caplog.set_level(logging.WARNING)
    opened = Opened({REPLICA: NOT_ALLOWED})
    for _ in range(2):
        with opened.connect() as connection:
            opened.transactions.apply_as_replica(connection)
    assert len(opened.asked(REPLICA)) == 1
    (message,) = caplog.messages
    assert "triggers and foreign keys act" in message
    assert opened.asked("ROLLBACK TO SAVEPOINT")


@pytest.mark.parametrize(
    ("answers", "before", "after"), [({}, "RA", "RA"), ({REPLICA: NOT_ALLOWED}, "RA", "OA")], ids=["replica", "origin"]
)
def test_the_triggers_that_fire_are_those_of_the_role(answers, before, after):
    """https://www.postgresql.org/docs/current/catalog-pg-trigger.html, tgenabled."""
    opened = Opened(answers)
    assert opened.transactions.fires == before
    with opened.connect() as connection:
        opened.transactions.apply_as_replica(connection)
    assert opened.transactions.fires == after


# Commits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["local", "remote_write", "on", "remote_apply"])
def test_synchronous_commit_is_the_subscriptions(value):
    opened = Opened()
    with opened.connect() as connection:
        opened.transactions.set_synchronous_commit(connection, value)
    assert f"set_config('synchronous_commit'::VARCHAR, '{value}'::VARCHAR, True)" in opened.server.statements[1]


def test_synchronous_commit_is_never_off():
    """The journal is trimmed after the commit."""
    opened = Opened()
    with opened.connect() as connection:
        opened.transactions.set_synchronous_commit(connection, "off")
    assert opened.asked("synchronous_commit") == []


@pytest.mark.parametrize(("fsync", "warned"), [("on", False), ("off", True)])
def test_a_server_without_fsync_is_warned_of(fsync, warned):
    warnings = Opened({"current_setting": [{"fsync": fsync}]}).transactions.durability_warnings()
    assert bool(warnings) is warned
    assert all("ALTER SYSTEM SET fsync = on" in warning.hint for warning in warnings)


def test_a_setting_that_cannot_be_read_is_an_error():
    with pytest.raises(TargetUnavailable):
        Opened({"current_setting": psycopg.errors.AdminShutdown()}).transactions.durability_warnings()


# Sessions -----------------------------------------------------------------------------------------


def test_a_session_is_interrupted_by_a_cancel_request():
    requests: list[dict[str, Any]] = []
    opened = Opened(cancel_safe=lambda **options: requests.append(options))
    with opened.connect() as connection:
        assert opened.transactions.session_id(connection) == 7
        opened.transactions.interrupt(connection)
    assert requests == [{"timeout": 2.0}]


def test_a_cancel_request_that_does_not_reach_the_server_is_ignored():
    def lost(**_: object) -> None:
        raise psycopg.OperationalError("lost")

    opened = Opened(cancel_safe=lost)
    with opened.connect() as connection:
        opened.transactions.interrupt(connection)


def blocking(pid: int) -> dict[str, Any]:
    known = {"user": "u", "since": "noon", "state": "idle in transaction", "name": "app"}
    return {"pid": pid} | (known if pid else dict.fromkeys(known))


def test_the_sessions_that_block_are_named():
    opened = Opened({"pg_blocking_pids": [blocking(9)]})
    assert opened.transactions.waits_for(7) == [
        'process 9 (user "u", application "app", idle in transaction, since noon)'
    ]
    assert opened.asked("pg_prepared_xacts") == []


def test_process_0_is_a_prepared_transaction():
    """https://www.postgresql.org/docs/current/functions-info.html, pg_blocking_pids."""
    prepared = [{"gid": "g", "owner": "u", "prepared": "noon"}]
    opened = Opened({"pg_blocking_pids": [blocking(0), blocking(9)], "pg_prepared_xacts": prepared})
    session, transaction = opened.transactions.waits_for(7)
    assert session.startswith("process 9")
    assert transaction == 'prepared transaction "g" (prepared by "u" at noon)'


def test_a_session_that_is_still_being_opened_waits_for_nobody():
    opened = Opened()
    assert opened.transactions.waits_for(None) == ()
    assert opened.server.statements == []


def test_a_new_session_reads_and_writes_values_as_the_publishers_does():
    server, record = (
        RecordedServer({"current_setting('TimeZone')": [{"zone": "Europe/Vienna"}]}),
        SimpleNamespace(info={}),
    )
    with server.engine(URL).connect() as connection:
        set_up_session(connection.connection.driver_connection, record)
    assert record.info["subscriber_time_zone"] == "Europe/Vienna"
    zone, settings, commit = server.statements[1:4]
    assert (zone, commit) == ("SELECT current_setting('TimeZone')", "COMMIT")
    for setting in ("datestyle = 'ISO'", "intervalstyle = 'postgres'", "timezone = 'UTC'", "client_encoding = 'UTF8'"):
        assert f"SET {setting};" in settings


def test_the_limit_of_lock_waits_ends_with_the_transaction():
    opened = Opened()
    with opened.connect() as connection, opened.transactions.limited_lock_waits(connection, 10):
        pass
    (setting,) = opened.asked("lock_timeout")
    assert "set_config('lock_timeout'::VARCHAR, '10s'::VARCHAR, True)" in setting


# The statements of PostgreSQL's run lock. tests/targets/test_run_lock.py locks a real server.


GOT, TAKEN = [{"got": True}], [{"got": False}]


def run_lock(server: RecordedServer) -> PostgreSQLRunLock:
    return PostgreSQLRunLock(server.engine(URL), PostgreSQLErrors())


def test_the_lock_is_an_advisory_lock_of_a_session():
    server = RecordedServer({"pg_try_advisory_lock": GOT})
    with run_lock(server).hold():
        assert server.statements[-1].startswith(f"SELECT pg_try_advisory_lock({RUN_LOCK_KEY}::BIGINT)")
    assert server.statements[2].startswith(f"SELECT pg_advisory_unlock({RUN_LOCK_KEY}::BIGINT)")


def test_the_key_spells_a_word():
    assert RUN_LOCK_KEY.to_bytes(8) == b"subscrib"


def test_a_second_runner_is_refused():
    server = RecordedServer({"pg_try_advisory_lock": TAKEN})
    with pytest.raises(AlreadyRunning) as raised, run_lock(server).hold():
        pass
    assert raised.value.message == 'another "subscriber run" is already running for database "db"'
    assert not any("pg_advisory_unlock" in statement for statement in server.statements)


def test_a_lost_session_has_released_the_lock():
    server = RecordedServer({"pg_try_advisory_lock": GOT, "pg_advisory_unlock": psycopg.OperationalError("lost")})
    with run_lock(server).hold():
        pass
    assert server.statements[-1] == "CLOSE"


@pytest.mark.parametrize("held", [True, False])
def test_another_connection_finds_the_lock_by_the_halves_of_its_key(held):
    """pg_locks shows a 64-bit key as two numbers of 32 bits."""
    server = RecordedServer({"pg_locks": [{"exists": held}]})
    lock = run_lock(server)
    with server.engine(URL).connect() as connection:
        assert lock.is_held(connection) is held
    high, low = int.from_bytes(b"subs"), int.from_bytes(b"crib")
    assert f"classid::int8 = {high}" in server.statements[-2]
    assert f"objid::int8 = {low}" in server.statements[-2]


# The statements of prepared transactions. tests/targets/test_prepared.py executes them.


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
            "session_setup": [{"pg_replication_origin_session_setup": "", "number": 1, "numbers": None}],
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


# The statements of replication origins. tests/targets/test_origins.py executes them.


DATABASE = {"FROM pg_database": [{"oid": "5"}]}
SET_UP = "pg_replication_origin_session_setup"


def found(*, tracked: bool) -> list[dict[str, Any]]:
    return [{SET_UP: "", "number": 7, "numbers": "7, 9" if tracked else None}]


class OpenedOrigin:
    """The origins of a recorded server, and a connection to it."""

    def __init__(self, **answers: Any) -> None:
        self.server = RecordedServer(DATABASE | answers)
        engine = self.server.engine(URL)
        self.origins = PostgreSQLOrigins(engine, PostgreSQLErrors())
        self.connection = engine.connect()

    def asked(self, part: str) -> list[str]:
        return [statement for statement in self.server.statements if part in statement]


@pytest.fixture
def tracked():
    opened = OpenedOrigin(**{SET_UP: found(tracked=True)})
    with opened.connection:
        yield opened


def test_an_origin_has_the_name_of_its_database(tracked):
    """C32: origins belong to the cluster."""
    tracked.origins.set(tracked.connection, "pg_16394")
    assert all("'subscriber_5_pg_16394'" in statement for statement in tracked.asked("WHERE roname"))
    assert len(tracked.asked("pg_replication_origin_create")) == 1


def test_an_origin_is_created_once(tracked):
    tracked.origins.set(tracked.connection, "pg_1")
    tracked.origins.set(tracked.connection, "pg_1")
    assert len(tracked.asked("pg_replication_origin_create")) == 1


def test_an_origin_that_another_process_dropped_is_created_again():
    answers = iter([found(tracked=True), [], found(tracked=True), found(tracked=True)])
    opened = OpenedOrigin(**{SET_UP: lambda: next(answers)})
    with opened.connection as connection:
        opened.origins.set(connection, "pg_1")
    assert len(opened.asked("pg_replication_origin_create")) == 2


@pytest.mark.parametrize("error", [psycopg.errors.InsufficientPrivilege(), psycopg.errors.ConfigurationLimitExceeded()])
def test_a_role_that_may_not_use_origins_is_warned_once_and_marks_nothing(error, caplog):
    caplog.set_level(logging.WARNING)
    opened = OpenedOrigin(pg_replication_origin_create=error)
    with opened.connection as connection:
        opened.origins.set(connection, "pg_1")
        opened.origins.set(connection, "pg_1")
        opened.origins.set_position(connection, 100, 0)
        assert opened.origins.others(connection) is None
        opened.origins.drop(connection, "pg_1")
    assert len(caplog.messages) == 1
    assert "applied changes are not marked as replicated" in caplog.messages[0]
    assert opened.asked("xact_setup") == opened.asked("origin_drop") == []


@pytest.mark.parametrize("error", [psycopg.errors.ObjectInUse(), psycopg.errors.OutOfMemory()])
def test_an_origin_that_another_process_uses_is_tried_again(error):
    opened = OpenedOrigin(**{SET_UP: error})
    with opened.connection as connection, pytest.raises(TargetUnavailable) as raised:
        opened.origins.set(connection, "pg_1")
    assert raised.value.transient


def test_any_other_error_is_translated():
    opened = OpenedOrigin(pg_replication_origin_create=psycopg.errors.SyntaxError())
    with opened.connection as connection, pytest.raises(SubscriberError) as raised:
        opened.origins.set(connection, "pg_1")
    assert raised.value.sqlstate == "42601"


def test_the_position_has_the_lsn_and_the_time_of_the_last_commit(tracked):
    """C32"""
    tracked.origins.set(tracked.connection, "pg_1")
    tracked.origins.set_position(tracked.connection, 0x1_0000_0010, 1_500_000)
    (statement,) = tracked.asked("xact_setup")
    assert "CAST('1/10' AS pg_lsn)" in statement
    assert "1500000" in statement


def test_a_batch_without_a_commit_has_no_position(tracked):
    tracked.origins.set(tracked.connection, "pg_1")
    tracked.origins.set_position(tracked.connection, 100, None)
    assert tracked.asked("xact_setup") == []


@pytest.mark.parametrize("is_tracked", [True, False])
def test_rows_of_others_are_known_with_commit_times(is_tracked):
    """C34: the server records an origin only with track_commit_timestamp."""
    opened = OpenedOrigin(**{SET_UP: found(tracked=is_tracked)})
    with opened.connection as connection:
        assert opened.origins.others(connection) is None
        opened.origins.set(connection, "pg_1")
        condition = opened.origins.others(connection)
    assert (condition is not None) is is_tracked
    assert condition is None or str(condition).endswith(" NOT IN (7, 9))")


def test_an_origin_is_dropped_if_it_exists(tracked):
    """C38"""
    tracked.origins.drop(tracked.connection, "pg_1")
    (statement,) = tracked.asked("origin_drop")
    assert "roname = CAST('subscriber_5_pg_1' AS text)" in statement


def test_each_of_several_writers_has_an_origin_of_the_same_subscription(tracked):
    assert tracked.origins.set(tracked.connection, "pg_1_2")
    for statement in tracked.asked("session_setup"):
        assert "roname = 'subscriber_5_pg_1_2'" in statement
    assert "s.roname = CAST('subscriber_5_pg_1' AS text)" in tracked.asked("session_setup")[-1]


def test_an_origin_that_cannot_be_dropped_is_left(caplog):
    opened = OpenedOrigin(origin_drop=psycopg.errors.ObjectInUse())
    with opened.connection as connection:
        opened.origins.drop(connection, "pg_1")
    (message,) = caplog.messages
    assert message.startswith("a replication origin is left in the target: ")


# A connection that returns to its pool ------------------------------------------------------------


class Record(SimpleNamespace):
    """SQLAlchemy's record of a pooled connection."""

    def __init__(self, **info: object) -> None:
        super().__init__(info=info, is_invalid=False)

    def invalidate(self) -> None:
        self.is_invalid = True


def driver(server: RecordedServer) -> Any:
    with server.engine(URL).connect() as connection:
        return connection.connection.driver_connection


def test_a_connection_releases_its_origin():
    server, record = RecordedServer(), Record(subscriber_origin=7)
    reset_origin(driver(server), record)
    assert server.statements[-1] == "SELECT pg_replication_origin_session_reset()"
    assert ("subscriber_origin" in record.info, record.is_invalid) == (False, False)


def test_a_connection_is_asked_whether_it_still_works_only_if_it_was_not_used_a_moment_ago():
    server = RecordedServer(info={"Error": psycopg.Error})
    connection, record = driver(server), Record(subscriber_used_at=time.monotonic())
    before = len(server.statements)
    check_connection(connection, record, None)
    assert len(server.statements) == before
    record.info["subscriber_used_at"] -= 60.0
    check_connection(connection, record, None)
    assert len(server.statements) > before


def test_a_connection_that_the_server_has_ended_is_replaced():
    server = RecordedServer({"SELECT 1": psycopg.OperationalError("lost")}, info={"Error": psycopg.Error})
    with pytest.raises(exc.InvalidatePoolError):
        check_connection(driver(server), Record(subscriber_used_at=-60.0), None)


def test_a_connection_without_an_origin_is_left_alone():
    server = RecordedServer()
    reset_origin(driver(server), Record())
    reset_origin(None, Record(subscriber_origin=7))
    assert not any("session_reset" in statement for statement in server.statements)


def test_a_connection_that_cannot_release_its_origin_is_closed():
    server = RecordedServer({"session_reset": psycopg.OperationalError("lost")}, info={"Error": psycopg.Error})
    record = Record(subscriber_origin=7)
    reset_origin(driver(server), record)
    assert record.is_invalid
