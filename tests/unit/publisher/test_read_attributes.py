"""A table's attributes, read from the publisher's catalogs."""

from __future__ import annotations

import pytest

from subscriber.publisher.published_tables import ServerPublications
from subscriber.publisher.read_attributes import changed_files, read_attributes
from subscriber.schema.attributes import Attribute, TableAttributes
from tests.scripted_server import VERSIONS, Row, ScriptedServer

OID = 16384


def attribute(
    number: int, name: str, type_oid: int = 23, *, generated: bool = False, missing: tuple[str, ...] = ()
) -> Row:
    """A row of pg_attribute; ``missing`` are the values that rows have which were there before."""
    return {
        "attnum": number, "attname": name, "atttypid": type_oid, "atttypmod": -1, "generated": generated,
        "missing": list(missing),
    }  # fmt: skip


def server_with(
    *attributes: Row, files: dict[int, int] | None = None, listed: bool = False, version: int = 180000
) -> ScriptedServer:
    return ScriptedServer(
        {
            "relnatts": [{"oid": OID, "relnatts": len(attributes)}],
            "a.attnum::int4": list(attributes),
            "pg_relation_filenode": [{"oid": oid, "file": file} for oid, file in (files or {OID: OID}).items()],
            "SELECT EXISTS": [{"exists": listed}],
        },
        version=version,
    )


def published_by(server: ScriptedServer) -> ServerPublications:
    return ServerPublications(server.connection, ["p"])


def test_the_attributes_of_a_table_are_read_with_the_values_that_older_rows_have():
    server = server_with(attribute(1, "id"), attribute(3, "price", 1700, missing=("1.5",)))
    assert read_attributes(server.connection, published_by(server), "public", "film") == TableAttributes(
        (Attribute(1, "id", 23, -1), Attribute(3, "price", 1700, -1, frozenset({"1.5"}))), 2, {}, True, OID
    )


def test_a_table_that_does_not_exist_has_no_attributes():
    server = ScriptedServer({"relnatts": []})
    assert read_attributes(server.connection, published_by(server), "public", "gone") is None
    assert server.asked[-1].parameters == ("public", "gone")


@pytest.mark.parametrize("listed", [True, False])
def test_the_publications_say_whether_there_is_a_column_list(listed):
    server = server_with(attribute(1, "id"), listed=listed)
    found = read_attributes(server.connection, published_by(server), "public", "film")
    assert found is not None
    assert found.whole is not listed


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_the_servers_version_has_is_asked_for(version):
    server = server_with(attribute(1, "id"), version=version)
    assert read_attributes(server.connection, published_by(server), "public", "film") is not None
    assert bool(server.statements("attmissingval")) is (version >= 110000)
    assert bool(server.statements("attgenerated")) is (version >= 120000)
    assert bool(server.statements("prattrs")) is (version >= 150000)


def test_a_file_that_has_its_tables_oid_was_never_rewritten():
    assert changed_files([(16384, 16384), (16390, 16500), (16391, 0)]) == {16390: 16500, 16391: 0}
    assert changed_files([]) == {}
