"""An empty database for a subscriber node that is a target."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from subscriber.errors import UsageError
from subscriber.scenario.servers.mariadb_server import MariaDB
from subscriber.scenario.servers.postgresql_server import PostgreSQL
from subscriber.targets.sqlite.target import new_database

TARGET_KINDS: Final = ("sqlite", "postgresql", "duckdb", "mariadb")


@dataclass(frozen=True, slots=True)
class TargetServers:
    """The servers on which databases are created. Each server is started when it is first needed.

    Attributes:
        postgresql: gives a PostgreSQL server that is not a publisher.
        mariadb: gives a MariaDB server.
    """

    postgresql: Callable[[], PostgreSQL]
    mariadb: Callable[[], MariaDB]


@dataclass(frozen=True, slots=True)
class FreshTarget:
    """A database for a node.

    Attributes:
        url: its SQLAlchemy URL.
        disposable: whether the database was created for the node, and is dropped with it. Otherwise
            it is a database that the user has named.
    """

    url: str = field(repr=False)  # it may hold a password
    disposable: bool = True


@contextlib.contextmanager
def fresh_target(kind: str, name: str, folder: Path, servers: TargetServers) -> Iterator[FreshTarget]:
    """An empty database, which is dropped at the end of the ``with`` block.

    Args:
        kind: one of :data:`TARGET_KINDS`, or the URL of a database. A database with a URL is used
            as it is: a node refuses it if it has subscriptions, or tables with names that the
            session uses, and drops the tables that the node has created.
        name: name of the node, and of the database on a server.
        folder: folder for files.
        servers: the servers for databases. An existing database with this name is dropped first.

    Raises:
        UsageError: ``kind`` is neither a kind nor a URL, or there is no such server.
    """
    match kind:
        case "sqlite":
            with _file(folder / f"{name}.db") as file:
                new_database(file)
                yield FreshTarget(f"sqlite:///{file}")
        case "duckdb":
            with _file(folder / f"{name}.duckdb") as file:
                yield FreshTarget(f"duckdb:///{file}")
        case "postgresql" | "mariadb":
            server: PostgreSQL | MariaDB = servers.postgresql() if kind == "postgresql" else servers.mariadb()
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
                hint=f"It is one of {', '.join(TARGET_KINDS)}, or the SQLAlchemy URL of a database.",
            )


@contextlib.contextmanager
def _file(file: Path) -> Iterator[Path]:
    """The path of a file that does not exist.

    At the end the file is removed, with the files that its database has created beside it.
    """
    _remove(file)
    try:
        yield file
    finally:
        _remove(file)


def _remove(file: Path) -> None:
    for one in (file, *file.parent.glob(f"{file.name}[-.]*")):
        one.unlink(missing_ok=True)
