"""The shapes of tables, read from real catalogs of every version."""

from __future__ import annotations

import dataclasses

import psycopg
import pytest

from subscriber.postgres.schema.shape import ForeignKey, UniqueKey
from subscriber.publisher.shapes import read_shapes
from tests.table_shapes import column_shape, read_shape, table_shape

TABLES = """
CREATE SCHEMA sales;
CREATE TYPE sales.mood AS ENUM ('ok', 'bad');
CREATE TABLE others (id int, more int, PRIMARY KEY (more, id));
CREATE TABLE sales."T x" (
  id serial PRIMARY KEY, at timestamptz DEFAULT '2026-01-01 00:00:00+02', n numeric(6,2) DEFAULT 0.5, m sales.mood DEFAULT 'ok',
  c char(3) DEFAULT 'a', f float8 DEFAULT 'NaN', e text DEFAULT 'a''b\t' || '!', later date DEFAULT now(), nothing text DEFAULT NULL,
  i bigint GENERATED ALWAYS AS IDENTITY, g int GENERATED ALWAYS AS (id * 2) STORED, dropped int,
  a int NOT NULL, b int UNIQUE, CHECK (a > 5), UNIQUE (a, b) DEFERRABLE, FOREIGN KEY (b, a) REFERENCES others (id, more)
);
ALTER TABLE sales."T x" DROP COLUMN dropped;
CREATE UNIQUE INDEX upper_e ON sales."T x" (upper(e));
CREATE UNIQUE INDEX some_a ON sales."T x" (a) INCLUDE (f) WHERE b > 3;
CREATE TABLE parts (a int PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE part PARTITION OF parts DEFAULT;
CREATE TABLE empty ();
CREATE VIEW v AS SELECT 1 AS a;
"""


@pytest.fixture
def connection(database):
    database.execute(TABLES)
    with psycopg.connect(database.conninfo, autocommit=True) as opened:
        yield opened


def test_the_shape_of_a_table(connection):
    """C11, C22: everything that a subscriber's table may need, in the publisher's words"""
    shape = read_shape(connection, "sales", "T x")
    assert shape is not None
    columns = {column.name: column for column in shape.columns}
    assert list(columns) == ["id", "at", "n", "m", "c", "f", "e", "later", "nothing", "i", "g", "a", "b"]
    assert columns["id"].default == "nextval('sales.\"T x_id_seq\"'::regclass)"
    mood = columns["m"].type_oid
    assert [columns[name] for name in ("n", "m", "later", "i", "g", "a")] == [
        column_shape("n", 1700, "numeric(6,2)", default="0.5", constant="0.50"),
        column_shape("m", mood, "sales.mood", default="'ok'::sales.mood", constant="ok"),
        column_shape("later", 1082, "date", default="now()"),
        column_shape("i", 20, "bigint", nullable=False, identity="a"),
        column_shape("g", 23, "integer", generated="stored", expression="(id * 2)"),
        column_shape("a", 23, "integer", nullable=False),
    ]
    assert dataclasses.replace(shape, columns=()) == table_shape(
        "sales",
        "T x",
        (),
        key=("id",),
        unique=(UniqueKey(("a", "b"), deferrable=True), UniqueKey(("b",))),
        checks=("(a > 5)",),
        foreign_keys=(ForeignKey(("b", "a"), "public", "others", ("id", "more")),),
        others=("some_a", "upper_e"),
    )


def test_a_constant_default_has_the_text_that_replication_would_send(connection):
    """C7; whatever the session's settings are"""
    connection.execute("SET timezone = 'Asia/Tokyo'; SET datestyle = 'German'; SET bytea_output = 'escape'")
    connection.execute("ALTER TABLE sales.\"T x\" ADD y bytea DEFAULT '\\x00ff', ADD v interval DEFAULT '1 day'")
    shape = read_shape(connection, "sales", "T x")
    assert shape is not None
    constants = {column.name: column.constant for column in shape.columns if column.default is not None}
    assert constants == {
        "id": None, "at": "2025-12-31 22:00:00+00", "n": "0.50", "m": "ok", "c": "a  ", "f": "NaN", "e": None,
        "later": None, "y": "\\x00ff", "v": "1 day",
    }  # fmt: skip
    assert connection.execute("SHOW timezone").fetchall() == [("Asia/Tokyo",)]


def test_the_replica_identity_index_is_the_key(connection):
    """C11: the primary key is then one of the other keys"""
    connection.execute('ALTER TABLE sales."T x" ALTER b SET NOT NULL')
    connection.execute('ALTER TABLE sales."T x" REPLICA IDENTITY USING INDEX "T x_b_key"')
    shape = read_shape(connection, "sales", "T x")
    assert shape is not None
    assert (shape.key_columns, shape.unique[0]) == (("b",), UniqueKey(("id",)))


def test_nulls_are_distinct_unless_the_key_says_otherwise(connection):
    connection.execute("CREATE TABLE n (a int UNIQUE NULLS NOT DISTINCT)")
    shape = read_shape(connection, "public", "n")
    assert shape is not None
    assert shape.unique == (UniqueKey(("a",), nulls_distinct=False),)


def test_a_deferrable_primary_key_identifies_no_rows(connection):
    """C13"""
    connection.execute("CREATE TABLE d (a int PRIMARY KEY DEFERRABLE)")
    shape = read_shape(connection, "public", "d")
    assert shape is not None
    assert (shape.key_columns, shape.unique) == ((), (UniqueKey(("a",), deferrable=True),))


def test_all_tables_are_read_and_nothing_else(connection):
    """Views, temporary tables and system tables are not read"""
    connection.execute("CREATE TEMPORARY TABLE t (a int)")
    shapes = read_shapes(connection).values()
    assert {shape.qualified_name: shape.is_partitioned for shape in shapes} == {
        "public.empty": False,
        "public.others": False,
        "public.part": False,
        "public.parts": True,
        "sales.T x": False,
    }
    assert read_shape(connection, "public", "v") is None
    assert read_shape(connection, "public", "absent") is None
