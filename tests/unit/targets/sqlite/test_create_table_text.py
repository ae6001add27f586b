"""CREATE TABLE statements of SQLite are read and changed as texts; SQLite reads the result."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from subscriber.targets.sqlite.create_table_text import after_names, read_table_text

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
