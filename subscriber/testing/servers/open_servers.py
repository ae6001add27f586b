"""Private database servers for the demo, the scenarios and the tests.

A server is taken from the first of these places that has one::

    environment    SUBSCRIBER_TEST_POSTGRESQL_18='host=… user=…'     the user's; never started or stopped
                   SUBSCRIBER_TEST_POSTGRESQL_19=/opt/pg19/bin       a folder of server programs: PostgreSQLServer
    this machine   wheel, /usr/lib/postgresql, PATH, Homebrew        PostgreSQLServer, MariaDBServer
    container      testcontainers, when Docker answers               ended by testcontainers

Invariants of a server that this program starts:

- It has a data directory and a port on the loopback address of its own. It keeps the port over a
  restart, so that a subscriber can connect to it again.
- It runs as an unprivileged user if this process is root, because PostgreSQL refuses root.
- It ends when this process ends, for whatever reason (see `subscriber.testing.servers.guard`).
- It has no password, because only users of this machine can connect to it.
- It has fsync off: its data survives the death of its process, but not a crash of the machine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import make_url

from subscriber.base.errors import UsageError
from subscriber.targets.sqlite.target import new_database
from subscriber.testing.servers.firebird_database import new_firebird
from subscriber.testing.servers.mariadb_server import MariaDB, MariaDBServer
from subscriber.testing.servers.postgresql_server import (
    PUBLISHER_SETTINGS,
    REQUIRED_SETTINGS,
    PostgreSQL,
    PostgreSQLServer,
)
from subscriber.testing.servers.processes import (
    MariaDBInstallation,
    PostgreSQLInstallation,
    find_mariadb,
    find_postgresql,
)
from subscriber.testing.servers.seekdb_server import SeekDB

__all__ = [
    "PUBLISHER_SETTINGS",
    "REQUIRED_SETTINGS",
    "MariaDB",
    "MariaDBInstallation",
    "MariaDBServer",
    "PostgreSQL",
    "PostgreSQLInstallation",
    "PostgreSQLServer",
    "SeekDB",
    "find_mariadb",
    "find_postgresql",
    "open_mariadb",
    "open_postgresql",
    "open_seekdb",
]

_Server = TypeVar("_Server", PostgreSQL, MariaDB)


def open_postgresql(major: int = 18, settings: Mapping[str, str] | None = None) -> PostgreSQL:
    """A started server; ``settings`` override `PUBLISHER_SETTINGS`, except in the environment's
    own. UsageError lists the places that were searched.
    """
    variable = f"SUBSCRIBER_TEST_POSTGRESQL_{major}"
    given = os.environ.get(variable)
    if given and os.path.isdir(given):
        server = PostgreSQLServer(PostgreSQLInstallation(Path(given), major), settings)
        server.start()
        return server
    if given:
        return PostgreSQL(given, major)
    return _start(
        lambda: PostgreSQLServer(find_postgresql(major), settings),
        lambda: postgresql_container(major, {**PUBLISHER_SETTINGS, **(settings or {})}),
        variable,
    )


def open_mariadb(settings: Mapping[str, str] | None = None) -> MariaDB:
    """As :func:`open_postgresql`; ``SUBSCRIBER_TEST_MARIADB`` has the environment's URL."""
    variable = "SUBSCRIBER_TEST_MARIADB"
    if given := os.environ.get(variable):
        return MariaDB(given)
    return _start(lambda: MariaDBServer(find_mariadb(), settings), lambda: mariadb_container(settings or {}), variable)


def open_seekdb() -> MariaDB:
    """A started server; UsageError if pylibseekdb is not installed."""
    server = SeekDB()
    server.start()
    return server


def _start(local: Callable[[], _Server], container: Callable[[], _Server | None], variable: str) -> _Server:
    try:
        server = local()
    except UsageError as error:
        contained = container()
        if contained is None:
            raise UsageError(
                error.message,
                detail=error.detail,
                hint=f"{error.hint} Or start Docker, or name a server in {variable}.",
            ) from error
        server = contained
    server.start()
    return server


MARIADB_IMAGE: Final = "mariadb:11"

_HOST_ONLY: Final = frozenset({"listen_addresses", "unix_socket_directories"})
"""A server in a container listens on all its addresses; the image sets these itself."""


def docker_answers() -> bool:
    try:
        import docker
        import testcontainers  # noqa: F401  (only checked, not used)
    except ImportError:
        return False
    try:
        docker.from_env(timeout=5).ping()
    except Exception:  # whatever the error is, Docker is not available
        return False
    return True


def postgresql_container(major: int, settings: Mapping[str, str]) -> PostgreSQL | None:
    """A running container of ``postgres:<major>``. None if Docker does not answer."""
    if not docker_answers():
        return None
    from testcontainers.postgres import PostgresContainer

    options = " ".join(f"-c {name}={value}" for name, value in settings.items() if name not in _HOST_ONLY)
    container = PostgresContainer(f"postgres:{major}").with_command(f"postgres {options}").start()
    url = make_url(container.get_connection_url(driver=None))
    conninfo = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return PostgreSQL(conninfo, major, container.stop)


def mariadb_container(settings: Mapping[str, str]) -> MariaDB | None:
    """A running container of `MARIADB_IMAGE`. None if Docker does not answer."""
    if not docker_answers():
        return None
    from testcontainers.mysql import MySqlContainer

    options = [f"--{name}={value}" for name, value in settings.items()]
    container = MySqlContainer(MARIADB_IMAGE, username="root", dialect="pymysql").with_command(options).start()
    return MariaDB(container.get_connection_url(), container.stop)


TARGET_KINDS: Final = ("sqlite", "postgresql", "duckdb", "mariadb")
FURTHER_KINDS: Final = ("turso", "seekdb", "firebird")
"""What the roles of the others, or the probes, serve as well."""


@dataclass(frozen=True, slots=True)
class TargetServers:
    """The servers on which databases are created. Each is started when it is first needed."""

    postgresql: Callable[[], PostgreSQL]
    mariadb: Callable[[], MariaDB]
    seekdb: Callable[[], MariaDB] = open_seekdb


@dataclass(frozen=True, slots=True)
class FreshTarget:
    """A database for a node; unless it is ``disposable``, it is one that the user has named."""

    url: str = field(repr=False)  # it may hold a password
    disposable: bool = True


@contextlib.contextmanager
def fresh_target(kind: str, name: str, folder: Path, servers: TargetServers) -> Iterator[FreshTarget]:
    """An empty database, dropped at the end; UsageError: neither kind nor URL, or no server."""
    match kind:
        case "sqlite":
            with _file(folder / f"{name}.db") as file:
                new_database(file)
                yield FreshTarget(f"sqlite:///{file}")
        case "duckdb":
            with _file(folder / f"{name}.duckdb") as file:
                yield FreshTarget(f"duckdb:///{file}")
        case "turso":
            with _file(folder / f"{name}.turso") as file:
                yield FreshTarget(f"sqlite+turso:///{file}")
        case "firebird":
            with _file(folder / f"{name}.fdb") as file:
                yield FreshTarget(new_firebird(file))
        case "postgresql" | "mariadb" | "seekdb":
            server: PostgreSQL | MariaDB = getattr(servers, kind)()
            server.drop_database(name)
            server.create_database(name)
            try:
                yield FreshTarget(server.url(name))
            finally:
                server.drop_database(name)
        case _ if "://" in kind:
            yield FreshTarget(kind, disposable=False)
        case _:
            raise UsageError(
                f'unknown kind of target "{kind}"',
                hint=f"It is one of {', '.join((*TARGET_KINDS, *FURTHER_KINDS))}, or the SQLAlchemy URL of a database.",
            )


@contextlib.contextmanager
def _file(file: Path) -> Iterator[Path]:
    """The path of a new file. It is removed with the files that its database creates beside it."""
    _remove(file)
    try:
        yield file
    finally:
        _remove(file)


def _remove(file: Path) -> None:
    for one in (file, *file.parent.glob(f"{file.name}[-.]*")):
        one.unlink(missing_ok=True)
