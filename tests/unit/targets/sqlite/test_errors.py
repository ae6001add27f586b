"""Translation of SQLite's errors."""

from __future__ import annotations

import sqlite3
import traceback

import pytest

from subscriber.base.errors import ConflictError, TargetError, TargetUnavailable, UnsupportedValue
from subscriber.targets import open_target
from subscriber.targets.sqlite.errors import SQLiteErrors
from tests.unit.targets.tables import execute


def test_a_file_that_cannot_be_opened_is_unavailable(tmp_path):
    target = open_target(f"sqlite:///{tmp_path / 'missing' / 't.db'}")
    with pytest.raises(TargetUnavailable, match="SQLITE_CANTOPEN"), target.begin():
        pass


def test_a_file_that_is_read_only_may_be_written_later(target):
    execute(target, "CREATE TABLE t (a)")
    with pytest.raises(TargetUnavailable, match="SQLITE_READONLY") as raised, target.begin() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    assert "read-only" in str(raised.value.hint)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "t.db").write_bytes(b"not a database" * 100)
    target = open_target(f"sqlite:///{tmp_path / 't.db'}")
    with pytest.raises(TargetError, match="SQLITE_NOTADB") as raised, target.begin() as connection:
        connection.exec_driver_sql("SELECT * FROM sqlite_schema")
    assert not raised.value.transient


@pytest.mark.parametrize(
    ("ddl", "sqlstate", "detail"),
    [
        ("CREATE TABLE t (a TEXT PRIMARY KEY, b)", "23505", "Key (a) already exists."),
        ("CREATE TABLE t (a, b, UNIQUE (a, b))", "23505", "Key (a, b) already exists."),
        (
            "CREATE TABLE t (a, b); CREATE UNIQUE INDEX i ON t (lower(a))",
            "23505",
            'Key already exists in unique index "i".',
        ),
        ("CREATE TABLE t (a, b TEXT CHECK (b <> 'secret'))", "23514", None),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY, b)", "22000", None),
        ("CREATE TABLE t (a INTEGER, b TEXT) STRICT", "22000", None),
        (
            "CREATE TABLE t (a, b); CREATE TRIGGER g BEFORE INSERT ON t BEGIN SELECT RAISE(ABORT, 'secret'); END",
            "P0001",
            None,
        ),
    ],
)
def test_constraints_are_named_and_values_are_not(target, ddl, sqlstate, detail):
    """names_are_data"""
    first, _, second = ddl.partition("; CREATE")
    execute(target, first, *([f"CREATE{second}"] if second else []))
    with pytest.raises((ConflictError, UnsupportedValue)) as raised:
        execute(target, *["INSERT INTO t VALUES ('secret', 'secret')"] * 2)
    error = raised.value
    assert (error.sqlstate, error.detail) == (sqlstate, detail)
    assert "secret" not in error.report()
    printed = [line for line in traceback.format_exception(error) if "execute(target" not in line]
    assert "secret" not in "".join(printed)


def test_a_null_is_reported_with_its_column(target):
    execute(target, "CREATE TABLE t (a, b NOT NULL)")
    with pytest.raises(ConflictError) as raised:
        execute(target, "INSERT INTO t VALUES (1, NULL)")
    assert (raised.value.sqlstate, raised.value.column) == ("23502", "b")
    assert raised.value.detail == 'Column "b" must not be null.'


def test_a_value_of_another_kind_names_its_column_in_a_strict_table(target):
    execute(target, "CREATE TABLE t (a INTEGER, b TEXT) STRICT")
    with pytest.raises(UnsupportedValue) as raised:
        execute(target, "INSERT INTO t VALUES ('x', 'y')")
    assert raised.value.column == "a"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT * FROM missing", "no such table: missing"),
        ("SELECT missing", "no such column: missing"),
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT (", "incomplete input"),
        (f"SELECT {'1 AND ' * 1000} 1", "Expression tree is too large (maximum depth 1000)"),
    ],
)
def test_a_statement_that_names_what_is_not_there_is_answered_in_sqlites_words(target, statement, said):
    with pytest.raises(TargetError) as raised:
        execute(target, statement)
    assert raised.value.message == said


@pytest.mark.parametrize("statement", ["SELECT 1 AS 'x' 'secret'", """SELECT json('{"secret')"""])
def test_a_statement_that_fails_otherwise_does_not_show_what_it_holds(target, statement):
    """Invariant names_are_data."""
    with pytest.raises(TargetError, match="SQLITE_ERROR") as raised:
        execute(target, statement)
    assert "secret" not in raised.value.report()


ERRORS = SQLiteErrors("/data/t.db")


def raised_by_driver(name: str, code: int, text: str = "secret") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorname, error.sqlite_errorcode = name, code
    return error


@pytest.mark.parametrize(
    ("name", "kind", "sqlstate"),
    [
        ("SQLITE_BUSY_SNAPSHOT", TargetUnavailable, "08006"),
        ("SQLITE_LOCKED", TargetUnavailable, "08006"),
        ("SQLITE_FULL", TargetUnavailable, "08006"),
        ("SQLITE_IOERR_FSYNC", TargetUnavailable, "08006"),
        ("SQLITE_INTERRUPT", TargetUnavailable, "08006"),
        ("SQLITE_CONSTRAINT_ROWID", ConflictError, "23505"),
        ("SQLITE_CONSTRAINT_FOREIGNKEY", ConflictError, "23503"),
        ("SQLITE_CONSTRAINT_VTAB", ConflictError, "23000"),
        ("SQLITE_TOOBIG", UnsupportedValue, "22000"),
        ("SQLITE_MISMATCH", UnsupportedValue, "22000"),
        ("SQLITE_CORRUPT", TargetError, TargetError.sqlstate),
    ],
)
def test_the_result_code_gives_the_error(name, kind, sqlstate):
    """https://www.sqlite.org/rescode.html; names_are_data"""
    error = ERRORS.translate_driver(raised_by_driver(name, 1))
    assert (type(error), error.sqlstate) == (kind, sqlstate)
    assert "secret" not in error.report()


def test_a_result_code_that_python_has_no_name_for_is_known():
    error = ERRORS.translate_driver(raised_by_driver("unknown", 3091, "cannot store TEXT value in INTEGER column t.a"))
    assert (type(error), error.column) == (UnsupportedValue, "a")


def test_what_pythons_module_refuses_is_an_unsupported_value():
    error = ERRORS.translate_driver(sqlite3.InterfaceError("secret"))
    assert isinstance(error, UnsupportedValue)
    assert error.message == "SQLite cannot hold a value exactly (InterfaceError)"
