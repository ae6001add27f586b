"""The statements of replication origins. tests/targets/test_origins.py executes them."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from subscriber.errors import SubscriberError, TargetUnavailable
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from subscriber.targets.postgresql.origins import PostgreSQLOrigins, reset_origin
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"
DATABASE = {"FROM pg_database": [{"oid": "5"}]}
SET_UP = "pg_replication_origin_session_setup"


def found(*, tracked: bool) -> list[dict[str, Any]]:
    return [{SET_UP: "", "number": 7, "tracked": tracked}]


class Opened:
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
    opened = Opened(**{SET_UP: found(tracked=True)})
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
    opened = Opened(**{SET_UP: lambda: next(answers)})
    with opened.connection as connection:
        opened.origins.set(connection, "pg_1")
    assert len(opened.asked("pg_replication_origin_create")) == 2


@pytest.mark.parametrize("error", [psycopg.errors.InsufficientPrivilege(), psycopg.errors.ConfigurationLimitExceeded()])
def test_a_role_that_may_not_use_origins_is_warned_once_and_marks_nothing(error, caplog):
    caplog.set_level(logging.WARNING)
    opened = Opened(pg_replication_origin_create=error)
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
    opened = Opened(**{SET_UP: error})
    with opened.connection as connection, pytest.raises(TargetUnavailable) as raised:
        opened.origins.set(connection, "pg_1")
    assert raised.value.transient


def test_any_other_error_is_translated():
    opened = Opened(pg_replication_origin_create=psycopg.errors.SyntaxError())
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
    opened = Opened(**{SET_UP: found(tracked=is_tracked)})
    with opened.connection as connection:
        assert opened.origins.others(connection) is None
        opened.origins.set(connection, "pg_1")
        condition = opened.origins.others(connection)
    assert (condition is not None) is is_tracked
    assert condition is None or str(condition).endswith(" != 7")


def test_an_origin_is_dropped_if_it_exists(tracked):
    """C38"""
    tracked.origins.drop(tracked.connection, "pg_1")
    (statement,) = tracked.asked("origin_drop")
    assert "pg_replication_origin_drop('subscriber_5_pg_1'" in statement


def test_an_origin_that_cannot_be_dropped_is_left(caplog):
    opened = Opened(origin_drop=psycopg.errors.ObjectInUse())
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
    assert server.statements[-2:] == ["SELECT pg_replication_origin_session_reset()", "COMMIT"]
    assert (record.info, record.is_invalid) == ({}, False)


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
