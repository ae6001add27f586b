"""Database servers in containers, for a machine that has Docker but no server programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import make_url

from subscriber.scenario.servers.mariadb_server import MariaDB
from subscriber.scenario.servers.postgresql_server import PostgreSQL

MARIADB_IMAGE: Final = "mariadb:11"

_HOST_ONLY: Final = frozenset({"listen_addresses", "unix_socket_directories"})
"""Settings that the image sets itself: a server in a container listens on all addresses of the
container.
"""


class _PostgreSQLContainer(PostgreSQL):
    """A PostgreSQL server that ends with its container."""

    def __init__(self, conninfo: str, major: int, container: Any) -> None:
        super().__init__(conninfo, major)
        self._container = container

    def stop(self) -> None:
        self._container.stop()

    close = stop


class _MariaDBContainer(MariaDB):
    """A MariaDB server that ends with its container."""

    def __init__(self, url: str, container: Any) -> None:
        super().__init__(url)
        self._container = container

    def stop(self) -> None:
        self._container.stop()

    close = stop


def docker_answers() -> bool:
    """Whether the libraries for Docker are installed and a Docker daemon answers."""
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
    """A running container of ``postgres:<major>`` with ``settings``. None if Docker does not
    answer.
    """
    if not docker_answers():
        return None
    from testcontainers.postgres import PostgresContainer

    options = " ".join(f"-c {name}={value}" for name, value in settings.items() if name not in _HOST_ONLY)
    container = PostgresContainer(f"postgres:{major}").with_command(f"postgres {options}").start()
    url = make_url(container.get_connection_url(driver=None))
    conninfo = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return _PostgreSQLContainer(conninfo, major, container)


def mariadb_container(settings: Mapping[str, str]) -> MariaDB | None:
    """A running container of `MARIADB_IMAGE` with ``settings``. None if Docker does not answer."""
    if not docker_answers():
        return None
    from testcontainers.mysql import MySqlContainer

    options = [f"--{name}={value}" for name, value in settings.items()]
    container = MySqlContainer(MARIADB_IMAGE, username="root", dialect="pymysql").with_command(options).start()
    return _MariaDBContainer(container.get_connection_url(), container)
