"""The publisher's tables, read from real catalogs of every version."""

from __future__ import annotations

import psycopg
import pytest

from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTables, from_json, to_json
from subscriber.publisher.catalog_tables import read_publisher_tables

pytestmark = pytest.mark.server

TABLES = """
CREATE SCHEMA s;
CREATE SCHEMA empty;
CREATE TYPE s.mood AS ENUM ('ok', 'bad');
CREATE TABLE t (a int PRIMARY KEY, gone int, n numeric(6,2), m s.mood, c text COLLATE "C", d text, g text GENERATED ALWAYS AS (upper(d)) STORED);
ALTER TABLE t DROP COLUMN gone;
CREATE TABLE later (a int PRIMARY KEY DEFERRABLE);
CREATE TABLE nothing (a int PRIMARY KEY);
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
CREATE TABLE "full" (a int, b int);
ALTER TABLE "full" REPLICA IDENTITY FULL;
CREATE TABLE s.by_index (a int PRIMARY KEY, b int NOT NULL, c int NOT NULL, d int);
CREATE UNIQUE INDEX by_index_key ON s.by_index (c, b) INCLUDE (d);
ALTER TABLE s.by_index REPLICA IDENTITY USING INDEX by_index_key;
CREATE TABLE other (z int);
CREATE TABLE child (x int) INHERITS (t, other);
CREATE TABLE root (a int) PARTITION BY RANGE (a);
CREATE TABLE s.leaf PARTITION OF root DEFAULT;
CREATE UNLOGGED TABLE unlogged (a int);
CREATE VIEW v AS SELECT 1 AS a;
CREATE MATERIALIZED VIEW mv AS SELECT 1 AS a;
CREATE SEQUENCE q;
CREATE FOREIGN DATA WRAPPER w;
CREATE SERVER srv FOREIGN DATA WRAPPER w;
CREATE FOREIGN TABLE f (a int) SERVER srv;
"""


@pytest.fixture
def connection(database):
    database.execute(TABLES)
    with psycopg.connect(database.conninfo, autocommit=True) as opened:
        yield opened


@pytest.fixture
def tables(connection) -> PublisherTables:
    return read_publisher_tables(connection)


def test_the_columns_of_a_table(connection, tables):
    """B29, B37: the columns that are not dropped, with what expressions need to know of them"""
    mood = connection.execute("SELECT 's.mood'::regtype::oid::int8").fetchone()[0]
    found = tables.tables["public", "t"]
    assert found.columns == (
        PublisherColumn("a", 1, 23, -1, "integer"),
        PublisherColumn("n", 3, 1700, (6 << 16 | 2) + 4, "numeric(6,2)"),
        PublisherColumn("m", 4, mood, -1, "s.mood"),
        PublisherColumn("c", 5, 25, -1, "text", 950),
        PublisherColumn("d", 6, 25, -1, "text", 100),
        PublisherColumn("g", 7, 25, -1, "text", 100, "stored", "upper(d)"),
    )
    assert found.oid == connection.execute("SELECT 't'::regclass::oid::int8").fetchone()[0]


def test_the_replica_identity_is_the_one_that_the_server_goes_by(tables):
    """B13, B33, B35"""
    found = {
        name: (one.identity, one.identity_columns) for (_, name), one in tables.tables.items() if not one.is_system
    }
    assert found["t"] == ("default", ("a",))
    assert found["later"] == ("default", ())
    assert found["nothing"] == ("nothing", ())
    assert found["full"] == ("full", ("a", "b"))
    assert found["by_index"] == ("index", ("c", "b"))
    assert found["other"] == ("default", ())


def test_what_relations_are_and_what_they_inherit_from(tables):
    """B1, B2, B5"""
    found = {name: one for (_, name), one in tables.tables.items() if not one.is_system}
    assert {name: one.kind for name, one in found.items() if one.kind != "table"} == {
        "root": "partitioned table",
        "v": "view",
        "mv": "materialized view",
        "q": "sequence",
        "f": "foreign table",
    }
    assert found["child"].parents == (("public", "t"), ("public", "other"))
    assert (found["leaf"].parents, found["leaf"].is_partition) == ((("public", "root"),), True)
    assert [one.name for one in tables.children(found["t"])] == ["child"]
    assert {one.persistence for one in found.values()} == {"permanent", "unlogged"}
    assert found["unlogged"].persistence == "unlogged"


def test_the_systems_relations_can_be_named_too(tables):
    catalog = tables.find(None, "pg_class")
    assert catalog is not None
    assert (catalog.schema, catalog.is_system, catalog.columns) == ("pg_catalog", True, ())
    assert tables.tables["information_schema", "sql_features"].column("feature_id") is not None


def test_where_names_are_looked_for(connection, database, tables):
    assert (tables.search_path, tables.current_schema) == (("pg_catalog", "public"), "public")
    assert {"public", "s", "empty", "pg_catalog", "pg_toast", "information_schema"} <= tables.schemas
    assert (tables.database, tables.role) == (database.name, "postgres")
    connection.execute("SET search_path = nowhere, s, pg_catalog")
    again = read_publisher_tables(connection)
    assert (again.search_path, again.current_schema) == (("s", "pg_catalog"), "s")
    assert connection.execute("SHOW search_path").fetchone() == ("nowhere, s, pg_catalog",)
    connection.execute("SET search_path = nowhere")
    assert read_publisher_tables(connection).current_schema is None


def test_a_collation_is_bytewise_if_the_server_says_so_of_order_and_case(connection, tables):
    """The server's answers for strings that C, builtin, libc and ICU locales order or fold in
    different ways.
    """
    query = (
        "SELECT c.oid::int8, quote_ident(nspname) || '.' || quote_ident(collname)"
        " FROM pg_collation c JOIN pg_namespace n ON n.oid = collnamespace"
        " WHERE collencoding IN (-1, (SELECT encoding FROM pg_database WHERE datname = current_database())) ORDER BY 2"
    )
    names = dict(connection.execute(query).fetchall())
    assert {names[oid] for oid in tables.bytewise_collations} >= {'pg_catalog."C"', 'pg_catalog."POSIX"'}
    for oid in tables.bytewise_collations & set(names):
        name = names[oid]
        facts = f"'a' > 'B' COLLATE {name}, '-b' < 'a' COLLATE {name}, 'z' < 'ä' COLLATE {name}, upper('aä' COLLATE {name}) = 'Aä'"
        assert connection.execute(f"SELECT {facts}".encode()).fetchone() == (True, True, True, True), name
    others = sorted(set(names) - tables.bytewise_collations - {100})
    assert others, "a server with no other collation proves nothing"


@pytest.mark.parametrize(
    ("made", "bytewise"),
    [
        ("LOCALE 'C'", {100, 950, 951}),
        ("LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C'", {100, 950, 951}),
        ("LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'", {950, 951}),
        ("LOCALE 'C' ENCODING EUC_JP", set()),
    ],
)
def test_the_databases_own_collation_is_one_of_them_only_if_it_is_c(postgresql18, made, bytewise):
    """The builtin C.UTF-8 knows more letters than C does; EUC_JP has an order of its own."""
    postgresql18.execute(f"CREATE DATABASE collated TEMPLATE template0 {made}")
    try:
        with psycopg.connect(postgresql18.conninfo("collated"), autocommit=True) as opened:
            assert read_publisher_tables(opened).bytewise_collations & {100, 950, 951} == bytewise
    finally:
        postgresql18.execute("DROP DATABASE collated WITH (FORCE)")


def test_what_was_read_can_be_kept_as_text(tables):
    assert from_json(to_json(tables)) == tables
