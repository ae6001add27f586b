"""An empty database for a subscriber node of ours."""

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
    """Where databases are made; each server is asked for when one is.

    Attributes:
        postgresql: a PostgreSQL server that is nobody's publisher.
        mariadb: a MariaDB server.
    """

    postgresql: Callable[[], PostgreSQL]
    mariadb: Callable[[], MariaDB]


@dataclass(frozen=True, slots=True)
class FreshTarget:
    """A database for a node.

    Attributes:
        url: SQLAlchemy's.
        disposable: it was made for the node and goes with it; else it is somebody's.
    """

    url: str = field(repr=False)  # it may hold a password
    disposable: bool = True


@contextlib.contextmanager
def fresh_target(kind: str, name: str, folder: Path, servers: TargetServers) -> Iterator[FreshTarget]:
    """An empty database, gone when the block ends.

    Args:
        kind: one of :data:`TARGET_KINDS`, or the URL of a database, which is used as it is: a node
            refuses one with subscriptions or tables of the session's names, and drops what it made.
        name: of the node, and of a database on a server.
        folder: for files.
        servers: for databases on servers; a leftover of the same name is dropped first.

    Raises:
        UsageError: it is neither a kind nor a URL, or there is no such server.
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
    """A file that is not there, removed at the end with what its database has put beside it."""
    _remove(file)
    try:
        yield file
    finally:
        _remove(file)


def _remove(file: Path) -> None:
    for one in (file, *file.parent.glob(f"{file.name}[-.]*")):
        one.unlink(missing_ok=True)
