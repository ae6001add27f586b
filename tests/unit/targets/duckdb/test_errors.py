"""Translation of DuckDB's errors."""

from __future__ import annotations

import subprocess
import sys
import traceback
from contextlib import nullcontext

import duckdb
import pytest

from subscriber.base.errors import ConflictError, TargetError, TargetUnavailable, UnsupportedValue
from subscriber.targets import open_target
from subscriber.targets.database_files import FileRunLock
from subscriber.targets.duckdb.errors import DuckDBErrors
from tests.frames import relation, transaction
from tests.unit.targets.tables import execute, insert, rows

SECRET = "sec" + "ret"  # tracebacks quote source lines


T = relation("public.t", {"a": "int4", "b": "text"}, ["a"])


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "t.duckdb").write_bytes(b"not a database" * 1000)
    target = open_target(f"duckdb:///{tmp_path / 't.duckdb'}")
    with pytest.raises(TargetError, match="is not a DuckDB database") as raised, target.begin():
        pass
    assert not raised.value.transient


def test_an_option_that_duckdb_does_not_know_is_named(tmp_path):
    target = open_target(f"duckdb:///{tmp_path / 't.duckdb'}?nonsense=1")
    with pytest.raises(TargetError, match='does not know the option "nonsense"') as raised, target.begin():
        pass
    assert raised.value.hint


def test_of_two_transactions_that_change_a_row_one_is_tried_again(target):
    """any_crash: nothing of it is there"""
    execute(target, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (0)")
    with target.begin() as first:
        first.exec_driver_sql("UPDATE t SET a = 1")
        with pytest.raises(TargetUnavailable, match="another transaction") as raised, target.begin() as second:
            second.exec_driver_sql("UPDATE t SET a = 2")
    assert (raised.value.transient, rows(target, "SELECT a FROM t")) == (True, [{"a": 1}])


def test_the_url_limits_duckdbs_memory(tmp_path):
    with open_target(f"duckdb:///{tmp_path / 't.duckdb'}?memory_limit=50MB") as target:
        execute(target, "CREATE TABLE t (a bigint PRIMARY KEY)")
        with pytest.raises(TargetUnavailable, match="memory limit") as raised, target.reporting():
            execute(target, "INSERT INTO t SELECT range FROM range(0, 20000000, 3)")
        assert (raised.value.sqlstate, raised.value.transient) == ("53200", True)
        assert "memory_limit=" in str(raised.value.hint)
        assert rows(target, "SELECT * FROM t") == []


@pytest.mark.parametrize(
    ("ddl", "sqlstate", "column"),
    [
        ("a int, b text PRIMARY KEY", "23505", None),
        ("a int, b text UNIQUE", "23505", None),
        ("a int NOT NULL, b text", "23502", "a"),
        ("a int CHECK (a > 5), b text", "23514", None),
        ("a int REFERENCES p (id), b text", "23503", None),
    ],
)
def test_a_constraint_has_its_sqlstate_and_no_values(apply, target, ddl, sqlstate, column):
    """C22, names_are_data"""
    execute(target, "CREATE TABLE p (id int PRIMARY KEY)", f"CREATE TABLE t ({ddl})")
    changes = [insert(None if column else "1", SECRET), insert(None if column else "1", SECRET)]
    with pytest.raises(ConflictError) as raised:
        apply([T], *transaction(200, *changes))
    assert (raised.value.sqlstate, raised.value.column) == (sqlstate, column)
    assert SECRET not in "".join(traceback.format_exception(raised.value)) + raised.value.report()


def test_a_refused_statement_is_an_error_without_its_text(target):
    """names_are_data"""
    with pytest.raises(TargetError, match=r"ParserException") as raised, target.begin() as connection:
        connection.exec_driver_sql(f"SELEKT '{SECRET}'")
    assert SECRET not in "".join(traceback.format_exception(raised.value)) + raised.value.report()


def test_names_that_differ_by_case_alone_are_said_to_be_taken(target):
    execute(target, 'CREATE TABLE "T" (a int)')
    with pytest.raises(TargetError, match="already") as raised:
        execute(target, 'CREATE TABLE "t" (a int)')
    assert raised.value.sqlstate == "42P07"
    assert 'Option "map"' in str(raised.value.hint)


@pytest.mark.parametrize(
    ("name", "text", "kind", "sqlstate"),
    [
        ("ConstraintException", 'Duplicate key "a: secret" violates primary key constraint', ConflictError, "23505"),
        ("ConstraintException", "Data contains duplicates on indexed column(s)", ConflictError, "23505"),
        ("ConstraintException", "NOT NULL constraint failed: t.a", ConflictError, "23502"),
        ("ConstraintException", "another constraint, secret", ConflictError, "23000"),
        ("ConversionException", "Could not convert string 'secret' to INT32", UnsupportedValue, "22000"),
        ("OutOfRangeException", "secret", UnsupportedValue, "22000"),
        ("TransactionException", "Conflict on update!", TargetUnavailable, "40001"),
        ("OutOfMemoryException", "could not allocate", TargetUnavailable, "53200"),
        ("IOException", "Could not set lock on file", TargetUnavailable, "08006"),
        ("InterruptException", "INTERRUPT Error", TargetUnavailable, "08006"),
        ("ResourceInUseException", "Unique file handle conflict", TargetUnavailable, "08006"),
        ("CatalogException", 'Table with name "t" already exists!', TargetError, "42P07"),
        ("BinderException", "secret", TargetError, TargetError.sqlstate),
    ],
)
def test_the_class_of_the_exception_gives_the_error(tmp_path, name, text, kind, sqlstate):
    """names_are_data"""
    raised = type(name, (Exception,), {})(text)
    error = DuckDBErrors(str(tmp_path / "t.duckdb")).translate_driver(raised)
    assert (type(error), error.sqlstate) == (kind, sqlstate)
    assert "secret" not in error.report()


def test_what_does_not_exist_is_named_by_the_first_line(tmp_path):
    """The other lines quote the statement."""
    text = "Catalog Error: Table with name missing does not exist!\nLINE 1: SELECT secret FROM missing"
    raised = type("CatalogException", (Exception,), {})(text)
    error = DuckDBErrors(str(tmp_path / "t.duckdb")).translate_driver(raised)
    assert error.message == "Table with name missing does not exist!"


OPEN = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


@pytest.mark.parametrize("runs", [False, True], ids=["another program", "subscriber run"])
def test_a_file_that_is_in_use_names_the_process_and_what_ends_that(tmp_path, runs):
    file = str(tmp_path / "t.duckdb")
    command = [sys.executable, "-c", OPEN, file]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with FileRunLock(file).hold() if runs else nullcontext(), pytest.raises(duckdb.IOException) as refused:
            duckdb.connect(file)
        with FileRunLock(file).hold() if runs else nullcontext():
            error = DuckDBErrors(file).translate_driver(refused.value)
        other.communicate("")
    assert (type(error), error.transient) == (TargetUnavailable, True)
    assert "in use" in error.message
    assert f"process {other.pid} " in str(error.detail)
    assert ("`subscriber status` shows" in str(error.hint)) is runs


def test_errors_of_the_driver_are_translated_and_control_c_is_an_interruption():
    errors = DuckDBErrors("t.duckdb")
    with pytest.raises(ConflictError), errors.reporting_driver():
        raise duckdb.ConstraintException("Duplicate key")
    with pytest.raises(KeyboardInterrupt), errors.reporting_driver():
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="other"), errors.reporting_driver():
        raise RuntimeError("other")
