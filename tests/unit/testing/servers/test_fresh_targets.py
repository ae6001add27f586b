"""Empty databases for subscriber nodes."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

import pytest

from subscriber.base.errors import UsageError
from subscriber.testing.servers.open_servers import FreshTarget, TargetServers, fresh_target


class Server:
    """Notes what is asked of it."""

    def __init__(self):
        self.asked = []

    def create_database(self, name):
        self.asked.append(f"create {name}")

    def drop_database(self, name):
        self.asked.append(f"drop {name}")

    def url(self, name):
        return f"dialect://{name}"


def no_server():
    raise UsageError("there is no server")


NO_SERVERS = TargetServers(no_server, no_server)


def test_sqlite_is_a_file_that_can_be_read_while_it_is_written(tmp_path):
    (tmp_path / "test_sub.db").write_text("a leftover")
    with fresh_target("sqlite", "test_sub", tmp_path, NO_SERVERS) as fresh:
        assert fresh.url == f"sqlite:///{tmp_path / 'test_sub.db'}"
        with contextlib.closing(sqlite3.connect(tmp_path / "test_sub.db")) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
        (tmp_path / "test_sub.db.subscriber-lock").touch()
        (tmp_path / "test_sub.dbx").touch()
    assert [file.name for file in tmp_path.iterdir()] == ["test_sub.dbx"]


def test_duckdb_is_a_file_that_its_driver_makes(tmp_path):
    with fresh_target("duckdb", "test_sub", tmp_path, NO_SERVERS) as fresh:
        assert fresh.url == f"duckdb:///{tmp_path / 'test_sub.duckdb'}"
        (tmp_path / "test_sub.duckdb").touch()
        (tmp_path / "test_sub.duckdb.wal").touch()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_server_s_database_is_made_anew_and_dropped_whatever_happens(tmp_path, kind):
    """It has the node's name, as a native subscriber's has"""
    server: Any = Server()
    servers = (
        TargetServers(lambda: server, no_server) if kind == "postgresql" else TargetServers(no_server, lambda: server)
    )
    with contextlib.suppress(KeyError), fresh_target(kind, "test_sub", tmp_path, servers) as fresh:
        assert fresh.url == "dialect://test_sub"
        assert server.asked == ["drop test_sub", "create test_sub"]
        raise KeyError
    assert server.asked[2:] == ["drop test_sub"]


def test_a_url_is_used_as_it_is(tmp_path):
    with fresh_target("mysql+pymysql://me@db/x", "test_sub", tmp_path, NO_SERVERS) as fresh:
        assert fresh == FreshTarget("mysql+pymysql://me@db/x", disposable=False)


@pytest.mark.parametrize("kind", ["oracle", "", "native"])
def test_anything_else_is_refused_with_what_there_is(tmp_path, kind):
    with pytest.raises(UsageError) as raised, fresh_target(kind, "test_sub", tmp_path, NO_SERVERS):
        pass
    assert "sqlite, postgresql, duckdb, mariadb" in str(raised.value.hint)
