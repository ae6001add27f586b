"""The statements of PostgreSQL's run lock. tests/targets/test_run_lock.py locks a real server."""

from __future__ import annotations

import psycopg
import pytest

from subscriber.errors import AlreadyRunning
from subscriber.targets.postgresql.errors import PostgreSQLErrors
from subscriber.targets.postgresql.run_lock import RUN_LOCK_KEY, PostgreSQLRunLock
from tests.unit.targets.recorded_server import RecordedServer

URL = "postgresql+psycopg://user@host/db"
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
