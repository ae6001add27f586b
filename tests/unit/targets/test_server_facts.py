"""The version of a database of which only SQLAlchemy's dialect is known."""

from __future__ import annotations

import sqlite3

from subscriber.targets import open_target
from subscriber.targets.server_facts import read_version


def test_the_version_is_that_of_the_dialect(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as target, target.engine.connect() as connection:
        facts = read_version(connection)
        assert facts.version == ".".join(map(str, sqlite3.sqlite_version_info))
        assert facts.largest_value is None
        connection.dialect.server_version_info = None
        assert read_version(connection).version is None


def test_duckdb_has_its_own_version(tmp_path):
    with open_target(f"duckdb:///{tmp_path / 't.duckdb'}") as target, target.engine.connect() as connection:
        version = target.read_facts(connection).version
        assert version is not None
        assert version != "8.0"
        assert version[0].isdigit()
