"""The relation messages of published tables, before there is a stream."""

from __future__ import annotations

import pytest

from subscriber.protocol.messages import Relation, RelationColumn
from subscriber.publisher.announced import announced_relations
from subscriber.schema.published_table import PublishedTable
from tests.scripted_server import VERSIONS, Row, ScriptedServer


def column(
    table: str,
    name: str | None,
    type_oid: int | None = 23,
    *,
    key: bool = False,
    generated: bool = False,
    identity: str = "d",
) -> Row:
    """A row of the query: a column of a table, or a table without columns."""
    return {
        "nspname": "public", "relname": table, "oid": 16384, "relreplident": identity, "attname": name,
        "atttypid": type_oid, "atttypmod": -1, "generated": generated, "key": key,
    }  # fmt: skip


def announced(*rows: Row, columns: tuple[str, ...] | None = None) -> list[Relation]:
    server = ScriptedServer({"pg_get_replica_identity_index": rows})
    return announced_relations(server.connection, [PublishedTable("public", "film", columns=columns)])


def test_a_relation_has_the_columns_of_the_table_and_marks_the_key():
    assert announced(column("film", "id", key=True), column("film", "title", 25)) == [
        Relation(16384, "public", "film", "d", (RelationColumn(1, "id", 23, -1), RelationColumn(0, "title", 25, -1)))
    ]


def test_only_listed_columns_are_sent_in_the_tables_order():
    """A list may name a generated column, which is sent then."""
    rows = [column("film", "id"), column("film", "total", generated=True), column("film", "title")]
    (relation,) = announced(*rows, columns=("title", "total"))
    assert [one.name for one in relation.columns] == ["total", "title"]


def test_without_a_list_generated_columns_are_not_sent():
    (relation,) = announced(column("film", "id"), column("film", "total", generated=True))
    assert [one.name for one in relation.columns] == ["id"]


def test_a_table_without_columns_is_announced_without_columns():
    assert announced(column("film", None, None, identity="f")) == [Relation(16384, "public", "film", "f", ())]


def test_relations_come_in_the_order_of_the_tables_without_those_that_no_longer_exist():
    server = ScriptedServer({"pg_get_replica_identity_index": [column("a", "id"), column("b", "id")]})
    tables = [PublishedTable("public", name) for name in ("b", "gone", "a")]
    assert [one.name for one in announced_relations(server.connection, tables)] == ["b", "a"]
    assert server.asked[0].parameters == (["public"] * 3, ["b", "gone", "a"])


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_the_servers_version_has_is_asked_for(version):
    server = ScriptedServer({"pg_get_replica_identity_index": []}, version=version)
    assert announced_relations(server.connection, []) == []
    assert bool(server.statements("indnkeyatts")) is (version >= 110000)
    assert bool(server.statements("attgenerated")) is (version >= 120000)
