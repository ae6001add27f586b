"""From a publisher's table to the table that ``create_tables`` creates, in every target; and
sequences that continue (rule D14).
"""

from __future__ import annotations

import os
from itertools import count

import psycopg
import pytest
import sqlalchemy as sa

from subscriber.base.errors import ConflictError
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.publisher.sequences import published_sequences
from subscriber.publisher.shapes import published_shape
from subscriber.targets import open_target
from subscriber.targets.ddl import create_table
from tests.conftest import fresh_database
from tests.table_shapes import read_shape
from tests.target_databases import set_sequence

TABLES = """
CREATE SCHEMA "S x";
CREATE TYPE mood AS ENUM ('ok', 'bad');
CREATE TABLE "S x"."T %s" (
  id int GENERATED ALWAYS AS IDENTITY (INCREMENT 10) PRIMARY KEY, "Nr" bigserial UNIQUE, a text NOT NULL UNIQUE, b bytea DEFAULT '\\x00ff',
  n numeric(10,2) DEFAULT 1.5, n2 numeric, f real, d double precision, t timestamptz, ts timestamp, day date, tm time, i interval, u uuid,
  j jsonb, arr int[], m mood, bo boolean NOT NULL DEFAULT true, c character(3), v varchar(20), x xml, s smallint
);
ALTER TABLE "S x"."T %s" ALTER "Nr" DROP NOT NULL;
CREATE TABLE computed (a int PRIMARY KEY, d int DEFAULT 900 + 99, "5%%" int, g int GENERATED ALWAYS AS (a * 2) STORED, CHECK ("5%%" > 5));
CREATE SEQUENCE shared;
CREATE TABLE plain (a int PRIMARY KEY DEFAULT nextval('shared'), b int);
"""
_numbers = count(1)


@pytest.fixture(scope="module")
def publisher(postgresql18):
    for database in fresh_database(postgresql18):
        database.execute(TABLES)
        yield database


@pytest.fixture(params=["sqlite", "duckdb", "mariadb", "postgresql"])
def target(request, tmp_path):
    name = f"created_{os.getpid()}_{next(_numbers)}"
    if request.param in ("sqlite", "duckdb"):
        with open_target(f"{request.param}:///{tmp_path / name}.db") as opened:
            yield opened
        return
    server = request.getfixturevalue("mariadb" if request.param == "mariadb" else "postgresql18")
    server.create_database(name)
    try:
        with open_target(server.url(name)) as opened:
            yield opened
    finally:
        server.drop_database(name)


def made(publisher, target, schema: str, name: str, columns=None):
    with psycopg.connect(publisher.conninfo, autocommit=True) as connection:
        shape = read_shape(connection, schema, name)
    assert shape is not None
    shape = published_shape(shape, columns)
    new = create_table(target, shape, identity=True)
    with target.begin() as connection:
        new.create(connection)
    with target.engine.connect() as connection:
        table = target.shapes.reflect(connection, schema, name)
    assert table is not None
    return shape, table, new.notes


def inserted(target, table, **values: object) -> sa.Row:
    """The row of an INSERT by an application."""
    clause = table.clause()
    with target.begin() as connection:
        connection.execute(sa.insert(clause).values(**values).inline())
        condition = [clause.c[name] == value for name, value in values.items()]
        row: sa.Row = connection.execute(sa.select(clause).where(*condition)).one()
        return row


def test_a_created_table_takes_every_value_and_makes_its_own(publisher, target):
    """C1-C3: reflected as it was made, accepted, with its key; INSERTs of the target's users get an
    id
    """
    shape, table, notes = made(publisher, target, "S x", "T %s")
    assert (table.key, table.kind) == (("id",), "table")
    assert [column.name for column in table.columns] == [column.name for column in shape.columns]
    for announced, column in zip(shape.columns, table.columns, strict=True):
        target.values.check_column(announced.type_oid, column)
        assert not column.nullable or column.name not in ("id", "a", "bo")
    first, second = (inserted(target, table, a=a) for a in ("x", "y"))
    assert (first.id, second.id) == (1, 2)
    lacking = {"sqlite": ["Nr"], "mysql": ["Nr"]}.get(target.engine.dialect.name, [])
    assert [note for note in notes if "no default" in note] == [f'column "{name}" has no default' for name in lacking]
    if not lacking:
        assert (first.Nr, second.Nr) == (1, 2)
    assert str(first.bo) in ("True", "1")


def test_what_means_the_same_is_taken_over(publisher, target):
    """Defaults and CHECK constraints; a generated column where the target can store it"""
    _, table, notes = made(publisher, target, "public", "computed", ("a", "d", "5%%"))
    assert (inserted(target, table, a=1).d, notes) == (999, ())
    with pytest.raises(ConflictError) as raised:
        inserted(target, table, **{"a": 2, "5%%": 5})
    assert raised.value.sqlstate == "23514"
    with psycopg.connect(publisher.conninfo, autocommit=True) as connection:
        whole = read_shape(connection, "public", "computed")
    assert whole is not None
    plain = 'column "g" is an ordinary column: {} does not support its expression'
    assert create_table(target, whole).notes == (
        () if target.capabilities.stored_columns else (plain.format(target.capabilities.database),)
    )


def test_columns_that_are_not_published_are_not_made(publisher, target):
    """A1: a key that loses a column is not created"""
    _, table, _ = made(publisher, target, "S x", "T %s", ("a", "bo"))
    assert ([column.name for column in table.columns], table.key) == (["a", "bo"], None)


def test_sequences_go_on_from_the_publishers(publisher, target):
    """D14"""
    _, table, _ = made(publisher, target, "S x", "T %s")
    publisher.execute('SELECT setval(\'"S x"."T %s_id_seq"\', 91), setval(\'"S x"."T %s_Nr_seq"\', 7, false)')
    with psycopg.connect(publisher.conninfo, autocommit=True) as connection:
        sequences = published_sequences(connection, [("S x", "T %s"), ("public", "plain"), ("public", "absent")])
    assert [(one.schema, one.name, one.columns, one.position) for one in sequences] == [
        ("S x", "T %s_Nr_seq", (("S x", "T %s", "Nr"),), SequencePosition(last_value=7, is_called=False)),
        ("S x", "T %s_id_seq", (("S x", "T %s", "id"),), SequencePosition(last_value=91, is_called=True, increment=10)),
        ("public", "shared", (("public", "plain", "a"),), SequencePosition(last_value=1, is_called=False)),
    ]
    done = {}
    for sequence in sequences[:2]:
        ((_, _, column),) = sequence.columns
        assert sequence.position is not None
        with target.begin() as connection:
            done[column] = set_sequence(target, connection, table, column, sequence.position)
    has_second = target.engine.dialect.name in ("postgresql", "duckdb")
    assert done == {"id": True, "Nr": has_second}
    row = inserted(target, table, a="x")
    # PostgreSQL and DuckDB continue in steps of their own sequence.
    assert row.id == (92 if has_second else 101)
    if has_second:
        assert row.Nr == 7


def test_a_default_of_a_sequence_that_nobody_owns_makes_values_in_the_target(publisher, target):
    """Pagila has thirteen of them: INSERTs of an application at the target get an id that follows
    the publisher's sequence
    """
    _, table, notes = made(publisher, target, "public", "plain")
    assert notes == ()
    position = SequencePosition(last_value=5, is_called=True)
    with target.begin() as connection:
        found = target.sequences.of_column(connection, table, "a")
        assert (found.position.last_value, found.position.is_called) == (1, False)
        target.sequences.set(connection, found, position)
    with target.begin() as connection:
        assert target.sequences.of_column(connection, table, "a").position.next_value == 6
    assert inserted(target, table, b=1).a == 6


def test_a_counter_is_not_set_to_what_it_cannot_be(publisher, target):
    """Values beyond its type, and values that come downwards"""
    _, table, _ = made(publisher, target, "public", "plain")
    with target.begin() as connection:
        found = target.sequences.of_column(connection, table, "a")
    down = SequencePosition(last_value=-5, is_called=True, increment=-1)
    assert found.obstacle(down) == "it counts downwards at the publisher and upwards in the target"
    beyond = found.obstacle(SequencePosition(last_value=2**63, is_called=False))
    assert beyond is not None
    assert beyond.startswith(f"{2**63} is out of its range in the target (1 .. ")


@pytest.mark.parametrize("major", [15, 16, 18])
def test_sequences_are_read_from_every_version(request, major):
    for database in fresh_database(request.getfixturevalue(f"postgresql{major}")):
        database.execute("CREATE TABLE t (a serial, b int GENERATED BY DEFAULT AS IDENTITY (START 5))")
        with psycopg.connect(database.conninfo, autocommit=True) as connection:
            found = published_sequences(connection, [("public", "t")])
        assert [(one.columns, one.position) for one in found] == [
            ((("public", "t", "a"),), SequencePosition(last_value=1, is_called=False)),
            ((("public", "t", "b"),), SequencePosition(last_value=5, is_called=False)),
        ]
