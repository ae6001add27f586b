"""PostgreSQL servers: any that can be connected to, and private servers that are started here."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql as composed
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import URL

from subscriber.base.digits import parse_int
from subscriber.base.errors import PublisherUnavailable, UsageError
from subscriber.testing.servers.processes import (
    DatabaseServer,
    GuardedProcesses,
    PostgreSQLInstallation,
    SystemUser,
    find_postgresql,
    find_psql,
    free_port,
)

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

There is no autovacuum: a worker that analyzes a table, also one that all databases share, is a
transaction of its own, which test_decoding shows as an empty one. What a slot has would depend on
the time.
"""

START_SECONDS: Final = 90.0
"""It takes about 1 second, or 10 on a busy machine with one core."""

_STOP_SECONDS: Final = 20.0
_PORT_ATTEMPTS: Final = 5


class PostgreSQL(DatabaseServer):
    """A PostgreSQL server that can be connected to."""

    def __init__(self, conninfo: str, major: int, end: Callable[[], None] | None = None) -> None:
        super().__init__(end)
        self.major = major
        self._parameters: dict[str, Any] = dict(conninfo_to_dict(conninfo))

    @property
    def port(self) -> int:
        """The TCP port; UsageError (22023) if it is not a valid number."""
        port = str(self._parameters.get("port") or 5432)
        if not (port.isascii() and port.isdecimal() and parse_int(port) < 2**16):
            raise UsageError(f'invalid integer value "{port}" for connection option "port"', sqlstate="22023")
        return parse_int(port)

    @property
    def psql(self) -> Path:
        """A psql program on this machine, of the server's version if there is one."""
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
        """The last rows, in autocommit mode; several statements are one implicit transaction."""
        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.conninfo(dbname), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            while True:
                if cursor.description is not None:
                    rows = cursor.fetchall()
                if not cursor.nextset():
                    return rows

    def create_database(self, name: str) -> None:
        self.execute(f"CREATE DATABASE {_quote(name)}")

    def drop_database(self, name: str) -> None:
        """Drop a database with its sessions, slots, subscriptions and prepared transactions, and
        with the replication origins of a target: they belong to the whole server, which can have
        only few.
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
    """A private server on 127.0.0.1, with superuser ``postgres`` and no password. Example::

    with PostgreSQLServer() as server:
        server.execute("SELECT 1")
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
        return self._programs.bin

    @property
    def psql(self) -> Path:
        return self.bin / "psql"

    @property
    def data_directory(self) -> Path:
        """It exists from the first start until `close`."""
        return self._prepared().directory / "data"

    @property
    def running(self) -> bool:
        return self._processes is not None and self._processes.is_running()

    def start(self) -> None:
        """Start the server and wait for it; PublisherUnavailable has the end of its log."""
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
        """Stop the server, and start it again on the same port, with ``settings`` changed."""
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
    """The programs, or a copy if the server's user cannot run them, such as a clone below /root."""
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
