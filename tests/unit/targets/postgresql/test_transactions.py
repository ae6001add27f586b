"""The statements around a transaction of PostgreSQL. tests/targets/test_transactions.py executes
them.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from subscriber.errors import TargetUnavailable
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from subscriber.targets.postgresql.transactions import PostgreSQLTransactions, set_up_session
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
    assert len(opened.asked(REPLICA)) == 2
    *_, settings = opened.asked("search_path")
    assert "set_config('search_path'::VARCHAR, ''::VARCHAR, True)" in settings
    assert "set_config('TimeZone'::VARCHAR, 'Europe/Vienna'::VARCHAR, True)" in settings


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
    assert record.info == {"subscriber_time_zone": "Europe/Vienna"}
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
