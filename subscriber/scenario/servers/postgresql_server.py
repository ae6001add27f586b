"""PostgreSQL servers: any that can be connected to, and private servers that are started here."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql as composed
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import URL

from subscriber.digits import integer_of
from subscriber.errors import PublisherUnavailable, UsageError
from subscriber.scenario.servers.installations import PostgreSQLInstallation, find_postgresql, find_psql
from subscriber.scenario.servers.processes import GuardedProcesses, SystemUser, free_port
from subscriber.scenario.servers.server import Server

REQUIRED_SETTINGS: Final[Mapping[str, str]] = {
    "wal_level": "logical",
    "max_wal_senders": "40",
    "max_replication_slots": "40",
    "max_prepared_transactions": "20",
}
"""The settings that every publisher needs. docker-compose.yml must have the same (a test compares).
"""

PUBLISHER_SETTINGS: Final[Mapping[str, str]] = {
    **REQUIRED_SETTINGS,
    "logical_decoding_work_mem": "64kB",
    "max_worker_processes": "40",
    "track_commit_timestamp": "on",
    "timezone": "UTC",
    "max_connections": "100",
    "max_logical_replication_workers": "20",
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_wal_size": "1GB",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}
"""The settings of a server for tests. With 64kB of decoding memory, streaming starts early.

An autovacuum worker that analyzes a table, also one of the tables that all databases share, is a
transaction of its own, which test_decoding shows as an empty one: what a slot has would depend on
the time. So there is no autovacuum.

A caller may override each setting.
"""

START_SECONDS: Final = 90.0
"""Seconds that a server may take to start. It takes about 1 second, or 10 on a busy machine with
one core.
"""

_STOP_SECONDS: Final = 20.0
_PORT_ATTEMPTS: Final = 5


class PostgreSQL(Server):
    """A PostgreSQL server that can be connected to.

    Attributes:
        major: its major version.
    """

    def __init__(self, conninfo: str, major: int) -> None:
        self.major = major
        self._parameters: dict[str, Any] = dict(conninfo_to_dict(conninfo))

    @property
    def port(self) -> int:
        """The TCP port.

        Raises:
            UsageError: the port in the connection string is not a valid number (SQLSTATE 22023).
        """
        port = str(self._parameters.get("port") or 5432)
        if not (port.isascii() and port.isdecimal() and integer_of(port) < 2**16):
            raise UsageError(f'invalid integer value "{port}" for connection option "port"', sqlstate="22023")
        return integer_of(port)

    @property
    def psql(self) -> Path:
        """A psql program on this machine, of the server's version if there is one.

        Raises:
            UsageError: there is none.
        """
        return find_psql(self.major)

    def conninfo(self, dbname: str = "postgres", **parameters: str | int) -> str:
        """The connection string of a database, with further ``parameters`` of libpq."""
        return make_conninfo("", **{**self._parameters, "dbname": dbname, **parameters})

    def url(self, dbname: str = "postgres") -> str:
        """The SQLAlchemy URL of a database, for psycopg 3, with the password if there is one."""
        known = self._parameters
        rest = {name: str(value) for name, value in known.items() if name not in _URL_PARTS}
        url = URL.create(
            "postgresql+psycopg", known.get("user"), known.get("password"), known.get("host"), self.port, dbname, rest
        )
        return url.render_as_string(hide_password=False)

    def execute(self, sql: str, dbname: str = "postgres") -> list[tuple[Any, ...]]:
        """Run SQL in autocommit mode, on a new connection.

        Several statements in one string are one implicit transaction, as in psql -c.

        Returns:
            The rows of the last statement that returned rows.

        Raises:
            psycopg.Error: a statement failed.
        """
        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.conninfo(dbname), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            while True:
                if cursor.description is not None:
                    rows = cursor.fetchall()
                if not cursor.nextset():
                    return rows

    def create_database(self, name: str) -> None:
        """Create an empty database."""
        self.execute(f"CREATE DATABASE {_quote(name)}")

    def drop_database(self, name: str) -> None:
        """Drop a database. Nothing happens if it does not exist.

        First everything is removed that would prevent the DROP: its sessions, slots, subscriptions
        and prepared transactions. If the database was a target, its replication origins are dropped
        too: they belong to the whole server, which can have only few of them.
        """
        found = self.execute(f"SELECT oid FROM pg_database WHERE datname = {_literal(name)}")
        if not found:
            return
        # A disabled subscription without a slot can be dropped even if its publisher does not exist
        # any more.
        for (subscription,) in self.execute(
            "SELECT subname FROM pg_subscription s JOIN pg_database d ON d.oid = subdbid"
            f" WHERE datname = {_literal(name)}"
        ):
            for command in ("DISABLE", "SET (slot_name = NONE)"):
                self.execute(f"ALTER SUBSCRIPTION {_quote(subscription)} {command}", name)
            self.execute(f"DROP SUBSCRIPTION {_quote(subscription)}", name)
        for (gid,) in self.execute(f"SELECT gid FROM pg_prepared_xacts WHERE database = {_literal(name)}"):
            self.execute(f"ROLLBACK PREPARED {_literal(gid)}", name)
        self._drop_slots(name)
        self.execute(f"DROP DATABASE IF EXISTS {_quote(name)} WITH (FORCE)")
        self.execute(
            "SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin"
            f" WHERE starts_with(roname, 'subscriber_{found[0][0]}_')"
        )

    def _drop_slots(self, database: str) -> None:
        # An active slot's walsender needs a moment to notice that it was terminated.
        of_it = f"FROM pg_replication_slots WHERE database = {_literal(database)}"
        deadline = time.monotonic() + _STOP_SECONDS
        while self.execute(f"SELECT 1 {of_it}"):
            self.execute(f"SELECT pg_terminate_backend(active_pid) {of_it} AND active")
            try:
                self.execute(f"SELECT pg_drop_replication_slot(slot_name) {of_it} AND NOT active")
            except psycopg.errors.ObjectInUse:
                pass  # a receiver has started to use the slot again, so try again
            if time.monotonic() > deadline:
                raise PublisherUnavailable(f'replication slots of database "{database}" could not be dropped')
            time.sleep(0.05)


class PostgreSQLServer(PostgreSQL):
    """A private PostgreSQL server from programs on this machine.

    Its superuser is ``postgres`` without a password. It listens on 127.0.0.1 only. Example::

        with PostgreSQLServer() as server:
            server.execute("SELECT 1")

    Args:
        installation: the programs. By default the result of `find_postgresql`.
        settings: settings that override `PUBLISHER_SETTINGS`. They are read again at every start.
    """

    def __init__(
        self, installation: PostgreSQLInstallation | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self._programs = self._installation = installation or find_postgresql()
        super().__init__(make_conninfo(host="127.0.0.1", port=free_port(), user="postgres"), self._installation.major)
        self.settings = {**PUBLISHER_SETTINGS, **(settings or {})}
        self._processes: GuardedProcesses | None = None

    @property
    def bin(self) -> Path:
        """The directory of the server's programs."""
        return self._programs.bin

    @property
    def psql(self) -> Path:
        """The psql program of the server's version."""
        return self.bin / "psql"

    @property
    def data_directory(self) -> Path:
        """The data directory. It exists from the first start until `close`."""
        return self._prepared().directory / "data"

    @property
    def running(self) -> bool:
        """Whether the server's process is running."""
        return self._processes is not None and self._processes.is_running()

    def start(self) -> None:
        """Start the server and wait until it accepts connections. Nothing happens if it is running.

        Raises:
            PublisherUnavailable: the server does not start. The detail is the end of its log.
        """
        if self.running:
            return
        fresh = self._processes is None
        processes = self._prepared()
        for attempt in range(_PORT_ATTEMPTS):
            self._write_settings()
            processes.spawn([self.bin / "postgres", "-D", self.data_directory], stop_signal="SIGINT")
            if self._becomes_ready(processes):
                return
            if "Address already in use" not in processes.last_lines(5):
                break
            # Another process took the port after it was found free. Only a new server may change
            # its port.
            if fresh:
                self._parameters["port"] = str(free_port())
            else:
                time.sleep(attempt)
        raise self._failure(f"PostgreSQL {self.major} did not start")

    def stop(self) -> None:
        """Stop the server by a fast shutdown: sessions end, and slots keep their positions."""
        if self._processes is not None:
            self._processes.end(["SIGINT", "SIGQUIT"], _STOP_SECONDS)

    def kill(self) -> None:
        """Stop the server by an immediate shutdown. The next start recovers from WAL."""
        if self._processes is not None:
            self._processes.end(["SIGQUIT"], _STOP_SECONDS)

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Stop the server, and start it again on the same port, with ``settings`` changed.

        Raises:
            PublisherUnavailable: the server does not start. The detail is the end of its log.
        """
        self.settings.update(settings or {})
        self.stop()
        self.start()

    def reload(self, settings: Mapping[str, str]) -> None:
        """Change settings that need no restart, and let the running server read them."""
        self.settings.update(settings)
        self._write_settings()
        self.execute("SELECT pg_reload_conf()")

    def close(self) -> None:
        """Stop the server and remove its data directory."""
        self.stop()
        if self._processes is not None:
            self._processes.close()
            self._processes = None

    def _prepared(self) -> GuardedProcesses:
        """The server's processes. The first call creates the data directory."""
        if self._processes is None:
            self._processes = GuardedProcesses(f"pg{self.major}")
            self._programs = _runnable(self._installation, self._processes)
            self._initialise(self._processes)
        return self._processes

    def _initialise(self, processes: GuardedProcesses) -> None:
        data = processes.directory / "data"
        command: list[str | Path] = [
            self.bin / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "-N",
        ]
        if processes.run(command, START_SECONDS) != 0:
            failure = self._failure(f"initdb of PostgreSQL {self.major} failed")
            self.close()
            raise failure
        with (data / "postgresql.conf").open("a") as configuration:
            configuration.write("include = 'subscriber.conf'\n")

    def _write_settings(self) -> None:
        # A separate file, which ALTER SYSTEM overrides, so that a test may use ALTER SYSTEM too.
        lines = [f"{name} = {_setting(value)}\n" for name, value in (self.settings | {"port": str(self.port)}).items()]
        path = self.data_directory / "subscriber.conf"
        path.write_text("".join(lines))
        self._prepared().hand_over(path)

    def _becomes_ready(self, processes: GuardedProcesses) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while processes.is_running() and time.monotonic() < deadline:
            try:
                # Another process that uses the port may send no answer, so each attempt has a limit
                # (libpq's minimum is 2 seconds).
                with psycopg.connect(self.conninfo(connect_timeout=2)) as connection:
                    ((directory,),) = connection.execute("SHOW data_directory").fetchall()
            except psycopg.Error:
                time.sleep(0.05)
            else:
                # Another server on this port would answer too, so the data directories are
                # compared.
                return os.path.realpath(str(directory)) == os.path.realpath(self.data_directory)
        processes.end(["SIGQUIT"], _STOP_SECONDS)
        return False

    def _failure(self, message: str) -> PublisherUnavailable:
        log = self._processes.last_lines() if self._processes else ""
        return PublisherUnavailable(
            message,
            detail=f"The end of its log:\n{log}",
            hint="Look for a setting that this version does not know, a full disk, or exhausted shared memory.",
        )


_URL_PARTS: Final = frozenset({"user", "password", "host", "port", "dbname"})


def _runnable(installation: PostgreSQLInstallation, processes: GuardedProcesses) -> PostgreSQLInstallation:
    """The installation, or a copy of it if the server's user cannot run the programs.

    For instance, this user cannot read a clone of the repository below /root.
    """
    user = processes.user
    if user is None or _can_run(installation, user):
        return installation
    package = installation.root.parent
    copy = processes.directory / "programs" / package.name
    shutil.copytree(installation.root, copy / installation.root.name, symlinks=True)
    # The programs of a wheel load their libraries from beside the package (Linux) or from within it
    # (macOS).
    for libraries, place in ((f"{package}.libs", f"{copy}.libs"), (package / ".dylibs", copy / ".dylibs")):
        if os.path.isdir(libraries):
            shutil.copytree(libraries, place, symlinks=True)
    processes.hand_over(processes.directory / "programs", *(processes.directory / "programs").rglob("*"))
    return PostgreSQLInstallation(copy / installation.root.name / "bin", installation.major)


def _can_run(installation: PostgreSQLInstallation, user: SystemUser) -> bool:
    try:
        program = installation.bin / "initdb"
        answer = subprocess.run(
            [program, "--version"], capture_output=True, check=False, user=user.uid, group=user.gid, extra_groups=[]
        )
    except PermissionError:
        return False
    return answer.returncode == 0


def _quote(name: str) -> str:
    return composed.Identifier(name).as_string(None)


def _literal(value: str) -> str:
    return composed.Literal(value).as_string(None)


def _setting(value: str) -> str:
    """A value in quotes, as in postgresql.conf, where a backslash is an escape character."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
