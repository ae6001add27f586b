"""Statements that write to SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.base.errors import ConflictError, UnsupportedValue
from subscriber.targets import Target, TargetTable
from subscriber.targets.base.loading import BulkColumn, LoadColumn, RowStatement
from subscriber.targets.sqlite.errors import SQLiteErrors
from subscriber.targets.sqlite.values import SQLiteValues
from subscriber.targets.sqlite.writing import MOST_PARAMETERS, SQLiteLoading, insert_rows
from tests.unit.targets.tables import execute, load, reflected, rows


def truncate(target, *names: str, restart_identity: bool = False) -> None:
    with target.begin() as connection:
        tables = [target.shapes.reflect(connection, "public", name) for name in names]
        target.writing.truncate(connection, tables, restart_identity=restart_identity)


def test_truncate_refuses_a_table_that_another_refers_to(target):
    """C30"""
    execute(target, "CREATE TABLE p (a INTEGER PRIMARY KEY)", 'CREATE TABLE "c%" (a REFERENCES P (a))')
    with pytest.raises(ConflictError) as raised:
        truncate(target, "p")
    assert raised.value.message == "cannot truncate a table referenced in a foreign key constraint"
    assert raised.value.detail == 'Table "c%" references "p".'
    truncate(target, "p", "c%")


def test_a_table_may_refer_to_itself(target):
    execute(target, "CREATE TABLE p (a INTEGER PRIMARY KEY, b REFERENCES p (a))", "INSERT INTO p VALUES (1, 1)")
    truncate(target, "p")
    assert rows(target, "SELECT * FROM p") == []


@pytest.mark.parametrize(("restart", "following"), [(True, 1), (False, 2)])
def test_restart_identity_begins_the_numbers_again(target, restart, following):
    """C29"""
    execute(target, "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b)", "INSERT INTO t (b) VALUES (0)")
    truncate(target, "t", restart_identity=restart)
    execute(target, "INSERT INTO t (b) VALUES (0)")
    assert rows(target, "SELECT a FROM t") == [{"a": following}]


def test_restart_identity_without_any_sequence_is_nothing(target):
    execute(target, "CREATE TABLE t (a)")
    truncate(target, "t", restart_identity=True)


@pytest.mark.parametrize(
    ("constraint", "prefix"), [("ON CONFLICT REPLACE", "OR ABORT "), ("ON CONFLICT IGNORE", "OR ABORT "), ("", "")]
)
def test_a_violated_constraint_fails_whatever_the_table_declares(target, constraint, prefix):
    """C22"""
    execute(target, f"CREATE TABLE t (a INT PRIMARY KEY {constraint}, b)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    table = reflected(target, "t")
    clause = table.clause()
    insert = target.writing.or_fail(table, sa.insert(clause).values(a=sa.literal(1)))
    update = target.writing.or_fail(table, sa.update(clause).values(a=sa.literal(1)).where(clause.c.a == 2))
    assert str(insert.compile(dialect=target.engine.dialect)).startswith(f"INSERT {prefix}INTO")
    for statement in (insert, update):
        with pytest.raises(ConflictError), target.begin() as connection:
            connection.execute(statement)
    assert rows(target, "SELECT * FROM t") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


# Bulk writes to SQLite. What all targets share is tested in tests/targets/test_bulk.py.


@pytest.fixture
def table(target) -> TargetTable:
    execute(target, "CREATE TABLE t (a INT PRIMARY KEY ON CONFLICT REPLACE, b TEXT)", "INSERT INTO t VALUES (1, 'x')")
    return reflected(target, "t")


def sent(table: TargetTable, name: str, values: pa.Array) -> BulkColumn:
    column = table.column(name)
    assert column is not None
    return BulkColumn(column, 23 if name == "a" else 25, values)


def test_any_key_is_accepted_for_many_rows(target: Target, table):
    bulk = target.bulk
    assert bulk is not None
    with target.begin() as connection:
        least = {bulk.least_rows(connection, table, [LoadColumn(one, 25)]) for one in table.columns}
        assert least == {bulk.least_rows(connection, table, [])}
    assert None not in least


def test_rows_are_counted_and_converted(target, table):
    three, absent = pa.array([3, 9]), pa.array([9, 2])
    with target.begin() as connection:
        written = [sent(table, "a", pa.array([2, 3])), sent(table, "b", pa.array([None, "q"]))]
        assert target.bulk.insert(connection, table, written) == 2
        new = [sent(table, "b", pa.array(["r", "s"]))]
        assert target.bulk.update(connection, table, [sent(table, "a", three)], new) == 1
        assert target.bulk.delete(connection, table, [sent(table, "a", absent)]) == 1
    assert rows(target, "SELECT * FROM t ORDER BY a") == [{"a": 1, "b": "x"}, {"a": 3, "b": "r"}]


def test_an_insert_fails_whatever_the_constraint_says(target, table):
    """names_are_data: the constraint would replace the row."""
    with pytest.raises(ConflictError) as raised, target.begin() as connection:
        target.bulk.insert(
            connection, table, [sent(table, "a", pa.array([2, 1])), sent(table, "b", pa.array(["y", "z"]))]
        )
    assert (raised.value.sqlstate, raised.value.detail) == ("23505", "Key (a) already exists.")
    assert raised.value.__suppress_context__
    assert rows(target, "SELECT * FROM t") == [{"a": 1, "b": "x"}]


# Loading into SQLite. What all loaders share is tested in tests/unit/targets/test_loader.py.


def batch(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.fixture
def loaded_table(target):
    execute(target, "CREATE TABLE t (b TEXT DEFAULT 'default', a INT UNIQUE)")
    return reflected(target, "t")


def test_a_block_is_a_batch_of_arrow(target, loaded_table):
    assert target.loading.block_format([LoadColumn(column, 25) for column in loaded_table.columns]) == "arrow"


def test_an_error_of_the_driver_is_translated(target, loaded_table):
    """names_are_data, any_crash"""
    with pytest.raises(ConflictError) as raised:
        load(target, loaded_table, {"a": 23, "b": 25}, batch(a=[1], b=["x"]), batch(a=[1], b=["secret"]))
    assert (raised.value.sqlstate, raised.value.detail) == ("23505", "Key (a) already exists.")
    assert raised.value.__suppress_context__
    assert rows(target, "SELECT * FROM t") == []


class _Objects(SQLiteValues):
    """Values that no driver takes."""

    def bind_values(self, type_oid, column, values):
        del type_oid, column
        return [object() for _ in values]


def test_what_pythons_module_refuses_is_an_unsupported_value(target, loaded_table):
    errors = SQLiteErrors(str(target.url.database))
    loading = SQLiteLoading(target.engine, errors, _Objects(), target.writing)
    roles = replace(target.open_table_roles(), loading=loading)
    with pytest.raises(UnsupportedValue, match="cannot hold a value exactly"):
        load(replace(target, open_table_roles=lambda: roles), loaded_table, {"a": 23}, batch(a=[1]))


# Rows that are inserted by one statement are those that single statements would insert.


AT_ONCE = MOST_PARAMETERS // 2
INSERT = RowStatement("INSERT INTO t (b, a) VALUES (?, ?)", (1, 0), None)


@pytest.fixture
def driver() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)")
    yield connection
    connection.close()


def statements(driver: sqlite3.Connection) -> list[str]:
    executed: list[str] = []
    driver.set_trace_callback(executed.append)
    return executed


@pytest.mark.parametrize(
    ("rows", "executed"),
    [(0, 0), (1, 1), (AT_ONCE - 1, AT_ONCE - 1), (AT_ONCE, 1), (AT_ONCE + 1, 2), (3 * AT_ONCE + 2, 5)],
)
def test_every_row_is_inserted_once(driver, rows, executed):
    trace = statements(driver)
    bound: list[list[object]] = [[*range(rows)], [f"row {number}" for number in range(rows)]]
    assert insert_rows(driver, INSERT, bound, rows) == rows
    assert len(trace) == executed
    assert driver.execute("SELECT a, b FROM t ORDER BY a").fetchall() == list(zip(*bound, strict=True))


def test_rows_that_a_trigger_leaves_out_are_not_counted(driver):
    driver.execute(
        "CREATE TRIGGER skip BEFORE INSERT ON t WHEN new.a % 2 = 0 BEGIN SELECT raise(IGNORE); END",
    )
    rows = AT_ONCE + 1
    assert insert_rows(driver, INSERT, [list(range(rows)), ["x"] * rows], rows) == rows // 2


def test_a_row_that_cannot_be_inserted_is_an_error(driver):
    keys = [*range(AT_ONCE), 7]
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE constraint failed"):
        insert_rows(driver, INSERT, [keys, ["x"] * len(keys)], len(keys))
    assert driver.execute("SELECT count(*) FROM t WHERE a = 7").fetchone() == (1,)


@pytest.mark.parametrize("columns", [MOST_PARAMETERS, MOST_PARAMETERS // 2 + 1])
def test_wide_rows_are_inserted_one_by_one(driver, columns):
    names = ", ".join(f"c{number}" for number in range(columns))
    driver.execute(f"CREATE TABLE wide ({names})")
    insert = RowStatement(f"INSERT INTO wide ({names}) VALUES ({', '.join('?' * columns)})", (*range(columns),), None)
    trace = statements(driver)
    assert insert_rows(driver, insert, [[number, number] for number in range(columns)], 2) == 2
    assert len(trace) == 2
    assert driver.execute("SELECT * FROM wide").fetchall() == [(*range(columns),)] * 2


def test_rows_without_columns_have_defaults_only(driver):
    driver.execute("CREATE TABLE defaults (a INT DEFAULT 5)")
    assert insert_rows(driver, RowStatement("INSERT INTO defaults DEFAULT VALUES", (), None), [], 3) == 3
    assert driver.execute("SELECT a FROM defaults").fetchall() == [(5,)] * 3
