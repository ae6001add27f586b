"""The publications of a server as definitions, version by version."""

from __future__ import annotations

import pytest

from subscriber.postgres.publication.definition import OPERATIONS, Publication, TableEntry
from subscriber.publisher.server_publications import read_publications
from tests.scripted_server import VERSIONS, Row, ScriptedServer


def publication(
    oid: int,
    name: str,
    *,
    all_tables: bool = False,
    publish: tuple[bool, bool, bool, bool] = (True, True, True, True),
    via_root: bool = False,
    generated: str = "n",
    all_sequences: bool = False,
) -> Row:
    """A row of pg_publication; ``publish`` has INSERT, UPDATE, DELETE, TRUNCATE."""
    return {
        "oid": oid, "pubname": name, "puballtables": all_tables, "published": list(publish), "pubviaroot": via_root,
        "pubgencols": generated, "puballsequences": all_sequences,
    }  # fmt: skip


def member(
    publication_oid: int,
    name: str,
    where: str | None = None,
    columns: tuple[str, ...] | None = None,
    *,
    excepted: bool = False,
) -> Row:
    """A row of pg_publication_rel."""
    return {
        "prpubid": publication_oid, "nspname": "public", "relname": name, "prqual": where,
        "listed": columns is not None, "columns": list(columns or ()), "prexcept": excepted,
    }  # fmt: skip


def server_with(
    *publications: Row, members: tuple[Row, ...] = (), schemas: tuple[Row, ...] = (), version: int = 180000
) -> ScriptedServer:
    return ScriptedServer(
        {
            "pubname::text FROM pg_publication ORDER BY": [{"pubname": row["pubname"]} for row in publications],
            "pubname::text, puballtables": publications,
            "FROM pg_publication_rel": members,
            "FROM pg_publication_namespace": schemas,
        },
        version=version,
    )


def test_publications_are_read_with_their_tables_schemas_and_options():
    server = server_with(
        publication(1, "p", publish=(True, False, True, False), via_root=True, generated="s"),
        publication(2, "q"),
        members=(member(1, "film", "(id > 1)", ("id", "name")), member(1, "actor"), member(2, "film", columns=())),
        schemas=({"pnpubid": 2, "nspname": "a"}, {"pnpubid": 2, "nspname": "b"}),
    )
    assert read_publications(server.connection) == [
        Publication(
            "p",
            tables=(TableEntry("public", "film", ("id", "name"), "(id > 1)"), TableEntry("public", "actor")),
            publish=frozenset({"insert", "delete"}),
            via_root=True,
            generated_columns="stored",
        ),
        Publication("q", tables=(TableEntry("public", "film", ()),), schemas=("a", "b")),
    ]


def test_tables_after_except_are_no_members():
    server = server_with(
        publication(1, "p", all_tables=True, all_sequences=True),
        members=(member(1, "film", excepted=True),),
        version=190000,
    )
    (found,) = read_publications(server.connection)
    assert found == Publication("p", all_tables=True, excepted=(("public", "film"),), all_sequences=True)


def test_publications_come_in_the_order_of_their_names_without_those_that_do_not_exist():
    server = server_with(publication(1, "a"), publication(2, "b"))
    assert [one.name for one in read_publications(server.connection, ["b", "nope", "a"])] == ["b", "a"]
    assert not server.statements("ORDER BY 1")


def test_expressions_are_printed_with_the_schema_of_every_object():
    server = server_with()
    assert read_publications(server.connection) == []
    assert server.asked[0].sql == "SELECT set_config('search_path', '', true)"


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_the_servers_version_has_is_asked_for(version):
    server = server_with(publication(1, "p"), members=(member(1, "film"),), version=version)
    (found,) = read_publications(server.connection, ["p"])
    assert found == Publication("p", tables=(TableEntry("public", "film"),), publish=frozenset(OPERATIONS))
    for name, since in (
        ("pubtruncate", 110000),
        ("pubviaroot", 130000),
        ("prqual", 150000),
        ("prattrs", 150000),
        ("pg_publication_namespace", 150000),
        ("pubgencols", 180000),
        ("prexcept", 190000),
        ("puballsequences", 190000),
    ):
        assert bool(server.statements(name)) is (version >= since)
