"""Private database servers for the demo, the scenarios and the tests.

Where a server comes from (design, "where databases come from"), in this order::

    environment    SUBSCRIBER_TEST_POSTGRESQL_18='host=… user=…'     someone else's; never started or stopped
    this machine   wheel, /usr/lib/postgresql, PATH, Homebrew        PostgreSQLServer, MariaDBServer
    container      testcontainers, when Docker answers               ended by testcontainers

Invariants of a server that we start: its own data directory, a port of its own that only loopback
can reach, an unprivileged user when we are root (PostgreSQL refuses root), and its end when this
process ends, however that happens (see `subscriber.scenario.servers.guard`). It has no password,
because nobody else can reach it but this machine's users, and no durability (fsync is off), because
nothing in it is worth keeping: a *process* killed and restarted still finds everything, a machine
would not.

A server's port stays the same over a restart, so that a subscriber can find it again.
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
    """A started PostgreSQL of this version: the environment's, this machine's, or a container's.

    Settings go over `PUBLISHER_SETTINGS`; the environment's server keeps its own.

    Raises:
        UsageError: there is none to be had; it says where was looked.
        PublisherUnavailable: there is one, and it does not start.
    """
    variable = f"SUBSCRIBER_TEST_POSTGRESQL_{major}"
    if given := os.environ.get(variable):
        return PostgreSQL(given, major)
    return _start(
        lambda: PostgreSQLServer(find_postgresql(major), settings),
        lambda: postgresql_container(major, {**PUBLISHER_SETTINGS, **(settings or {})}),
        variable,
    )


def open_mariadb() -> MariaDB:
    """A started MariaDB: the environment's (``SUBSCRIBER_TEST_MARIADB``, a URL), this machine's, or
    a container's.

    Raises:
        UsageError: there is none to be had; it says where was looked.
        TargetUnavailable: there is one, and it does not start.
    """
    variable = "SUBSCRIBER_TEST_MARIADB"
    if given := os.environ.get(variable):
        return MariaDB(given)
    return _start(lambda: MariaDBServer(find_mariadb()), mariadb_container, variable)


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
