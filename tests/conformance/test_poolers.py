"""PgBouncer in front of the publisher: a session that lost its settings on the way is refused."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from subscriber.base.errors import PublisherError, PublisherNotReady, UsageError
from subscriber.publisher.connection import ReplicationConnection, connect_publisher
from subscriber.testing.servers.processes import GuardedProcesses, free_port
from tests.conftest import Database, server_or_skip
from tests.waits import wait_until

pytestmark = pytest.mark.server

Bouncer = Callable[[str], str]


def program() -> Path:
    found = shutil.which("pgbouncer", path=f"/usr/sbin{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    if found is None:
        raise UsageError("PgBouncer is not installed", hint="Install the package pgbouncer.")
    return Path(found)


@contextmanager
def bouncer(server: Database, ignored: str) -> Iterator[str]:
    """A connection string that leads through a PgBouncer which ignores these startup parameters."""
    command = server_or_skip(program)
    processes, port = GuardedProcesses("pgbouncer"), free_port()
    configuration = processes.directory / "pgbouncer.ini"
    configuration.write_text(
        f"[databases]\n* = {server.server.conninfo(server.name)}\n".replace(f" dbname={server.name}", "")
        + f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = session\nignore_startup_parameters = {ignored}\n"
    )
    processes.hand_over(configuration)
    processes.spawn([command, configuration], stop_signal="SIGINT")
    try:
        wait_until(lambda: listens(port) or not processes.is_running())
        user = conninfo_to_dict(server.conninfo)["user"]
        yield make_conninfo("", host="127.0.0.1", port=port, user=user, dbname=server.name)
    finally:
        processes.end(["SIGINT"], 10)
        processes.close()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ordinary(conninfo: str) -> None:
    with connect_publisher(conninfo, "sub") as connection:
        ((value,),) = connection.execute("SELECT '2026-02-01'::date::text").fetchall()
        assert value == "2026-02-01"


def replication(conninfo: str) -> None:
    ReplicationConnection(conninfo, "sub").close()


BOTH = pytest.mark.parametrize("connect", [ordinary, replication])


@BOTH
@pytest.mark.parametrize(
    ("name", "asked", "value"),
    [
        ("DateStyle", "ISO", "German, DMY"),
        ("IntervalStyle", "postgres", "iso_8601"),
        ("TimeZone", "UTC", "Europe/Zurich"),
    ],
)
def test_a_pooler_that_drops_the_settings_of_the_session_is_named(connect, name, asked, value, publisher_database):
    """With these two settings PgBouncer accepts both kinds of connections."""
    publisher_database.execute(f"ALTER DATABASE {publisher_database.name} SET {name} = '{value}'")
    connect(publisher_database.conninfo)
    with bouncer(publisher_database, "options, replication") as conninfo:
        with pytest.raises(PublisherNotReady) as caught:
            connect(conninfo)
        error = caught.value
        assert error.message == f'the session has {name} "{value}", although "{asked}" was asked for'
        assert "ignore_startup_parameters" in str(error.hint)


def test_a_session_through_a_pooler_that_has_the_settings_is_used(publisher_database):
    with bouncer(publisher_database, "options") as conninfo:
        ordinary(conninfo)


@BOTH
def test_a_pooler_that_drops_nothing_refuses_the_connection(connect, publisher_database):
    """PgBouncer 1.18; later ones may let replication connections pass."""
    with bouncer(publisher_database, "") as conninfo, pytest.raises(PublisherError) as caught:
        connect(conninfo)
    assert "unsupported startup parameter" in caught.value.message


def test_a_pooler_that_opens_an_ordinary_session_for_replication_is_named(publisher_database):
    with (
        bouncer(publisher_database, "options, replication") as conninfo,
        ReplicationConnection(conninfo, "sub") as connection,
        pytest.raises(PublisherError, match="syntax error") as caught,
    ):
        connection.execute("IDENTIFY_SYSTEM")
    assert "pooler answers" in str(caught.value.hint)
