"""The comparison of tables: differences are found, equal rows are not reported, and only keys are
shown.
"""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from subscriber.base.errors import PublisherNotReady, TargetRelationError
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.targets import open_target
from subscriber.verify.compare_tables import compare_tables, published_tables
from tests.conftest import fresh_database

TABLES = """
CREATE TABLE t (a int PRIMARY KEY, b bool, c float8, d float4, e bytea, f timestamptz, g char(5), h numeric, i text);
CREATE TABLE bag (a int, b text);
"""
ROWS = """
INSERT INTO t SELECT n, n % 2 = 0, n / 3.0, n / 7.0, decode(md5(n::text), 'hex'), '2026-11-21 01:02:03.25+02',
  'ab', n * 1.10, repeat('secret value', n * 10) FROM generate_series(1, 5) n;
INSERT INTO t VALUES (6, NULL, '-0', 'NaN', '', 'infinity', NULL, 'NaN', '');
INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
"""
SQLITE = """
CREATE TABLE t (i text, a int PRIMARY KEY, b int, c real, d real, e blob, f timestamptz_text, g text, h numeric_text);
CREATE TABLE bag (a int, b text);
"""
T, BAG = PublishedTable("public", "t"), PublishedTable("public", "bag")


@pytest.fixture
def postgresql_target(publisher_database):
    with contextlib.contextmanager(fresh_database)(publisher_database.server) as database:
        for one in (database, publisher_database):
            one.execute(TABLES + ROWS)
        yield database


@pytest.fixture
def sqlite_target(publisher_database, tmp_path):
    """The same rows as SQLite stores them, written by hand and not by the code under test."""
    publisher_database.execute(TABLES + ROWS)
    rows = publisher_database.execute(
        "SELECT i, a, b::int, c, d::text, e, replace(f::text, '+00', '+00:00'), g::text || repeat(' ', 3), h::text FROM t"
    )
    with contextlib.closing(sqlite3.connect(tmp_path / "target.db")) as connection:
        connection.executescript(SQLITE)
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.executemany("INSERT INTO bag VALUES (?, ?)", [(1, "x"), (None, None), (1, "x")])
        connection.commit()
        yield connection


def compare(publisher, target, *tables):
    with open_target(target) as opened:
        return [one for one in compare_tables(publisher.conninfo, opened, tables or (T, BAG)) if not one.is_equal]


def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'target.db'}"


def test_equal_tables_have_no_difference(publisher_database, postgresql_target):
    assert compare(publisher_database, postgresql_target.url) == []


def test_sqlites_values_are_postgresqls_text_again(publisher_database, sqlite_target, tmp_path):
    """The order of columns and rows, affinity, the single zero, NaN, infinity and padded characters
    make no difference.
    """
    assert compare(publisher_database, sqlite_url(tmp_path)) == []


def test_missing_unexpected_and_changed_rows_are_told_apart_by_key(publisher_database, postgresql_target):
    """names_are_data: the report contains no value but the key"""
    postgresql_target.execute("UPDATE t SET i = i || '.', b = NULL WHERE a = 2; DELETE FROM t WHERE a = 3")
    postgresql_target.execute("INSERT INTO t (a, i) VALUES (77, 'secret value')")
    (difference,) = compare(publisher_database, postgresql_target.url)
    rows = difference.rows
    assert (rows.missing, rows.unexpected, rows.changed) == (1, 1, 1)
    assert rows.columns == ("b", "i")
    assert (rows.missing_keys, rows.unexpected_keys, rows.changed_keys) == ((("3",),), (("77",),), (("2",),))
    assert str(difference) == (
        'table "public.t": 6 rows at the publisher, 6 in the target; 1 missing, 1 unexpected, 1 changed (in b, i);'
        " keys (2), (3), (77)"
    )


@pytest.mark.parametrize(
    ("change", "missing", "unexpected"),
    [
        ("INSERT INTO bag VALUES (1, 'x')", 0, 1),
        ("DELETE FROM bag WHERE a = 1", 2, 0),
        ("UPDATE bag SET b = '' WHERE b IS NULL", 1, 1),
        ("UPDATE bag SET a = 2", 3, 3),
    ],
)
def test_without_a_key_every_row_counts_as_often_as_it_is_there(
    publisher_database, sqlite_target, tmp_path, change, missing, unexpected
):
    """absence_is_typed: NULL is not an empty text"""
    sqlite_target.execute(change)
    sqlite_target.commit()
    (difference,) = compare(publisher_database, sqlite_url(tmp_path))
    assert (difference.table, difference.rows.missing, difference.rows.unexpected) == (BAG, missing, unexpected)
    assert difference.keys == ()


@pytest.mark.parametrize(
    "change",
    [
        "a = 70",
        "b = NOT b",
        "c = c + 1e-12",
        "c = 'no number'",
        "d = d * 2",
        "e = x''",
        "f = '2026-11-21 01:02:03.25+00:00'",
        "g = 'a'",
        "h = '1.11'",
        "h = NULL",
        "i = substr(i, 1, length(i) - 1) || '!'",
    ],
)
def test_one_value_that_differs_is_found(publisher_database, sqlite_target, tmp_path, change):
    sqlite_target.execute(f"UPDATE t SET {change} WHERE a = 1")
    sqlite_target.commit()
    (difference,) = compare(publisher_database, sqlite_url(tmp_path))
    assert difference.table == T
    assert difference.rows.changed == 1 or change == "a = 70"


@pytest.mark.parametrize("change", ["g = 'ab'", "h = '1.1'", "f = '2026-11-20 23:02:03.250+00:00'"])
def test_values_that_postgresql_calls_equal_are_equal(publisher_database, sqlite_target, tmp_path, change):
    sqlite_target.execute(f"UPDATE t SET {change} WHERE a = 1")
    sqlite_target.commit()
    assert compare(publisher_database, sqlite_url(tmp_path)) == []


def test_row_filters_and_column_lists_say_what_both_sides_should_have(publisher_database, postgresql_target):
    """B17: filters of several publications are combined with OR"""
    for name, what in {"low": "t (a, b) WHERE (a < 2)", "high": "t (a, b) WHERE (a > 4)", "all_bags": "bag"}.items():
        publisher_database.execute(f"CREATE PUBLICATION {name} FOR TABLE {what}")
    postgresql_target.execute("DELETE FROM t WHERE a BETWEEN 2 AND 4; UPDATE t SET i = NULL")
    tables = published_tables(publisher_database.conninfo, ["low", "high", "all_bags"])
    assert [(one.name, one.columns) for one in tables] == [("bag", ("a", "b")), ("t", ("a", "b"))]
    assert compare(publisher_database, postgresql_target.url, *tables) == []
    (difference,) = compare(publisher_database, postgresql_target.url, PublishedTable("public", "t", columns=("a",)))
    assert difference.rows.missing == 3
    unfiltered = "CREATE PUBLICATION whole FOR TABLE t (a, b)"
    publisher_database.execute(unfiltered)
    assert published_tables(publisher_database.conninfo, ["low", "whole"])[0].filters == ()


def test_what_cannot_be_compared_is_an_error_and_not_equal(publisher_database, sqlite_target, tmp_path):
    with pytest.raises(PublisherNotReady, match=r'"public\.nowhere" not found on publisher'):
        compare(publisher_database, sqlite_url(tmp_path), PublishedTable("public", "nowhere"))
    publisher_database.execute("CREATE TABLE only_here (a int); ALTER TABLE t ADD extra int")
    with pytest.raises(TargetRelationError, match=r'"public\.only_here" does not exist'):
        compare(publisher_database, sqlite_url(tmp_path), PublishedTable("public", "only_here"))
    with pytest.raises(TargetRelationError, match='"extra"'):
        compare(publisher_database, sqlite_url(tmp_path), T)


def test_a_name_with_a_dot_is_a_name(publisher_database, postgresql_target):
    """names_are_data"""
    for database in (publisher_database, postgresql_target):
        database.execute('CREATE SCHEMA "a.b"; CREATE TABLE "a.b"."c.d" (k int PRIMARY KEY)')
    publisher_database.execute('INSERT INTO "a.b"."c.d" VALUES (1); CREATE PUBLICATION dotted FOR TABLE "a.b"."c.d"')
    tables = published_tables(publisher_database.conninfo, ["dotted"])
    assert [one.key for one in tables] == [("a.b", "c.d")]
    (difference,) = compare(publisher_database, postgresql_target.url, *tables)
    assert difference.keys == (("1",),)
