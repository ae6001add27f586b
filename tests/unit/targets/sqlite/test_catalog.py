"""What SQLite's pragmas tell of a table."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa

from subscriber.base.errors import ConflictError, TargetUnavailable
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.targets.sqlite.catalog import SQLiteColumn, SQLiteTable, places
from subscriber.targets.sqlite.create_table_text import after_names, read_table_text
from subscriber.targets.sqlite.target import _KEYWORDS
from subscriber.targets.target_table import TargetSequence
from tests.target_databases import set_sequence
from tests.unit.targets.tables import execute, reflected, rows


def sqlite_table(target):
    """A function that gives a table by its name."""

    def read(name: str) -> SQLiteTable:
        table = reflected(target, name)
        assert isinstance(table, SQLiteTable)
        return table

    return read


def test_a_tables_shape(target):
    execute(
        target,
        'CREATE TABLE "T ""1""" (a INT, "b.c" VARCHAR(3) NOT NULL, g AS (a + 1) STORED, PRIMARY KEY ("b.c", a))',
    )
    table = reflected(target, 'T "1"')
    assert table.key == ("b.c", "a")
    assert [(c.name, c.declared_type, c.storage, c.nullable, c.generated) for c in table.columns] == [
        ("a", "INT", "INTEGER", True, False),
        ("b.c", "VARCHAR(3)", "TEXT", False, False),
        ("g", "", "BLOB", True, True),
    ]
    assert table.locators == ("rowid",)
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, "public", "absent") is None


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
    execute(target, ddl)
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
    execute(target, ddl)
    assert reflected(target, "t").columns[0].null_is_generated is generates
    try:
        execute(target, "INSERT INTO t (a) VALUES (NULL)")
    except ConflictError:
        became_number = False
    else:
        with target.begin() as connection:
            became_number = connection.exec_driver_sql("SELECT a FROM t").scalar_one() is not None
    assert became_number is generates


def test_virtual_tables_and_views_are_told_apart(target):
    execute(target, "CREATE VIEW v AS SELECT 1 AS a", "CREATE VIRTUAL TABLE f USING fts5(a)")
    assert reflected(target, "v").kind == "view"
    assert reflected(target, "f").kind == "virtual table"


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ("public", [("main", "t")]),
        ("s", [("main", "s.t"), ("s", "t")]),
        ("main", [("main", "main.t")]),
        ("temp", [("main", "temp.t")]),
    ],
)
def test_a_schema_is_part_of_the_name_or_an_attached_database(schema, found):
    """C1"""
    assert list(places(schema, "t")) == found


@pytest.mark.parametrize(
    ("ddl", "required"),
    [
        ("a INT NOT NULL", True),
        ("a INT NOT NULL DEFAULT 1", False),
        ("a INT", False),
        ("a INTEGER NOT NULL PRIMARY KEY", False),
        ("a INT NOT NULL AS (1), b", False),
    ],
    ids=["not null", "default", "nullable", "rowid", "generated"],
)
def test_an_insert_needs_a_column_for_which_nothing_makes_a_value(target, ddl, required):
    execute(target, f"CREATE TABLE t ({ddl})")
    assert reflected(target, "t").columns[0].required is required


@pytest.mark.parametrize(
    ("ddl", "resolves"),
    [
        ("CREATE TABLE t (a PRIMARY KEY ON CONFLICT REPLACE)", True),
        ("CREATE TABLE t (a PRIMARY KEY)", False),
    ],
)
def test_a_constraint_may_resolve_conflicts_itself(target, ddl, resolves):
    execute(target, ddl)
    table = reflected(target, "t")
    assert isinstance(table, SQLiteTable)
    assert table.resolves_conflicts is resolves


def test_a_trigger_may_depend_on_the_columns_of_set(target):
    execute(
        target,
        "CREATE TABLE t (a)",
        "CREATE TABLE u (a)",
        "CREATE TRIGGER g AFTER UPDATE OF a ON T BEGIN SELECT 1; END",
    )
    watched = [table.may_watch_columns for table in map(sqlite_table(target), ("t", "u"))]
    assert watched == [True, False]


@pytest.mark.parametrize(
    ("ddl", "collation"),
    [
        ("CREATE TABLE t (a TEXT PRIMARY KEY)", "BINARY"),
        ("CREATE TABLE t (a TEXT COLLATE NOCASE PRIMARY KEY)", "NOCASE"),
        ("CREATE TABLE t (a TEXT, PRIMARY KEY (a COLLATE NOCASE))", "NOCASE"),
        ("CREATE TABLE t (a TEXT COLLATE NOCASE)", None),
    ],
)
def test_the_collation_of_a_key_is_that_of_its_index(target, ddl, collation):
    execute(target, ddl)
    (column,) = reflected(target, "t").columns
    assert isinstance(column, SQLiteColumn)
    assert column.key_collation == collation


# Where SQLite looks for a table. What is read of it is tested in test_catalog.py.


@pytest.mark.parametrize("name", ["T", "absent"])
def test_names_are_compared_exactly(target, name):
    """C1: SQLite ignores their case."""
    execute(target, "CREATE TABLE t (a)")
    with target.engine.connect() as connection:
        assert target.shapes.reflect(connection, "public", name) is None


def test_a_table_of_another_schema_has_the_schema_in_its_name(target):
    """C1"""
    execute(target, 'CREATE TABLE "s.t" (a)')
    assert (reflected(target, "t", "s").schema, reflected(target, "t", "s").name) == ("main", "s.t")


def test_a_table_of_another_schema_may_be_in_an_attached_database(target, tmp_path):
    """C1"""
    with target.engine.connect() as connection:
        connection.rollback()
        connection.connection.driver_connection.execute(f"ATTACH '{tmp_path / 's.db'}' AS s")
        connection.exec_driver_sql("CREATE TABLE s.t (a)")
        found = target.shapes.reflect(connection, "s", "t")
        assert (found.schema, found.name) == ("s", "t")
        connection.exec_driver_sql('CREATE TABLE "s.t" (a)')
        found = target.shapes.reflect(connection, "s", "t")
        assert (found.schema, found.name) == ("main", "s.t")


def test_an_error_of_the_driver_is_translated(target, tmp_path):
    execute(target, "CREATE TABLE t (a)")
    with target.engine.connect() as connection, pytest.raises(TargetUnavailable, match="SQLITE_INTERRUPT"):
        driver = connection.connection.driver_connection
        driver.set_progress_handler(lambda: 1, 1)
        try:
            target.shapes.reflect(connection, "public", "t")
        finally:
            driver.set_progress_handler(None, 0)


# Counters of SQLite.


def test_an_autoincrement_goes_on_as_the_publishers_sequence(target):
    """D14: other integer keys go on from their largest value, so there is nothing to set"""
    execute(
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


LAST_ROWID = 9_223_372_036_854_775_807  # https://www.sqlite.org/autoinc.html


@pytest.mark.parametrize(
    ("used", "position"),
    [
        (False, SequencePosition(last_value=1, is_called=False)),
        (True, SequencePosition(last_value=7, is_called=True)),
    ],
)
def test_a_counter_has_the_largest_value_that_was_ever_used(target, used, position):
    execute(target, "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT)")
    if used:
        execute(target, "INSERT INTO t VALUES (7)", "DELETE FROM t")
    table = reflected(target, "t")
    with target.engine.connect() as connection:
        found = target.sequences.of_column(connection, table, "a")
    assert found == TargetSequence("main.t", position, 1, LAST_ROWID, table)


def test_a_counter_that_was_not_used_yet_goes_on_with_the_publishers_first_value(target):
    """D14"""
    execute(target, "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b)")
    position = SequencePosition(last_value=41, is_called=False)
    with target.begin() as connection:
        assert set_sequence(target, connection, reflected(target, "t"), "a", position)
    execute(target, "INSERT INTO t (b) VALUES ('x')")
    assert rows(target, "SELECT a FROM t") == [{"a": 41}]


# CREATE TABLE statements of SQLite are read and changed as texts; SQLite reads the result.


TEXT = """CREATE TABLE "a (b" ( -- a comment, with a comma
  id INTEGER PRIMARY KEY, "x, ""y" TEXT DEFAULT 'a,)b' /* , */, [z w] INT CHECK ([z w] > (1 + 1)), -- the last column
  CONSTRAINT "my check" CHECK (id < 10 AND "x, ""y" <> ')'),
  CHECK (id > 0) -- the end
) STRICT"""


def columns(sql: str, name: str) -> list[tuple[str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(sql)
        query = f"SELECT name, dflt_value FROM pragma_table_xinfo('{name}')"
        return [tuple(row) for row in connection.execute(query)]


def test_the_same_table_gets_another_name():
    text = read_table_text(TEXT)
    assert text is not None
    assert columns(text.statement("copy"), "copy") == columns(TEXT, "a (b")


def test_check_constraints_are_found_with_their_names_and_expressions():
    text = read_table_text(TEXT)
    assert text is not None
    assert list(text.checks()) == [
        ("", "[z w] > (1 + 1)"),
        ("my check", """id < 10 AND "x, ""y" <> ')'"""),
        ("", "id > 0"),
    ]


def test_constraints_defaults_and_columns_are_added_behind_comments():
    text = read_table_text(TEXT)
    assert text is not None
    more = (
        text.with_item("CHECK (id <> 5)")
        .with_column("g INT GENERATED ALWAYS AS (id * 2)")
        .with_default("z w", "DEFAULT (7)")
    )
    assert more is not None
    made = more.statement("t").replace("STRICT", "")
    assert columns(made, "t") == [("id", None), ('x, "y', "'a,)b'"), ("z w", "7"), ("g", None)]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(made)
        connection.execute("INSERT INTO t (id) VALUES (4)")
        assert connection.execute('SELECT "z w", g FROM t').fetchall() == [(7, 8)]
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("INSERT INTO t (id) VALUES (5)")


@pytest.mark.parametrize("sql", ["", "CREATE VIRTUAL TABLE t USING fts5", "CREATE TABLE t (a, 'unfinished"])
def test_a_text_without_a_list_of_columns_is_not_read(sql):
    assert read_table_text(sql) is None


def test_a_column_that_does_not_exist_gets_no_clause():
    text = read_table_text("CREATE TABLE t (a, b)")
    assert text is not None
    assert text.with_default("c", "DEFAULT (1)") is None


@pytest.mark.parametrize(
    ("column", "rest"),
    [
        ("INT DEFAULT -5 NOT NULL", "INT NOT NULL"),
        ("TEXT DEFAULT ('x' || (1)) CHECK (a <> 'DEFAULT 1')", "TEXT CHECK (a <> 'DEFAULT 1')"),
        ("TEXT DEFAULT 'it''s' NOT NULL", "TEXT NOT NULL"),
        ("DEFAULT 1.5e3 UNIQUE", "UNIQUE"),
        ("DEFAULT x'00'", ""),
        ("DEFAULT current_timestamp UNIQUE", "UNIQUE"),
        ("INT UNIQUE", "INT UNIQUE"),
    ],
)
def test_a_default_takes_the_place_of_the_one_before(column, rest):
    text = read_table_text(f"CREATE TABLE t (a {column})")
    assert text is not None
    made = text.with_default("a", "DEFAULT (7)")
    assert made is not None
    assert " ".join(made.items[0].split()) == " ".join(f"a {rest} DEFAULT (7)".split())
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(made.statement("t"))
        connection.execute("INSERT INTO t DEFAULT VALUES")
        assert str(connection.execute("SELECT a FROM t").fetchone()[0]) == "7"


def test_generated_columns_are_found_with_their_expressions():
    text = read_table_text("CREATE TABLE t (a INT, \"b c\" INT GENERATED ALWAYS AS (a * (2)) VIRTUAL, d AS (a || ')'))")
    assert text is not None
    assert dict(text.generated()) == {"b c": "a * (2)", "d": "a || ')'"}


def test_what_follows_the_names_of_an_index_is_found():
    assert after_names('CREATE INDEX "(" ON "t(" (lower(a)) WHERE (b > 0)') == "(lower(a)) WHERE (b > 0)"
    assert after_names("") == ""


def test_the_collations_of_columns():
    sql = """CREATE TABLE t (a TEXT, "b c" TEXT COLLATE nocase NOT NULL, d TEXT CHECK (d = 'COLLATE x' COLLATE rtrim),
    [e] TEXT COLLATE "Own", f TEXT COLLATE BINARY, CHECK (a COLLATE nocase = 'x'))"""
    text = read_table_text(sql)
    assert text is not None
    assert dict(text.collations()) == {"b c": "NOCASE", "e": "OWN", "f": "BINARY"}


# SQLite's keywords.


def test_a_keyword_can_be_the_name_of_a_table_and_of_a_column(target):
    """names_are_data"""
    for word in sorted(_KEYWORDS):
        table = sa.Table(word, sa.MetaData(), sa.Column(word, sa.Integer))
        with target.begin() as connection:
            table.create(connection)
            connection.execute(sa.insert(table).values({word: 1}))
            assert connection.execute(sa.select(table).order_by(table.c[word])).all() == [(1,)], word
            table.drop(connection)
