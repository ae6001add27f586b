"""A table's attributes, read from the publisher's catalogs."""

from __future__ import annotations

import pytest

from subscriber.postgres.schema.publisher_tables import PublisherColumn, TableAttributes
from subscriber.publisher.catalog import changed_files, read_attributes
from subscriber.publisher.server_publications import ServerPublications
from tests.catalog_rows import COLUMNS, column
from tests.scripted_server import VERSIONS, Row, ScriptedServer

OID = 16384


def server_with(
    *columns: Row,
    missing: dict[str, str] | None = None,
    files: dict[int, int] | None = None,
    listed: bool = False,
    version: int = 180000,
) -> ScriptedServer:
    return ScriptedServer(
        {
            "relnatts": [{"oid": OID, "relnatts": len(columns)}],
            COLUMNS: list(columns),
            "attmissingval": [{"attname": name, "values": [value]} for name, value in (missing or {}).items()],
            "pg_relation_filenode": [{"oid": oid, "file": file} for oid, file in (files or {OID: OID}).items()],
            "prattrs": [{"nspname": "public", "relname": "film"}] if listed else [],
        },
        version=version,
    )


def published_by(server: ScriptedServer) -> ServerPublications:
    return ServerPublications(server.connection, ["p"])


def test_the_attributes_of_a_table_are_read_with_the_values_that_older_rows_have():
    server = server_with(column(OID, 1, "id"), column(OID, 3, "price", 1700, "numeric"), missing={"price": "1.5"})
    assert read_attributes(server.connection, published_by(server), "public", "film") == TableAttributes(
        (
            PublisherColumn("id", 1, 23, type_name="integer"),
            PublisherColumn("price", 3, 1700, type_name="numeric"),
        ),
        2,
        {},
        True,
        OID,
        {"price": frozenset({"1.5"})},
    )


def test_a_table_that_does_not_exist_has_no_attributes():
    server = ScriptedServer({"relnatts": []})
    assert read_attributes(server.connection, published_by(server), "public", "gone") is None
    assert server.asked[-1].parameters == ("public", "gone")


@pytest.mark.parametrize("listed", [True, False])
def test_the_publications_say_whether_there_is_a_column_list(listed):
    server = server_with(column(OID, 1, "id"), listed=listed)
    found = read_attributes(server.connection, published_by(server), "public", "film")
    assert found is not None
    assert found.whole is not listed


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_the_servers_version_has_is_asked_for(version):
    server = server_with(column(OID, 1, "id"), version=version)
    assert read_attributes(server.connection, published_by(server), "public", "film") is not None
    assert bool(server.statements("attmissingval")) is (version >= 110000)
    assert bool(server.statements("attgenerated")) is (version >= 120000)
    assert bool(server.statements("prattrs")) is (version >= 150000)


def test_a_file_that_has_its_tables_oid_was_never_rewritten():
    assert changed_files([(16384, 16384), (16390, 16500), (16391, 0)]) == {16390: 16500, 16391: 0}
    assert changed_files([]) == {}
