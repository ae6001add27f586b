from __future__ import annotations

import multiprocessing
import sqlite3
import traceback

import pytest
import sqlalchemy as sa

from subscriber.errors import AlreadyRunning, ConflictError, TargetError, TargetUnavailable, UnsupportedValue
from subscriber.schema.shape import SequencePosition
from subscriber.targets import open_target
from subscriber.targets.sqlite.keywords import KEYWORDS
from subscriber.targets.sqlite.target import new_database
from tests.target_databases import set_sequence


def create(target, *statements: str) -> None:
    with target.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def reflected(target, name: str, schema: str = "public"):
    with target.begin() as connection:
        return target.shapes.reflect(connection, schema, name)


# --- transactions -----------------------------------------------------------------------------


def test_a_write_transaction_takes_the_lock_at_once(target):
    """Else two runners could both read the progress before one of them fails."""
    create(target, "CREATE TABLE t (a)")
    other = sqlite3.connect(target.url.database, isolation_level=None, timeout=0)
    with target.begin(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")
    other.close()


def test_reading_through_the_engine_takes_no_write_lock(target):
    create(target, "CREATE TABLE t (a)")
    with target.engine.connect() as reader:
        reader.exec_driver_sql("SELECT * FROM t").all()
        other = sqlite3.connect(target.url.database, isolation_level=None, timeout=0)
        other.execute("BEGIN IMMEDIATE")
        other.close()


def test_a_new_database_is_empty_and_can_be_read_while_it_is_written(tmp_path):
    file = tmp_path / "new.db"
    for _ in range(2):
        new_database(file)
        with open_target(f"sqlite:///{file}") as target:
            assert reflected(target, "t") is None
            create(target, "CREATE TABLE t (a)")
            with target.begin() as writer, target.engine.connect() as reader:
                writer.exec_driver_sql("INSERT INTO t VALUES (1)")
                assert reader.exec_driver_sql("SELECT * FROM t").all() == []


def test_a_keyword_can_be_the_name_of_a_table_and_of_a_column(target):
    """names_are_data"""
    for word in sorted(KEYWORDS):
        table = sa.Table(word, sa.MetaData(), sa.Column(word, sa.Integer))
        with target.begin() as connection:
            table.create(connection)
            connection.execute(sa.insert(table).values({word: 1}))
            assert connection.execute(sa.select(table).order_by(table.c[word])).all() == [(1,)], word
            table.drop(connection)


def test_foreign_keys_are_not_enforced(target):
    """C23"""
    create(target, "CREATE TABLE p (a INTEGER PRIMARY KEY)", "CREATE TABLE c (a INTEGER REFERENCES p)")
    create(target, "INSERT INTO c VALUES (1)")


def test_a_file_that_cannot_be_opened_is_unavailable(tmp_path):
    target = open_target(f"sqlite:///{tmp_path / 'missing' / 't.db'}")
    with pytest.raises(TargetUnavailable, match="SQLITE_CANTOPEN"), target.begin():
        pass


def test_a_file_that_is_read_only_may_be_written_later(target):
    create(target, "CREATE TABLE t (a)")
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


def test_a_commit_that_a_reader_prevents_is_taken_back(target):
    """any_crash: the change is neither there nor half there, and can be tried again"""
    create(target, "CREATE TABLE t (a)", "INSERT INTO t VALUES (0)")
    reader = sqlite3.connect(target.url.database, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM t").fetchall()
    with pytest.raises(TargetUnavailable, match="SQLITE_BUSY"), target.begin() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    reader.execute("ROLLBACK")
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (1,)
    create(target, "INSERT INTO t VALUES (1)")
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (2,)
    reader.close()


# --- shapes -----------------------------------------------------------------------------------


def test_a_tables_shape(target):
    create(
        target,
        'CREATE TABLE "T ""1""" (a INT, "b.c" VARCHAR(3) NOT NULL, g AS (a + 1) STORED, PRIMARY KEY ("b.c", a))',
    )
    table = reflected(target, 'T "1"')
    assert table.key == ("b.c", "a")
    assert [(c.name, c.declared_type, c.storage, c.nullable, c.generated) for c in table.columns] == [
        ("a", "INT", "INTEGER", True, False),
        ("b.c", "VARCHAR(3)", "TEXT", False, False),
        ("g", "INT", "INTEGER", True, True) if table.columns[2].declared_type else ("g", "", "BLOB", True, True),
    ]
    assert table.locators == ("rowid",)
    assert reflected(target, "absent") is None


@pytest.mark.parametrize(
    ("ddl", "locator"),
    [
        ("CREATE TABLE t (a)", "rowid"),
        ("CREATE TABLE t (RowId, a)", "_rowid_"),
        ("CREATE TABLE t (rowid, _rowid_, a)", "oid"),
        ("CREATE TABLE t (rowid, _rowid_, oid)", None),
        ("CREATE TABLE t (a PRIMARY KEY) WITHOUT ROWID", None),
    ],
)
def test_rows_are_located_by_a_name_that_no_column_has(target, ddl, locator):
    """C16"""
    create(target, ddl)
    assert reflected(target, "t").locators == (() if locator is None else (locator,))


@pytest.mark.parametrize(
    ("ddl", "generates"),
    [
        ("CREATE TABLE t (a INTEGER PRIMARY KEY)", True),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT)", True),
        ("CREATE TABLE t (a INT PRIMARY KEY)", False),
        ("CREATE TABLE t (a INTEGER, b, PRIMARY KEY (a, b))", False),
        ("CREATE TABLE t (a INTEGER PRIMARY KEY) WITHOUT ROWID", False),
    ],
)
def test_a_null_in_a_rowid_column_becomes_a_number(target, ddl, generates):
    """absence_is_typed: SQLite is asked"""
    create(target, ddl)
    assert reflected(target, "t").columns[0].null_is_generated is generates
    try:
        create(target, "INSERT INTO t (a) VALUES (NULL)")
    except ConflictError:
        became_number = False
    else:
        with target.begin() as connection:
            became_number = connection.exec_driver_sql("SELECT a FROM t").scalar_one() is not None
    assert became_number is generates


def test_virtual_tables_and_views_are_told_apart(target):
    create(target, "CREATE VIEW v AS SELECT 1 AS a", "CREATE VIRTUAL TABLE f USING fts5(a)")
    assert reflected(target, "v").kind == "view"
    assert reflected(target, "f").kind == "virtual table"


# --- truncate ---------------------------------------------------------------------------------


def truncate(target, *names: str, restart_identity: bool = False) -> None:
    with target.begin() as connection:
        tables = [target.shapes.reflect(connection, "public", name) for name in names]
        target.writing.truncate(connection, tables, restart_identity=restart_identity)


def test_truncate_refuses_a_table_that_another_refers_to(target):
    """C30"""
    create(target, "CREATE TABLE p (a INTEGER PRIMARY KEY)", 'CREATE TABLE "c%" (a REFERENCES P (a))')
    with pytest.raises(ConflictError) as raised:
        truncate(target, "p")
    assert raised.value.message == "cannot truncate a table referenced in a foreign key constraint"
    assert raised.value.detail == 'Table "c%" references "p".'
    truncate(target, "p", "c%")


def test_a_table_may_refer_to_itself(target):
    create(target, "CREATE TABLE p (a INTEGER PRIMARY KEY, b REFERENCES p (a))", "INSERT INTO p VALUES (1, 1)")
    truncate(target, "p")
    with target.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM p").scalar_one() == 0


@pytest.mark.parametrize(("restart", "following"), [(True, 1), (False, 2)])
def test_restart_identity_begins_the_numbers_again(target, restart, following):
    """C29"""
    create(target, "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b)", "INSERT INTO t (b) VALUES (0)")
    truncate(target, "t", restart_identity=restart)
    create(target, "INSERT INTO t (b) VALUES (0)")
    with target.begin() as connection:
        assert connection.exec_driver_sql("SELECT a FROM t").scalar_one() == following


def test_restart_identity_without_any_sequence_is_nothing(target):
    create(target, "CREATE TABLE t (a)")
    truncate(target, "t", restart_identity=True)


# --- errors -----------------------------------------------------------------------------------


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
    create(target, first, *([f"CREATE{second}"] if second else []))
    with pytest.raises((ConflictError, UnsupportedValue)) as raised:
        create(target, *["INSERT INTO t VALUES ('secret', 'secret')"] * 2)
    error = raised.value
    assert (error.sqlstate, error.detail) == (sqlstate, detail)
    assert "secret" not in error.report()
    printed = [line for line in traceback.format_exception(error) if "create(target" not in line]
    assert "secret" not in "".join(printed)


def test_a_null_is_reported_with_its_column(target):
    create(target, "CREATE TABLE t (a, b NOT NULL)")
    with pytest.raises(ConflictError) as raised:
        create(target, "INSERT INTO t VALUES (1, NULL)")
    assert (raised.value.sqlstate, raised.value.column) == ("23502", "b")
    assert raised.value.detail == 'Column "b" must not be null.'


def test_a_value_of_another_kind_names_its_column_in_a_strict_table(target):
    create(target, "CREATE TABLE t (a INTEGER, b TEXT) STRICT")
    with pytest.raises(UnsupportedValue) as raised:
        create(target, "INSERT INTO t VALUES ('x', 'y')")
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
        create(target, statement)
    assert raised.value.message == said


@pytest.mark.parametrize("statement", ["SELECT 1 AS 'x' 'secret'", """SELECT json('{"secret')"""])
def test_a_statement_that_fails_otherwise_does_not_show_what_it_holds(target, statement):
    """Invariant names_are_data."""
    with pytest.raises(TargetError, match="SQLITE_ERROR") as raised:
        create(target, statement)
    assert "secret" not in raised.value.report()


# --- one runner -------------------------------------------------------------------------------


def _hold(url: str, ready, hold) -> None:
    with open_target(url).running():
        ready.set()
        hold.wait()


def test_the_lock_ends_with_its_process(target):
    """any_crash: a killed runner does not lock out the next one"""
    context = multiprocessing.get_context("spawn")
    ready, hold = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(str(target.url), ready, hold))
    process.start()
    assert ready.wait(30)
    with pytest.raises(AlreadyRunning), target.running():
        pass
    process.kill()
    process.join()
    with target.running():
        pass


# --- sequences --------------------------------------------------------------------------------


def test_an_autoincrement_goes_on_as_the_publishers_sequence(target):
    """D14: other integer keys go on from their largest value, so there is nothing to set"""
    create(
        target,
        "CREATE TABLE a (i INTEGER PRIMARY KEY /* */ autoincrement, b)",
        "CREATE TABLE p (i INTEGER PRIMARY KEY, \"AUTOINCREMENT\" TEXT DEFAULT 'AUTOINCREMENT')",
        "INSERT INTO a (b) VALUES (1)",
    )
    position = SequencePosition(last_value=41, is_called=True, increment=2)
    with target.begin() as connection:
        assert set_sequence(target, connection, target.shapes.reflect(connection, "public", "a"), "i", position)
        assert not set_sequence(target, connection, target.shapes.reflect(connection, "public", "a"), "b", position)
        assert not set_sequence(target, connection, target.shapes.reflect(connection, "public", "p"), "i", position)
        connection.exec_driver_sql("INSERT INTO a (b) VALUES (2)")
        assert connection.exec_driver_sql("SELECT i FROM a ORDER BY i").scalars().all() == [1, 43]
