"""What emulated publications read of a publisher's tables, version by version."""

from __future__ import annotations

import pytest

from subscriber.postgres.schema.publisher_tables import (
    Placement,
    PublisherCollation,
    PublisherColumn,
    PublisherTable,
    PublisherTables,
)
from subscriber.publisher.catalog_tables import read_placements, read_publisher_tables
from tests.catalog_rows import COLUMNS, KEYS, PARENTS, TABLES, column, relation
from tests.scripted_server import POSITIONS, VERSIONS, Answer, Row, ScriptedServer


def server_with(
    *relations: Row,
    columns: tuple[Row, ...] = (),
    keys: tuple[Row, ...] = (),
    parents: tuple[Row, ...] = (),
    collations: tuple[int, ...] = (),
    database_is_c: bool = False,
    encoding: str = "UTF8",
    version: int = 180000,
    marks: tuple[Row, ...] = (),
) -> ScriptedServer:
    answers: dict[str, Answer] = {
        **POSITIONS,
        "t.xmin::text": marks,
        "SELECT 'type' ||": [{"line": "type\t16400"}, {"line": "collation\t12500"}],
        "current_database()::text, current_user": [
            {
                "server_encoding": encoding, "current_database": "shop", "current_user": "ann",
                "current_schemas": ["pg_catalog", "public"], "current_schema": "public",
                "schemas": ["pg_catalog", "public", "empty"], "has_known_hashes": True,
            }
        ],
        TABLES: relations,
        COLUMNS: columns,
        KEYS: keys,
        PARENTS: parents,
        "SELECT current_setting('server_encoding')": [{"server_encoding": encoding}],
        "FROM pg_collation WHERE": [{"oid": oid} for oid in collations],
        "FROM pg_collation c WHERE": [
            {
                "oid": 100, "collname": "default", "collprovider": "i", "locale": "de-DE", "ctype": "de-DE",
                "version": "153.120", "rules": None,
            }
        ],
        "FROM pg_database": [{"is_c": database_is_c}],
    }  # fmt: skip
    return ScriptedServer(answers, version=version)


def read(*relations: Row, **options: object) -> PublisherTables:
    return read_publisher_tables(server_with(*relations, **options).connection)  # type: ignore[arg-type]


def test_a_table_is_read_with_its_columns_and_its_identity():
    found = read(
        relation(16384, "film", identity="i"),
        columns=(
            column(16384, 1, "id"),
            column(16384, 3, "title", 25, "text", collation=100),
            column(16384, 4, "double", generated="s", expression="(id * 2)"),
            column(16384, 5, "triple", generated="v", expression="(id * 3)"),
        ),
        keys=({"indrelid": 16384, "columns": ["title", "id"]},),
    )
    assert found.tables == {
        ("public", "film"): PublisherTable(
            16384,
            "public",
            "film",
            "table",
            (
                PublisherColumn("id", 1, 23, -1, "integer"),
                PublisherColumn("title", 3, 25, -1, "text", 100),
                PublisherColumn("double", 4, 23, -1, "integer", 0, "stored", "(id * 2)"),
                PublisherColumn("triple", 5, 23, -1, "integer", 0, "virtual", "(id * 3)"),
            ),
            identity="index",
            identity_columns=("title", "id"),
        )
    }


@pytest.mark.parametrize(
    ("letter", "identity", "columns"),
    [("d", "default", ()), ("n", "nothing", ()), ("f", "full", ("a", "b")), ("i", "index", ())],
)
def test_replica_identity_full_has_every_column(letter, identity, columns):
    given = (column(16384, 1, "a"), column(16384, 2, "b"))
    table = read(relation(16384, "t", identity=letter), columns=given).tables["public", "t"]
    assert (table.identity, table.identity_columns) == (identity, columns)


@pytest.mark.parametrize(
    ("letter", "kind"),
    [
        ("r", "table"),
        ("p", "partitioned table"),
        ("v", "view"),
        ("m", "materialized view"),
        ("f", "foreign table"),
        ("S", "sequence"),
    ],
)
def test_a_relation_has_its_kind(letter, kind):
    """pg_class.relkind."""
    assert read(relation(16384, "t", kind=letter)).tables["public", "t"].kind == kind


@pytest.mark.parametrize(("letter", "persistence"), [("p", "permanent"), ("u", "unlogged"), ("t", "temporary")])
def test_a_relation_has_its_persistence(letter, persistence):
    """pg_class.relpersistence."""
    assert read(relation(16384, "t", persistence=letter)).tables["public", "t"].persistence == persistence


@pytest.mark.parametrize(("oid", "is_system"), [(16383, True), (16384, False)])
def test_the_oids_of_users_begin_at_firstnormalobjectid(oid, is_system):
    assert read(relation(oid, "t")).tables["public", "t"].is_system is is_system


def test_a_partition_knows_its_parent_and_a_child_all_of_its_parents():
    found = read(
        relation(1, "part", is_partition=True),
        relation(2, "child"),
        parents=(
            {"inhrelid": 1, "nspname": "public", "relname": "root"},
            {"inhrelid": 2, "nspname": "public", "relname": "b"},
            {"inhrelid": 2, "nspname": "public", "relname": "a"},
        ),
    ).tables
    part, child = found["public", "part"], found["public", "child"]
    assert (part.is_partition, part.parents) == (True, (("public", "root"),))
    assert (child.is_partition, child.parents) == (False, (("public", "b"), ("public", "a")))


@pytest.mark.parametrize(("version", "counted"), [(140000, 0), (150000, 5), (160000, 0)])
def test_dropped_columns_count_on_postgresql_15_only(version, counted):
    """B40."""
    assert read(relation(16384, "t", attributes=5), version=version).tables["public", "t"].attributes == counted


def test_the_database_and_its_role_are_told():
    found = read(relation(16384, "t"), version=170004, encoding="LATIN1")
    assert (found.server_version, found.database, found.role, found.encoding) == (170004, "shop", "ann", "LATIN1")
    assert (found.search_path, found.current_schema) == (("pg_catalog", "public"), "public")
    assert found.schemas == {"pg_catalog", "public", "empty"}
    assert found.own_objects == "collation\t12500\ntype\t16400"


@pytest.mark.parametrize(
    ("encoding", "database_is_c", "bytewise"),
    [
        ("UTF8", False, {950, 951}),
        ("UTF8", True, {100, 950, 951}),
        ("LATIN1", True, {100, 950, 951}),
        ("SQL_ASCII", False, {950, 951}),
        ("LATIN9", True, set()),
        ("EUC_JP", True, set()),
    ],
)
def test_texts_sort_by_bytes_where_the_encoding_has_the_order_of_utf8(encoding, database_is_c, bytewise):
    """The bytes of LATIN1 have the order of the code points; those of LATIN9 do not, because of
    the euro sign.
    """
    found = read(collations=(950, 951), database_is_c=database_is_c, encoding=encoding)
    assert found.bytewise_collations == bytewise
    default = PublisherCollation(100, "default", "i", "de-DE", "de-DE", "153.120")
    assert found.collations == (() if 100 in bytewise else (default,))


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_the_servers_version_has_is_asked_for(version):
    server = server_with(relation(16384, "t"), columns=(column(16384, 1, "id"),), version=version)
    assert len(read_publisher_tables(server.connection).tables) == 1
    for name, since in (
        ("indnkeyatts", 110000),
        ("attgenerated", 120000),
        ("datlocprovider", 150000),
        ("pg_database_collation_actual_version", 150000),
        ("icurules", 160000),
        ("unicode_version", 170000),
        ("colllocale", 170000),
        ("datlocale", 170000),
    ):
        assert bool(server.statements(name)) is (version >= since)


def test_everything_is_read_in_one_snapshot_and_named_with_its_schema():
    server = server_with()
    read_publisher_tables(server.connection)
    said = [asked.sql for asked in server.asked]
    # The WAL written so far is known before, the WAL that is durable after.
    assert said[1] == "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    assert said.index("SET LOCAL search_path = ''") == 3  # after the path itself was read
    assert "pg_current_wal_insert_lsn()" in said[0]
    assert "pg_current_wal_flush_lsn()" in said[-1]


LEAF = {
    "oid": 16390, "nspname": "public", "relname": "leaf", "is_partitioned": False, "inhparent": 16384,
    "created_by": 700, "placed_by": 701, "altered_by": 702,
}  # fmt: skip
ROOT = LEAF | {"oid": 16384, "relname": "root", "is_partitioned": True, "inhparent": 0}


def test_it_is_known_which_transactions_have_placed_the_tables():
    root, leaf = relation(16384, "root", kind="p"), relation(16390, "leaf", is_partition=True)
    parent = {"inhrelid": 16390, "nspname": "public", "relname": "root"}
    found = read(root, leaf, parents=(parent,), marks=(ROOT, LEAF))
    one = found.tables["public", "leaf"]
    assert (one.created_by, one.placed_by, one.altered_by) == (700, 701, 702)
    known_until, placements = read_placements(server_with(marks=(ROOT, LEAF)).connection)
    assert known_until == found.known_until
    assert placements == found.placements()
    assert placements == {
        16384: Placement(("public", "root"), 0, 701, 702),
        16390: Placement(("public", "leaf"), 16384, 701, 0),
    }
