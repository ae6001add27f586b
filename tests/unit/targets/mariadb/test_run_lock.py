"""The statements of MariaDB's run lock. tests/targets/test_run_lock.py locks a real server."""

from __future__ import annotations

import hashlib

import pytest
from pymysql.err import OperationalError

from subscriber.errors import AlreadyRunning
from subscriber.targets.mariadb.errors import MariaDBErrors
from subscriber.targets.mariadb.run_lock import MariaDBRunLock
from tests.unit.targets.recorded_server import RecordedServer

URL = "mariadb+pymysql://user@host/db"
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
