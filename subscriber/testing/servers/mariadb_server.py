"""MariaDB servers: any that can be connected to, and private servers that are started here."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError
from typing_extensions import override

from subscriber.base.errors import TargetUnavailable
from subscriber.testing.servers.processes import (
    DatabaseServer,
    GuardedProcesses,
    MariaDBInstallation,
    find_mariadb,
    free_port,
)

START_SECONDS: Final = 90.0

MARIADB_SETTINGS: Final = {"innodb-flush-log-at-trx-commit": "0", "innodb-buffer-pool-size": "64M"}
"""The server uses little memory, and does not sync its log."""

_STOP_SECONDS: Final = 20.0


class MariaDB(DatabaseServer):
    """A MariaDB server that can be connected to."""

    def __init__(self, url: str, end: Callable[[], None] | None = None) -> None:
        super().__init__(end)
        self._url = make_url(url)

    def url(self, dbname: str | None = None) -> str:
        """The SQLAlchemy URL of a database, or of the server, with the password if there is one."""
        return self._url.set(database=dbname).render_as_string(hide_password=False)

    def execute(self, sql: str, dbname: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement in autocommit mode, on a new connection, and return its rows."""
        engine = create_engine(self.url(dbname), isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                result = connection.execute(text(sql))
                return [tuple(row) for row in result] if result.returns_rows else []
        finally:
            engine.dispose()

    def create_database(self, name: str) -> None:
        self.execute(f"CREATE DATABASE {_backquote(name)}")

    def drop_database(self, name: str) -> None:
        """Drop a database after its prepared transactions, whose locks would block the DROP."""
        prepared: list[tuple[Any, ...]] = []
        with suppress(ProgrammingError):  # not every server of MySQL's family has XA transactions
            prepared = self.execute("XA RECOVER")
        for _, length, _, data in prepared:
            gid, database = data[:length], data[length:]
            if database == name.encode():
                self.execute(f"XA ROLLBACK X'{gid.hex()}',X'{database.hex()}'")
        self.execute(f"DROP DATABASE IF EXISTS {_backquote(name)}")


class PrivateServer(MariaDB, ABC):
    """A server on 127.0.0.1 that is started here, and its data are removed at the end. ``name`` is
    that of the database in messages.
    """

    name: ClassVar[str]

    def __init__(self, user: str) -> None:
        self._port = free_port()
        super().__init__(f"mysql+pymysql://{user}@127.0.0.1:{self._port}/?charset=utf8mb4")
        self._processes: GuardedProcesses | None = None

    @abstractmethod
    def _create(self, processes: GuardedProcesses) -> None:
        """Put what the server needs into the folder of its processes."""

    @abstractmethod
    def _command(self, folder: Path) -> Sequence[str | Path]:
        """The server's command line."""

    def start(self) -> None:
        """Start the server and wait for it; TargetUnavailable has the end of its log."""
        processes = self._prepared()
        if processes.is_running():
            return
        processes.spawn([*self._command(processes.directory)])
        deadline = time.monotonic() + START_SECONDS
        while processes.is_running() and time.monotonic() < deadline:
            try:
                self.execute("SELECT 1")
            except SQLAlchemyError:
                time.sleep(0.1)
            else:
                return
        self.stop()
        raise _failure(f"{self.name} did not start", processes)

    def stop(self) -> None:
        if self._processes is not None:
            self._processes.end(["SIGTERM"], _STOP_SECONDS)

    def kill(self) -> None:
        """Kill the server. The next start recovers its data."""
        if self._processes is not None:
            self._processes.end(["SIGKILL"], _STOP_SECONDS)

    def close(self) -> None:
        """Stop the server and remove its data directory."""
        self.stop()
        if self._processes is not None:
            self._processes.close()
            self._processes = None

    def _prepared(self) -> GuardedProcesses:
        if self._processes is None:
            processes = self._processes = GuardedProcesses(self.name.lower())
            try:
                self._create(processes)
            except BaseException:
                self.close()
                raise
        return self._processes


class MariaDBServer(PrivateServer):
    """With UTC and utf8mb4; user ``subscriber``, no password."""

    name = "MariaDB"

    def __init__(
        self, installation: MariaDBInstallation | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self._settings = {**MARIADB_SETTINGS, **(settings or {})}
        self._installation = installation or find_mariadb()
        super().__init__("subscriber")

    @override
    def _create(self, processes: GuardedProcesses) -> None:
        users = processes.directory / "users.sql"
        users.write_text(
            "CREATE USER IF NOT EXISTS 'subscriber'@'127.0.0.1';\n"
            "GRANT ALL ON *.* TO 'subscriber'@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        processes.hand_over(users)
        command: list[str | Path] = [
            self._installation.install,
            "--no-defaults",
            f"--datadir={processes.directory / 'data'}",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
        ]
        if processes.run(command, START_SECONDS) != 0:
            raise _failure("mariadb-install-db failed", processes)

    @override
    def _command(self, folder: Path) -> Sequence[str | Path]:
        return [
            self._installation.server,
            "--no-defaults",
            f"--datadir={folder / 'data'}",
            f"--socket={folder / 'socket'}",
            f"--pid-file={folder / 'pid'}",
            f"--init-file={folder / 'users.sql'}",
            "--bind-address=127.0.0.1",
            f"--port={self._port}",
            "--default-time-zone=+00:00",
            "--character-set-server=utf8mb4",
            *(f"--{name}={value}" for name, value in self._settings.items()),
        ]


def _failure(message: str, processes: GuardedProcesses) -> TargetUnavailable:
    return TargetUnavailable(message, detail=f"The end of its log:\n{processes.last_lines()}")


def _backquote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
