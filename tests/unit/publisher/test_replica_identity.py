"""The tables whose UPDATEs and DELETEs the publisher refuses, with the statement that helps."""

from __future__ import annotations

import pytest

from subscriber.publisher.catalog import read_indexes
from subscriber.publisher.table_checks import TableWithoutIdentity, tables_without_identity
from tests.catalog_rows import COLUMNS, INDEXES, column, index
from tests.scripted_server import VERSIONS, Row, ScriptedServer

OID = 16384


def refused(*indexes: Row) -> TableWithoutIdentity:
    row = {"oid": OID, "nspname": "public", "relname": "Film", "updates": True, "deletes": False}
    columns = [column(OID, 1, "id", nullable=False), column(OID, 2, "a", nullable=False), column(OID, 3, "b")]
    server = ScriptedServer({"pg_get_replica_identity_index": [row], COLUMNS: columns, INDEXES: indexes})
    (table,) = tables_without_identity(server.connection, ("p", "q"))
    assert server.asked[0].parameters == (["p", "q"],)
    return table


@pytest.mark.parametrize(
    ("indexes", "identity"),
    [
        ((), "FULL"),
        ((index(OID, "a", "a"), index(OID, "film_pkey", "id", "a", primary=True)), "DEFAULT"),
        ((index(OID, "both", "id", "a"), index(OID, 'film_"key', "a")), 'USING INDEX "film_""key"'),
        ((index(OID, "nullable", "b"),), "FULL"),
        ((index(OID, "partial", "a", predicate="(a > 0)"),), "FULL"),
        ((index(OID, "later", "a", deferrable=True),), "FULL"),
    ],
    ids=["no index", "primary key", "fewest columns", "nullable", "partial", "deferrable"],
)
def test_the_statement_uses_the_index_that_can_identify_rows(indexes, identity):
    """B32, B33: ALTER TABLE … REPLICA IDENTITY."""
    table = refused(*indexes)
    assert table == TableWithoutIdentity(
        "public",
        "Film",
        updates=True,
        deletes=False,
        statement=f'ALTER TABLE "public"."Film" REPLICA IDENTITY {identity}',
    )
    assert table.qualified_name == "public.Film"


@pytest.mark.parametrize("version", VERSIONS)
def test_included_columns_of_an_index_are_no_key_where_indexes_have_them(version):
    server = ScriptedServer({INDEXES: []}, version=version)
    assert read_indexes(server.connection, [OID]) == {}
    assert bool(server.statements("i.indnkeyatts - 1")) is (version >= 110000)
    assert bool(server.statements("i.indnatts - 1")) is (version < 110000)
