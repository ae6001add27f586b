"""The tables whose UPDATEs and DELETEs the publisher refuses, with the statement that helps."""

from __future__ import annotations

import pytest

from subscriber.publisher.replica_identity import TableWithoutIdentity, tables_without_identity
from tests.scripted_server import VERSIONS, ScriptedServer


@pytest.mark.parametrize(
    ("index", "identity"),
    [
        (None, "FULL"),
        ("", "DEFAULT"),
        ('film_"key', 'USING INDEX "film_""key"'),
    ],
    ids=["no index", "primary key", "unique index"],
)
def test_the_statement_uses_the_index_that_can_identify_rows(index, identity):
    """B32, B33: ALTER TABLE … REPLICA IDENTITY."""
    row = {"nspname": "public", "relname": "Film", "updates": True, "deletes": False, "index": index}
    server = ScriptedServer({"pg_get_replica_identity_index": [row]})
    (table,) = tables_without_identity(server.connection, ("p", "q"))
    assert table == TableWithoutIdentity(
        "public",
        "Film",
        updates=True,
        deletes=False,
        statement=f'ALTER TABLE "public"."Film" REPLICA IDENTITY {identity}',
    )
    assert table.qualified_name == "public.Film"
    assert server.asked[0].parameters == (["p", "q"],)


@pytest.mark.parametrize("version", VERSIONS)
def test_included_columns_of_an_index_are_no_key_where_indexes_have_them(version):
    server = ScriptedServer({"pg_get_replica_identity_index": []}, version=version)
    assert tables_without_identity(server.connection, ["p"]) == []
    assert bool(server.statements("k.place <= i.indnkeyatts ")) is (version >= 110000)
    assert bool(server.statements("k.place <= i.indnatts ")) is (version < 110000)
