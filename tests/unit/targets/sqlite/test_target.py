"""SQLite as a target: one file."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa

from subscriber.targets import open_target
from subscriber.targets.sqlite.target import CACHE_KIB, new_database
from tests.unit.targets.tables import execute, reflected, rows


def test_a_new_database_is_empty_and_can_be_read_while_it_is_written(tmp_path):
    file = tmp_path / "new.db"
    for _ in range(2):
        new_database(file)
        with open_target(f"sqlite:///{file}") as target:
            assert rows(target, "SELECT * FROM sqlite_master") == []
            execute(target, "CREATE TABLE t (a)")
            with target.begin() as writer, target.engine.connect() as reader:
                writer.exec_driver_sql("INSERT INTO t VALUES (1)")
                assert reader.exec_driver_sql("SELECT * FROM t").all() == []


def test_foreign_keys_are_not_enforced(target):
    """C23"""
    execute(target, "CREATE TABLE p (a INTEGER PRIMARY KEY)", "CREATE TABLE c (a INTEGER REFERENCES p)")
    execute(target, "INSERT INTO c VALUES (1)")


def test_a_session_keeps_what_is_committed_and_enforces_no_foreign_keys(target):
    """C23; 2 is FULL: https://www.sqlite.org/pragma.html#pragma_synchronous"""
    settings = {name: rows(target, f"PRAGMA {name}")[0][name] for name in ("synchronous", "foreign_keys", "cache_size")}
    assert settings == {"synchronous": 2, "foreign_keys": 0, "cache_size": -CACHE_KIB}


def test_a_new_database_replaces_the_files_of_the_old_one(tmp_path):
    file = tmp_path / "t.db"
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"t.db{suffix}").write_bytes(b"old")
    new_database(file)
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_reflected_table_is_quoted_where_it_must_be(target):
    """names_are_data"""
    execute(target, 'CREATE TABLE "nothing" ("a b" INT)')
    column = reflected(target, "nothing").clause().c["a b"]
    assert str(sa.select(column).compile(dialect=target.engine.dialect)) == (
        'SELECT main."nothing"."a b" \nFROM main."nothing"'
    )
