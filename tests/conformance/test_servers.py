"""Private servers on this machine: how they start, restart and end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from subscriber.base.errors import PublisherUnavailable
from subscriber.testing.servers import postgresql_server as module
from subscriber.testing.servers.open_servers import PUBLISHER_SETTINGS, PostgreSQLServer, find_postgresql
from subscriber.testing.servers.processes import PostgreSQLInstallation
from tests.conftest import server_or_skip

pytestmark = pytest.mark.server


@pytest.fixture
def server():
    with server_or_skip(lambda: PostgreSQLServer(find_postgresql(18))) as running:
        yield running


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(happened, seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if happened():
            return True
        time.sleep(0.05)
    return False


def postmaster(data_directory: Path) -> int:
    return int((data_directory / "postmaster.pid").read_text().splitlines()[0])


def test_every_version_runs_with_the_settings_that_were_asked_for(postgresql):
    for name, value in PUBLISHER_SETTINGS.items():
        assert postgresql.execute(f"SELECT current_setting('{name}')") == [(value,)], name
    assert postgresql.execute("SHOW server_version_num")[0][0].startswith(str(postgresql.major))


def test_the_conninfo_and_the_url_reach_the_database_they_name(publisher_database):
    from sqlalchemy import create_engine, text

    with psycopg.connect(publisher_database.conninfo) as connection:
        assert connection.execute("SELECT current_database()").fetchall() == [(publisher_database.name,)]
    engine = create_engine(publisher_database.url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT current_database()")).scalar() == publisher_database.name
    engine.dispose()


def test_a_replication_connection_can_be_made_from_the_conninfo(publisher_database):
    conninfo = publisher_database.server.conninfo(publisher_database.name, replication="database")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        assert connection.execute("IDENTIFY_SYSTEM").fetchall()[0][3] == publisher_database.name


def test_dropping_a_database_takes_its_slots_sessions_and_prepared_transactions_along(postgresql18):
    postgresql18.create_database("odd \"name'")
    conninfo = postgresql18.conninfo("odd \"name'", replication="database")
    postgresql18.execute("CREATE TABLE t (a int)", "odd \"name'")
    with psycopg.connect(conninfo, autocommit=True) as busy:
        busy.execute("CREATE_REPLICATION_SLOT idle LOGICAL pgoutput")
        postgresql18.execute("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'gid''s'", "odd \"name'")
        postgresql18.drop_database("odd \"name'")
        with pytest.raises(psycopg.Error):
            busy.execute("SELECT 1")
    assert postgresql18.execute("SELECT 1 FROM pg_database WHERE datname LIKE 'odd%'") == []
    assert postgresql18.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = 'idle'") == []
    postgresql18.drop_database("odd \"name'")


def test_dropping_a_subscriber_database_drops_its_subscriptions_first(postgresql18, publisher_database):
    """As the scenarios' native subscriber nodes need it."""
    publisher_database.execute("CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    publisher_database.execute("SELECT pg_create_logical_replication_slot('of_native', 'pgoutput')")
    postgresql18.create_database("native")
    postgresql18.execute("CREATE TABLE t (a int PRIMARY KEY)", "native")
    postgresql18.execute(
        f"CREATE SUBSCRIPTION s CONNECTION '{publisher_database.conninfo}' PUBLICATION p"
        " WITH (create_slot = false, slot_name = of_native)",
        "native",
    )
    postgresql18.drop_database("native")
    assert postgresql18.execute("SELECT 1 FROM pg_subscription") == []


def test_a_restart_keeps_port_data_and_changes_settings(server):
    port = server.port
    server.execute("CREATE TABLE t AS SELECT 1 AS a")
    server.restart({"wal_level": "replica"})
    assert (server.port, server.execute("SELECT a FROM t")) == (port, [(1,)])
    assert server.execute("SHOW wal_level") == [("replica",)]


def test_a_killed_server_comes_back_with_what_was_committed(server):
    server.execute("CREATE TABLE t AS SELECT 1 AS a")
    server.kill()
    assert not server.running
    with pytest.raises(psycopg.OperationalError):
        server.execute("SELECT 1")
    server.start()
    assert server.execute("SELECT a FROM t") == [(1,)]


def test_starting_twice_and_stopping_twice_do_nothing(server):
    pid = postmaster(server.data_directory)
    server.start()
    assert postmaster(server.data_directory) == pid
    server.stop()
    server.stop()
    assert gone(pid)


def test_closing_removes_the_data_directory(server):
    directory = server.data_directory.parent
    server.close()
    assert not directory.exists()


def test_a_server_that_cannot_start_says_why():
    server = server_or_skip(lambda: PostgreSQLServer(find_postgresql(18), {"no_such_setting": "1"}))
    with server_closed(server), pytest.raises(PublisherUnavailable) as failure:
        server.start()
    assert 'unrecognized configuration parameter "no_such_setting"' in (failure.value.detail or "")
    assert failure.value.hint


def test_a_port_that_somebody_took_is_replaced_by_another():
    server = server_or_skip(lambda: PostgreSQLServer(find_postgresql(18)))
    with socket.socket() as occupied, server_closed(server):
        occupied.bind(("127.0.0.1", server.port))
        occupied.listen()
        taken = server.port
        server.start()
        assert server.port != taken
        assert server.execute("SELECT 1") == [(1,)]


def test_only_loopback_can_reach_the_server(server):
    assert server.execute("SHOW listen_addresses") == [("127.0.0.1",)]
    assert server.execute("SHOW unix_socket_directories") == [("",)]


SERVE = """
import sys, time
from subscriber.testing.servers.open_servers import PostgreSQLServer, find_postgresql
with PostgreSQLServer(find_postgresql(18)) as server:
    print(server.data_directory, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda ending: ending.name)
def test_a_server_ends_with_its_process_whatever_ends_that(server, ending):
    """The ``server`` fixture only answers whether there is a PostgreSQL 18 at all."""
    owner = subprocess.Popen(
        [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with owner:
        assert owner.stdout is not None
        data_directory = Path(owner.stdout.readline().strip())
        pid = postmaster(data_directory)
        owner.send_signal(ending)
    assert wait_until(lambda: gone(pid))
    assert wait_until(lambda: not data_directory.parent.exists())


FORK = """
import os, sys, time
from subscriber.testing.servers.open_servers import PostgreSQLServer, find_postgresql
server = PostgreSQLServer(find_postgresql(18))
server.start()
print(server.data_directory, flush=True)
if os.fork() == 0:
    time.sleep(40)
    os._exit(0)
time.sleep(600)
"""


def test_a_forked_child_that_lives_on_does_not_keep_the_server_alive(server):
    """The child holds the guard's pipe open, so the guard must notice by its parent."""
    owner = subprocess.Popen([sys.executable, "-c", FORK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert owner.stdout is not None
    data_directory = Path(owner.stdout.readline().strip())
    pid = postmaster(data_directory)
    owner.kill()
    owner.wait()
    assert wait_until(lambda: gone(pid), 20)
    owner.stdout.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as somebody else")
def test_programs_that_the_servers_user_cannot_read_are_copied(tmp_path):
    installation = server_or_skip(lambda: find_postgresql(18))
    closed = tmp_path / "closed"
    package = installation.root.parent
    if not (libraries := package.with_name(package.name + ".libs")).is_dir():
        pytest.skip("only the wheel's programs can be moved")
    shutil.copytree(installation.root, closed / package.name / "pg", symlinks=True)
    shutil.copytree(libraries, closed / libraries.name)
    closed.chmod(0o700)
    with PostgreSQLServer(PostgreSQLInstallation(closed / package.name / "pg" / "bin", 18)) as server:
        assert server.execute("SELECT 1") == [(1,)]
        assert closed not in server.bin.parents
        owner = (server.data_directory / "PG_VERSION").stat().st_uid
    assert owner != 0


def test_mariadb_speaks_utc_and_utf8(mariadb):
    mariadb.create_database("with `backquote")
    try:
        assert mariadb.execute("SELECT database(), @@time_zone, 'ü'", "with `backquote") == [
            ("with `backquote", "+00:00", "ü")
        ]
    finally:
        mariadb.drop_database("with `backquote")
    assert mariadb.execute("SHOW DATABASES LIKE 'with%'") == []


class server_closed:  # noqa: N801  (a context manager that reads as a phrase)
    """Closes a server that a test starts itself."""

    def __init__(self, server: PostgreSQLServer) -> None:
        self.server = server

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.server.close()


def test_patience_is_longer_than_a_slow_machine_needs():
    assert module.START_SECONDS >= 60
