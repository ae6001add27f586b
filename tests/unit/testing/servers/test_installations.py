"""Which servers are on this machine, among programs that only print a version."""

from __future__ import annotations

from pathlib import Path

import pytest

from subscriber.base.errors import UsageError
from subscriber.testing.servers import processes
from subscriber.testing.servers.processes import find_mariadb, find_postgresql, find_psql, postgresql_installations


def program(path: Path, says: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def server(folder: Path, version: str, programs: tuple[str, ...] = ("initdb", "postgres", "psql")) -> Path:
    """Install the programs of a server in ``folder``, and return it."""
    for name in programs:
        program(folder / name, f"{name} (PostgreSQL) {version}")
    return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch) -> Path:
    """A machine without servers, whose places for them are below the returned folder."""
    monkeypatch.setattr(processes, "WHEEL", "no_such_wheel")
    monkeypatch.setattr(processes, "SYSTEM_PLACES", (f"{tmp_path}/postgresql/*/bin", f"{tmp_path}/pgsql-*/bin"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path


def test_the_newest_of_a_place_comes_first_and_path_comes_last(machine):
    server(machine / "postgresql" / "9.6" / "bin", "9.6.24")
    server(machine / "postgresql" / "16" / "bin", "16.3 (Debian 16.3-1)")
    server(machine / "pgsql-17" / "bin", "17.1")
    server(machine / "path", "15.4")
    assert [one.major for one in postgresql_installations()] == [16, 9, 17, 15]


@pytest.mark.parametrize("missing", ["initdb", "postgres", "psql"])
def test_an_installation_without_a_program_is_left_out(machine, missing):
    server(machine / "pgsql-17" / "bin", "17.1").joinpath(missing).unlink()
    assert list(postgresql_installations()) == []


def test_a_program_that_tells_no_version_is_left_out(machine):
    server(machine / "pgsql-17" / "bin", "devel")
    assert list(postgresql_installations()) == []


def test_the_version_is_the_servers_own_and_not_that_of_its_folder(machine):
    server(machine / "postgresql" / "16" / "bin", "17.2")
    assert find_postgresql(17).root == machine / "postgresql" / "16"


def test_the_first_installation_of_a_version_is_found(machine):
    server(machine / "postgresql" / "16" / "bin", "16.3")
    server(machine / "pgsql-16" / "bin", "16.1")
    server(machine / "postgresql" / "18" / "bin", "18.0")
    assert find_postgresql(16).bin == machine / "postgresql" / "16" / "bin"
    assert find_postgresql().major == 18


def test_a_version_that_is_not_there_is_refused_with_those_that_are(machine):
    server(machine / "pgsql-16" / "bin", "16.1")
    with pytest.raises(UsageError, match="no server programs of PostgreSQL 15 were found") as raised:
        find_postgresql(15)
    assert raised.value.detail == "Found: 16."


def test_a_machine_without_any_server_says_so(machine):
    with pytest.raises(UsageError, match=r"^no server programs of PostgreSQL were found on this machine$") as raised:
        find_postgresql()
    assert raised.value.detail == "Found: none."


def test_the_psql_of_the_version_is_preferred_to_that_on_path(machine):
    """Its backslash commands print differently in each version."""
    server(machine / "path", "15.4", programs=("psql",))
    server(machine / "pgsql-17" / "bin", "17.1", programs=("psql",))
    assert find_psql(17) == machine / "pgsql-17" / "bin" / "psql"
    assert find_psql(16) == machine / "path" / "psql"


def test_any_psql_will_do(machine):
    server(machine / "pgsql-17" / "bin", "17.1", programs=("psql",))
    assert find_psql(15) == machine / "pgsql-17" / "bin" / "psql"


def test_without_psql_it_is_said_what_to_install(machine):
    with pytest.raises(UsageError, match="psql was not found") as raised:
        find_psql(18)
    assert raised.value.hint == "Install postgresql-client."


def test_mariadb_is_the_one_on_path(machine):
    mariadbd = program(machine / "path" / "mariadbd")
    install = program(machine / "path" / "mariadb-install-db")
    found = find_mariadb()
    assert (found.server, found.install) == (mariadbd, install)
