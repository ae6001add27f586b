"""Private database servers for the demo, the scenarios and the tests.

A server is taken from the first of these places that has one::

    environment    SUBSCRIBER_TEST_POSTGRESQL_18='host=… user=…'     the user's; never started or stopped
    this machine   wheel, /usr/lib/postgresql, PATH, Homebrew        PostgreSQLServer, MariaDBServer
    container      testcontainers, when Docker answers               ended by testcontainers

Invariants of a server that this program starts:

- It has a separate data directory, and a separate port on the loopback address.
- It runs as an unprivileged user if this process is root, because PostgreSQL refuses root.
- It ends when this process ends, for whatever reason (see `subscriber.scenario.servers.guard`).
- It has no password, because only users of this machine can connect to it.
- It has fsync off, because its data need not survive a crash of the machine. After its *process* is
  killed and restarted, it still has all data.

A server keeps its port over a restart, so that a subscriber can connect to it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from subscriber.errors import UsageError
from subscriber.scenario.servers.containers import mariadb_container, postgresql_container
from subscriber.scenario.servers.installations import (
    MariaDBInstallation,
    PostgreSQLInstallation,
    find_mariadb,
    find_postgresql,
)
from subscriber.scenario.servers.mariadb_server import MariaDB, MariaDBServer
from subscriber.scenario.servers.postgresql_server import (
    PUBLISHER_SETTINGS,
    REQUIRED_SETTINGS,
    PostgreSQL,
    PostgreSQLServer,
)

__all__ = [
    "PUBLISHER_SETTINGS",
    "REQUIRED_SETTINGS",
    "MariaDB",
    "MariaDBInstallation",
    "MariaDBServer",
    "PostgreSQL",
    "PostgreSQLInstallation",
    "PostgreSQLServer",
    "find_mariadb",
    "find_postgresql",
    "open_mariadb",
    "open_postgresql",
]

_Server = TypeVar("_Server", PostgreSQL, MariaDB)


def open_postgresql(major: int = 18, settings: Mapping[str, str] | None = None) -> PostgreSQL:
    """A started PostgreSQL server of this version, from the first place that has one (see the
    module).

    ``settings`` override `PUBLISHER_SETTINGS`. The server of the environment keeps its settings.

    Raises:
        UsageError: there is no server. The error lists the places that were searched.
        PublisherUnavailable: there is a server, but it does not start.
    """
    variable = f"SUBSCRIBER_TEST_POSTGRESQL_{major}"
    if given := os.environ.get(variable):
        return PostgreSQL(given, major)
    return _start(
        lambda: PostgreSQLServer(find_postgresql(major), settings),
        lambda: postgresql_container(major, {**PUBLISHER_SETTINGS, **(settings or {})}),
        variable,
    )


def open_mariadb(settings: Mapping[str, str] | None = None) -> MariaDB:
    """A started MariaDB server, from the first place that has one (see the module).

    ``settings`` override `MARIADB_SETTINGS`. The server of the environment keeps its settings. The
    variable of the environment is ``SUBSCRIBER_TEST_MARIADB``, a URL.

    Raises:
        UsageError: there is no server. The error lists the places that were searched.
        TargetUnavailable: there is a server, but it does not start.
    """
    variable = "SUBSCRIBER_TEST_MARIADB"
    if given := os.environ.get(variable):
        return MariaDB(given)
    return _start(lambda: MariaDBServer(find_mariadb(), settings), lambda: mariadb_container(settings or {}), variable)


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
