"""From a shape to the target's table, for each kind of target."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.base.errors import ConflictError, NotSupportedError
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.schema.shape import ForeignKey, UniqueKey
from subscriber.postgres.types.registry import family_of
from subscriber.targets import open_target
from subscriber.targets.base.target import base_target
from subscriber.targets.ddl import create_table, drop_table, table_identity
from subscriber.targets.sqlite.values import SQLiteValues
from tests.table_shapes import column_shape, table_shape

_ROLE = SQLiteValues()
bind_values = _ROLE.bind_values

KEY = column_shape("id", 23, "integer", nullable=False)
COLUMNS = (
    KEY,
    column_shape("amount", 1700, "numeric(10,2)", default="0.5", constant="0.50"),
    column_shape("flag", 16, "boolean", nullable=False, default="true", constant="t"),
    column_shape("Note", 1043, "character varying(20)", default="'100% of it''s'::text", constant="100% of it's"),
    column_shape("bytes", 17, "bytea", default="'\\x00ff'::bytea", constant="\\x00ff"),
    column_shape("at", 1184, "timestamp with time zone", default="now()"),
    column_shape("twice", 23, "integer", generated="stored", expression="(id * 2)"),
)
SHAPE = table_shape("public", "t", COLUMNS, key=("id",))


@pytest.fixture
def postgresql():
    """No connection is made: only the text is looked at."""
    with open_target("postgresql://me@127.0.0.1:1/d") as opened:
        yield opened


@pytest.fixture
def mysql():
    """As above, and as a database of which only SQLAlchemy knows something."""
    url = sa.make_url("mysql+pymysql://me@127.0.0.1:1/d")
    with base_target(url, sa.create_engine(url)) as opened:
        yield opened


def written(target, shape: PublisherTable) -> list[str]:
    compiled = [
        statement.compile(dialect=target.engine.dialect) for statement in create_table(target, shape).statements
    ]
    return [" ".join(str(one).split()) for one in compiled]


def with_columns(*columns: PublisherColumn) -> PublisherTable:
    return table_shape("public", "t", (KEY, *columns), key=("id",))


# Each target --------------------------------------------------------------------------------------


def test_the_table_in_sqlite(target):
    assert written(target, SHAPE)[0] == (
        "CREATE TABLE t ( id INT NOT NULL, amount NUMERIC_TEXT(10,2) DEFAULT '0.50',"
        " flag BOOLEAN_INTEGER DEFAULT 1 NOT NULL,"
        " \"Note\" CHARACTER VARYING(20) DEFAULT '100% of it''s', bytes BLOB DEFAULT (X'00ff'),"
        " at TIMESTAMPTZ_TEXT, twice INT GENERATED ALWAYS AS ((id * 2)) STORED, PRIMARY KEY (id) )"
    )
    assert create_table(target, SHAPE).notes == ('column "at" has no default',)


def test_the_table_in_postgresql(postgresql):
    """%% is how the driver is told a percent sign."""
    schema, table = written(postgresql, SHAPE)
    assert schema == "CREATE SCHEMA IF NOT EXISTS public"
    assert table == (
        "CREATE TABLE public.t ( id integer NOT NULL, amount numeric(10,2) DEFAULT 0.5, flag boolean DEFAULT true NOT NULL,"
        " \"Note\" character varying(20) DEFAULT '100%% of it''s'::text, bytes bytea DEFAULT '\\x00ff'::bytea,"
        " at timestamp with time zone DEFAULT now(), twice integer GENERATED ALWAYS AS ((id * 2)) STORED, PRIMARY KEY (id) )"
    )
    assert create_table(postgresql, SHAPE).notes == ()


def test_the_table_in_a_database_that_only_sqlalchemy_knows(mysql):
    assert written(mysql, SHAPE)[0] == (
        "CREATE TABLE t ( id INTEGER NOT NULL, amount NUMERIC(10, 2) DEFAULT '0.50', flag BOOL NOT NULL DEFAULT 1,"
        " `Note` VARCHAR(20) DEFAULT '100%% of it''s', bytes BLOB, at TEXT, twice INTEGER, PRIMARY KEY (id) )"
    )
    assert create_table(mysql, SHAPE).notes == (
        'column "bytes" has no default',
        'column "at" has no default',
        'column "twice" is an ordinary column: the target does not support its expression',
    )


@pytest.mark.parametrize("opener", ["sqlite", "base"])
def test_the_table_is_where_the_target_looks_for_it(target, tmp_path, opener):
    """C1: whoever creates a table and whoever reflects it agree on its place; DROP TABLE too."""
    if opener == "base":
        url = sa.make_url(f"sqlite:///{tmp_path / 'generic.db'}")
        target = base_target(url, sa.create_engine(url))
    with target, target.begin() as connection:
        for schema in ("public", "sales") if opener == "sqlite" else ("public",):
            shape = dataclasses.replace(SHAPE, schema=schema)
            assert target.shapes.reflect(connection, schema, "t") is None
            create_table(target, shape).create(connection)
            reflected = target.shapes.reflect(connection, schema, "t")
            assert reflected.key == ("id",)
            assert [column.name for column in reflected.columns] == [column.name for column in COLUMNS]
            connection.execute(drop_table(target, schema, "t"))
            assert target.shapes.reflect(connection, schema, "t") is None


def test_a_schema_is_made_where_the_target_has_schemas(postgresql, mysql, target):
    shape = dataclasses.replace(with_columns(), schema="sales")
    assert written(postgresql, shape)[0] == written(mysql, shape)[0] == "CREATE SCHEMA IF NOT EXISTS sales"
    assert written(target, shape) == ['CREATE TABLE "sales.t" ( id INT NOT NULL, PRIMARY KEY (id) )']


def test_a_table_without_columns_is_postgresqls_alone(postgresql, target):
    """refuse_not_guess: the database's own words are about a parenthesis"""
    shape = table_shape("public", "t", ())
    assert written(postgresql, shape)[-1] == "CREATE TABLE public.t ( )"
    with pytest.raises(NotSupportedError, match=r'table "public.t" has no columns'):
        create_table(target, shape)


def test_names_that_differ_only_in_case_denote_one_table_where_the_database_says_so(postgresql, target, mysql):
    """SQLite folds the letters of ASCII only."""
    for other in (postgresql, mysql):
        assert table_identity(other, "public", "T") != table_identity(other, "public", "t")
    assert table_identity(target, "public", "T") == table_identity(target, "public", "t")
    assert table_identity(target, "public", "Ä") != table_identity(target, "public", "ä")


def test_columns_whose_names_differ_only_in_case_are_postgresqls_alone(postgresql, target, mysql):
    """refuse_not_guess: the database's own words do not name the columns"""
    shape = with_columns(column_shape("A", 23, "integer"), column_shape("a", 23, "integer"))
    assert '"A" integer, a integer' in written(postgresql, shape)[-1]
    for other in (target, mysql):
        with pytest.raises(NotSupportedError, match=r'columns "A" and "a" of table "public.t" have the same name'):
            create_table(other, shape)


# Types and defaults -------------------------------------------------------------------------------


def test_sqlites_integer_key_is_no_alias_of_the_rowid(target):
    """A NULL in it would become a number; INT is an ordinary column."""
    with target.begin() as connection:
        create_table(target, with_columns()).create(connection)
        assert not target.shapes.reflect(connection, "public", "t").columns[0].null_is_generated


def test_a_default_in_sqlite_is_what_replication_would_store(target):
    defaults = {"numeric(4,1)": (1700, "7.0"), "boolean": (16, "f"), "real": (700, "0.1"), "bigint": (20, "-5"),
        "timestamp with time zone": (1184, "2026-01-01 00:00:00+00"), "bytea": (17, "\\x00"), "text": (25, "a\\b'c%d:e"),
        "double precision": (701, "NaN")}  # fmt: skip
    columns = [column_shape(f"c{oid}", oid, name, default="x", constant=text) for name, (oid, text) in defaults.items()]
    with target.begin() as connection:
        create_table(target, with_columns(*columns)).create(connection)
        connection.exec_driver_sql("INSERT INTO t (id) VALUES (1)")
        (row,) = connection.exec_driver_sql("SELECT * FROM t").all()
        table = target.shapes.reflect(connection, "public", "t")
    for value, column, (oid, text) in zip(row[1:], table.columns[1:], defaults.values(), strict=True):
        decoded = family_of(oid).decode_text(pa.array([text.encode()], pa.binary()))
        assert [value] == bind_values(oid, column, decoded), column.name


@pytest.mark.parametrize("constant", ["Infinity", "-Infinity"])
def test_a_default_without_a_literal_is_left_out(target, constant):
    shape = with_columns(column_shape("f", 701, "double precision", default="x", constant=constant))
    assert create_table(target, shape).notes == ('column "f" has no default',)


def test_a_default_that_the_column_cannot_store_is_left_out():
    """Such as an infinite date in MariaDB; the table can be created nevertheless."""
    shape = with_columns(column_shape("day", 1082, "date", default="'infinity'::date", constant="infinity"))
    with open_target("mysql+pymysql://nobody@127.0.0.1:1/nowhere") as mariadb:
        assert create_table(mariadb, shape).notes == ('column "day" has no default',)


def test_what_somebody_has_made_is_text_in_another_postgresql(postgresql):
    """An enum, a domain or an extension's type may not exist there; its constant is written as
    text.
    """
    shape = with_columns(
        column_shape("mood", 16_385, "public.mood", default="'ok'::public.mood", constant="ok"),
        column_shape("moods", 16_386, "public.mood[]"),
    )
    assert "mood text DEFAULT 'ok', moods text" in written(postgresql, shape)[-1]


@pytest.mark.parametrize(
    "default", ["nextval('public.s'::regclass)", "public.f(1)", "OPERATOR(public.+) 1", "'x'::public.citext"]
)  # fmt: skip
def test_a_default_that_depends_on_what_may_not_be_there_is_left_out(postgresql, default):
    shape = with_columns(column_shape("c", 25, "text", default=default))
    assert create_table(postgresql, shape).notes == ('column "c" has no default',)


def test_quoted_dots_are_no_names(postgresql):
    shape = with_columns(column_shape("c", 25, "text", generated="stored", expression="""("a.b" || 'c.d'::text)"""))
    assert create_table(postgresql, shape).notes == ()


def test_an_identity_column_takes_the_publishers_values(postgresql, target):
    shape = with_columns(column_shape("c", 20, "bigint", nullable=False, identity="a"))
    for one in (postgresql, target):
        assert "GENERATED" not in written(one, shape)[-1]
        assert create_table(one, shape).notes == ('column "c" is not an identity column',)


def test_texts_in_a_key_have_a_length_where_only_sqlalchemy_knows_the_database(mysql):
    shape = table_shape(
        "public", "t", (column_shape("a", 25, "text", nullable=False), column_shape("b", 25, "text")), key=("a",)
    )
    assert written(mysql, shape) == ["CREATE TABLE t ( a VARCHAR(255) NOT NULL, b TEXT, PRIMARY KEY (a) )"]


# Constraints --------------------------------------------------------------------------------------

CONSTRAINED = table_shape(
    "public",
    "t",
    (KEY, column_shape("a", 23, "integer"), column_shape("b", 25, "text"), column_shape("n", 1700, "numeric")),
    key=("b",),
    unique=(UniqueKey(("id",)), UniqueKey(("a", "b"), nulls_distinct=False), UniqueKey(("a",), deferrable=True)),
    checks=("(a > 5)", "(n > (1)::numeric)"),
    foreign_keys=(ForeignKey(("a",), "sales", "others", ("id",)), ForeignKey(("a",), "public", "t", ("id",))),
    others=("t_lower_idx",),
)


def test_the_constraints_in_sqlite(target):
    """C11: the primary key is what the publisher identifies rows by; C30: references are declared
    for TRUNCATE's sake
    """
    table = create_table(target, CONSTRAINED)
    assert written(target, CONSTRAINED)[0] == (
        "CREATE TABLE t ( id INT NOT NULL, a INT, b TEXT NOT NULL, n NUMERIC_TEXT, PRIMARY KEY (b), UNIQUE (id),"
        ' CHECK ((a > 5)), FOREIGN KEY(a) REFERENCES "sales.others" (id), FOREIGN KEY(a) REFERENCES t (id) )'
    )
    assert table.notes == (
        "a CHECK constraint is left out",
        '"t_lower_idx" is left out: it is not an ordinary unique key',
        "the unique key (a) is left out: it is deferrable, or has NULLS NOT DISTINCT",
    )
    with target.begin() as connection:
        table.create(connection)  # though the table that it refers to is not there
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 6, 'x', '1')")


def test_nulls_that_are_not_distinct_are_unique_in_sqlite(target):
    """C22: NULLS NOT DISTINCT; a zero and a blank are no NULL"""
    shape = table_shape(
        "s",
        't "1"',
        (column_shape("a", 23, "integer"), column_shape("b%", 25, "text")),
        unique=(UniqueKey(("a", "b%"), nulls_distinct=False),),
    )
    with target.begin() as connection:
        create_table(target, shape).create(connection)
        table = target.shapes.reflect(connection, "s", 't "1"').clause()
        rows = [(None, None), (None, "0"), (0, None), (0, ""), (None, ""), (1, "x")]
        connection.execute(sa.insert(table), [{"a": a, "b%": b} for a, b in rows])
    for a, b in rows:
        with pytest.raises(ConflictError) as raised, target.begin() as connection:
            connection.execute(sa.insert(table), [{"a": a, "b%": b}])
        assert raised.value.sqlstate == "23505"


def test_the_constraints_in_postgresql(postgresql):
    assert written(postgresql, CONSTRAINED)[-1] == (
        "CREATE TABLE public.t ( id integer NOT NULL, a integer, b text NOT NULL, n numeric, PRIMARY KEY (b), UNIQUE (id),"
        " UNIQUE NULLS NOT DISTINCT (a, b), UNIQUE (a) DEFERRABLE, CHECK ((a > 5)), CHECK ((n > (1)::numeric)) )"
    )
    assert create_table(postgresql, CONSTRAINED).notes == (
        'the reference to "sales.others" is left out',
        'the reference to "public.t" is left out',
        '"t_lower_idx" is left out: it is not an ordinary unique key',
    )


def test_a_table_without_a_key_has_none(target):
    """C14: rows are found by all their values then"""
    shape = table_shape("public", "t", (column_shape("a", 23, "integer"),))
    assert written(target, shape) == ["CREATE TABLE t ( a INT )"]
