"""Finding servers and naming databases; nothing is started here."""

from __future__ import annotations

import os
import pwd
import threading
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import make_url

from subscriber.base.errors import UsageError
from subscriber.testing.servers import open_servers, postgresql_server, processes
from subscriber.testing.servers.processes import GuardedProcesses, SystemUser, server_user


def fake_installation(place: Path, version: str, programs: tuple[str, ...] = ("initdb", "postgres", "psql")) -> Path:
    directory = place / "bin"
    directory.mkdir(parents=True)
    for name in programs:
        (directory / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (directory / name).chmod(0o755)
    return directory


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with nothing installed but what a test puts below ``tmp_path``."""
    monkeypatch.setattr(processes, "WHEEL", "no_such_wheel")
    monkeypatch.setattr(processes, "SYSTEM_PLACES", (f"{tmp_path}/postgresql/*/bin",))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(open_servers, "docker_answers", lambda: False)
    for name in list(os.environ):
        if name.startswith("SUBSCRIBER_TEST_"):
            monkeypatch.delenv(name)
    return tmp_path


def test_the_newest_system_installation_comes_first_by_number_not_by_text(machine):
    for version in ("9", "15", "16"):
        fake_installation(machine / "postgresql" / version, f"{version}.1")
    assert [found.major for found in processes.postgresql_installations()] == [16, 15, 9]
    assert processes.find_postgresql().major == 16
    assert processes.find_postgresql(15).bin == machine / "postgresql" / "15" / "bin"


def test_the_version_is_the_programs_not_the_directorys(machine):
    fake_installation(machine / "postgresql" / "latest", "17beta1")
    assert processes.find_postgresql().major == 17


def test_an_installation_of_clients_only_is_passed_over(machine):
    fake_installation(machine / "postgresql" / "15", "15.1", programs=("psql",))
    assert list(processes.postgresql_installations()) == []


def test_path_is_searched_last(machine):
    (machine / "path").symlink_to(fake_installation(machine / "elsewhere", "14.2"))
    fake_installation(machine / "postgresql" / "13", "13.2")
    assert [found.major for found in processes.postgresql_installations()] == [13, 14]


def test_psql_is_the_servers_version_if_there_is_one_and_paths_otherwise(machine):
    """What backslash commands print differs from version to version."""
    (machine / "path").symlink_to(fake_installation(machine / "elsewhere", "14.2", programs=("psql",)))
    fake_installation(machine / "postgresql" / "16", "16.1", programs=("psql",))
    fake_installation(machine / "postgresql" / "15", "15.1")
    assert processes.find_psql(15) == machine / "postgresql" / "15" / "bin" / "psql"
    assert postgresql_server.PostgreSQL("", 16).psql == machine / "postgresql" / "16" / "bin" / "psql"
    assert processes.find_psql(18) == machine / "path" / "psql"


def test_psql_is_found_without_path_and_refused_where_there_is_none(machine):
    with pytest.raises(UsageError, match="psql") as refusal:
        processes.find_psql(18)
    assert "postgresql-client" in (refusal.value.hint or "")
    fake_installation(machine / "postgresql" / "15", "15.1", programs=("psql",))
    assert processes.find_psql(18) == machine / "postgresql" / "15" / "bin" / "psql"


def test_the_wheel_comes_before_the_system(machine, monkeypatch):
    package = machine / "site" / "a_wheel"
    fake_installation(package / "pginstall18", "18.1")
    (package / "__init__.py").write_text("raise ImportError('the wheel must not be imported')")
    fake_installation(machine / "postgresql" / "18", "18.2")
    monkeypatch.syspath_prepend(str(machine / "site"))
    monkeypatch.setattr(processes, "WHEEL", "a_wheel")
    assert processes.find_postgresql(18).root == package / "pginstall18"


def test_a_version_that_is_not_here_is_refused_with_what_is(machine):
    fake_installation(machine / "postgresql" / "15", "15.1")
    with pytest.raises(UsageError, match="PostgreSQL 18") as refusal:
        open_servers.open_postgresql(18)
    assert "15" in (refusal.value.detail or "")
    assert "SUBSCRIBER_TEST_POSTGRESQL_18" in (refusal.value.hint or "")


def test_a_server_of_the_environment_is_taken_as_it_is(machine, monkeypatch):
    monkeypatch.setenv("SUBSCRIBER_TEST_POSTGRESQL_18", "postgresql://me:p%40ss@db.example:6000/x?sslmode=require")
    server = open_servers.open_postgresql(18)
    server.start()
    server.stop()
    assert (server.major, server.port) == (18, 6000)
    assert conninfo_to_dict(server.conninfo("a b'c", connect_timeout=3)) == {
        "user": "me", "password": "p@ss", "host": "db.example", "port": "6000",
        "sslmode": "require", "dbname": "a b'c", "connect_timeout": "3",
    }  # fmt: skip
    url = make_url(server.url("a b"))
    assert (url.drivername, url.password, url.database) == ("postgresql+psycopg", "p@ss", "a b")
    assert url.query == {"sslmode": "require"}


def test_a_folder_of_programs_in_the_environment_is_a_server_of_its_version(machine, monkeypatch):
    started = threading.Event()
    monkeypatch.setattr(postgresql_server.PostgreSQLServer, "start", lambda _: started.set())
    monkeypatch.setenv("SUBSCRIBER_TEST_POSTGRESQL_19", str(machine))
    server = open_servers.open_postgresql(19)
    assert (started.is_set(), server.major, server.psql) == (True, 19, machine / "psql")


def test_no_mariadb_is_refused_and_one_of_the_environment_is_taken(machine, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(UsageError, match="MariaDB") as refusal:
        open_servers.open_mariadb()
    assert "SUBSCRIBER_TEST_MARIADB" in (refusal.value.hint or "")
    monkeypatch.setenv("SUBSCRIBER_TEST_MARIADB", "mysql+pymysql://me:secret@db.example/?charset=utf8mb4")
    assert open_servers.open_mariadb().url("x") == "mysql+pymysql://me:secret@db.example/x?charset=utf8mb4"


def test_a_setting_with_quotes_and_backslashes_reaches_the_configuration_whole():
    assert postgresql_server._setting(r"C:\x 'y'") == r"'C:\\x ''y'''"


def test_what_the_code_needs_is_part_of_what_a_test_server_gets():
    assert open_servers.REQUIRED_SETTINGS.items() <= open_servers.PUBLISHER_SETTINGS.items()
    assert open_servers.PUBLISHER_SETTINGS["wal_level"] == "logical"
    assert open_servers.PUBLISHER_SETTINGS["listen_addresses"] == "127.0.0.1"


def test_root_serves_as_somebody_else_and_everybody_else_as_themselves(monkeypatch):
    """PostgreSQL refuses to run as root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert server_user() is None
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(processes, "_lookup", lambda name: SystemUser(name, 7, 8) if name == "subscriber" else None)
    assert server_user() == SystemUser("subscriber", 7, 8)


def test_without_useradd_root_serves_as_nobody(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    known = {"nobody": SystemUser("nobody", 65534, 65534)}
    monkeypatch.setattr(processes, "_lookup", known.get)
    assert server_user() == known["nobody"]
    assert processes._lookup("no such user") is None


def test_a_guarded_command_runs_in_its_own_directory_as_the_servers_user():
    guarded = GuardedProcesses("test")
    try:
        assert guarded.run(["sh", "-c", "id -un; pwd; echo PG=$PGHOST; exit 3"], 30) == 3
        expected = pwd.getpwuid(guarded.user.uid if guarded.user else os.geteuid()).pw_name
        assert guarded.last_lines().splitlines() == [expected, str(guarded.directory), "PG="]
    finally:
        guarded.close()
    assert not guarded.directory.exists()


def test_a_guarded_command_that_ignores_its_signal_is_killed():
    guarded = GuardedProcesses("test")
    try:
        guarded.spawn(["sh", "-c", "trap '' TERM; echo ready; sleep 60 & wait; wait"])
        while "ready" not in guarded.last_lines():
            assert guarded.is_running()
        guarded.end(["SIGTERM"], 0.5)
        assert not guarded.is_running()
        assert guarded.wait(1) == 128 + 9
    finally:
        guarded.close()
