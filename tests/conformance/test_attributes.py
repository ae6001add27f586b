"""The attributes of a table's columns in the publisher's catalogs, for every version."""

from __future__ import annotations

import psycopg
import pytest

from subscriber.publisher.catalog import read_attributes
from subscriber.publisher.server_publications import ServerPublications

pytestmark = pytest.mark.server


@pytest.fixture
def read(database):
    def call(table: str = "t"):
        with psycopg.connect(database.conninfo) as server:
            found = read_attributes(server, ServerPublications(server, ["pub"]), "public", table)
        assert found is not None
        return found

    return call


def test_a_missing_value_is_the_text_that_replication_would_send(database, read):
    """Whatever the server's settings are, and however the default has changed since"""
    database.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE PUBLICATION pub FOR TABLE t")
    database.execute(f"ALTER DATABASE {database.name} SET datestyle = 'SQL, DMY'")
    database.execute(
        "ALTER TABLE t DROP a, ADD b int[] DEFAULT '{1,NULL}', ADD c date DEFAULT '2026-02-01', ADD d text DEFAULT 'q\"{,}\\',"
        " ADD e bytea DEFAULT '\\x00ff', ADD f int, ADD g float8 DEFAULT 1e23, ADD h int DEFAULT NULL"
    )
    database.execute("ALTER TABLE t ALTER c SET DEFAULT '1999-01-01'")
    found = read()
    assert [(one.number, one.name, set(found.missing.get(one.name, ()))) for one in found.columns] == [
        (2, "b", {"{1,NULL}"}),
        (3, "c", {"2026-02-01"}),
        (4, "d", {'q"{,}\\'}),
        (5, "e", {"\\x00ff"}),
        (6, "f", set()),
        (7, "g", {"9.999999999999999e+22"}),
        (8, "h", set()),
    ]
    assert (found.last, dict(found.files), found.whole) == (8, {}, True)


@pytest.mark.parametrize("statement", ["TRUNCATE t", "VACUUM FULL t", "ALTER TABLE t ADD b float8 DEFAULT random()"])
def test_a_table_that_was_written_anew_has_another_file(database, read, statement):
    database.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    assert not read().files
    database.execute(statement)
    assert len(read().files) == 1


def test_a_partitioned_table_has_the_values_and_files_of_its_partitions(database, read):
    database.execute(
        "CREATE TABLE t (a int) PARTITION BY LIST (a); CREATE TABLE one PARTITION OF t FOR VALUES IN (1);"
        " CREATE TABLE two PARTITION OF t FOR VALUES IN (2); INSERT INTO t VALUES (1), (2)"
    )
    database.execute("ALTER TABLE t ADD b int DEFAULT 5; CREATE TABLE three PARTITION OF t FOR VALUES IN (3)")
    assert read().missing == {"b": {"5"}}
    database.execute("TRUNCATE two")
    assert len(read().files) == 1


def test_a_column_list_is_found(database, read):
    database.execute(
        "CREATE TABLE t (a int, b int) PARTITION BY LIST (a); CREATE TABLE u (a int, b int);"
        " CREATE PUBLICATION pub FOR TABLE t (a), u WITH (publish_via_partition_root)"
    )
    assert [read(table).whole for table in ("t", "u")] == [False, True]


def test_a_generated_column_is_one_and_a_table_that_is_gone_is_none(database, read):
    database.execute("CREATE TABLE t (a int, b int GENERATED ALWAYS AS (a * 2) STORED)")
    assert [one.generated for one in read().columns] == ["", "stored"]
    with psycopg.connect(database.conninfo) as server:
        assert read_attributes(server, ServerPublications(server, []), "public", "gone") is None
