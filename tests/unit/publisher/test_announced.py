"""The relation messages of published tables, before there is a stream."""

from __future__ import annotations

import pytest

from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.publisher.catalog import announced_relations
from tests.catalog_rows import COLUMNS, KEYS, PARENTS, TABLES, column, key, relation
from tests.scripted_server import VERSIONS, Row, ScriptedServer


def server_with(*columns: Row, tables: tuple[Row, ...], keys: tuple[Row, ...] = ()) -> ScriptedServer:
    return ScriptedServer({TABLES: tables, COLUMNS: columns, KEYS: keys, PARENTS: []})


def announced(
    *columns: Row, key_of: tuple[str, ...] = (), identity: str = "d", sent: tuple[str, ...] | None = None
) -> list[Relation]:
    tables = (relation(16384, "film", identity=identity),)
    server = server_with(*columns, tables=tables, keys=(key(16384, *key_of),))
    return announced_relations(server.connection, [PublishedTable("public", "film", columns=sent)])


def of_film(number: int, name: str, type_oid: int = 23, *, generated: bool = False) -> Row:
    return column(16384, number, name, type_oid, generated="s" if generated else "", expression="1")


def test_a_relation_has_the_columns_of_the_table_and_marks_the_key():
    assert announced(of_film(1, "id"), of_film(2, "title", 25), key_of=("id",)) == [
        Relation(16384, "public", "film", "d", (RelationColumn(1, "id", 23, -1), RelationColumn(0, "title", 25, -1)))
    ]


def test_only_listed_columns_are_sent_in_the_tables_order():
    """A list may name a generated column, which is sent then."""
    rows = [of_film(1, "id"), of_film(2, "total", generated=True), of_film(3, "title")]
    (relation,) = announced(*rows, sent=("title", "total"))
    assert [one.name for one in relation.columns] == ["total", "title"]


def test_without_a_list_generated_columns_are_not_sent():
    (relation,) = announced(of_film(1, "id"), of_film(2, "total", generated=True))
    assert [one.name for one in relation.columns] == ["id"]


def test_a_table_without_columns_is_announced_without_columns():
    assert announced(identity="f") == [Relation(16384, "public", "film", "f", ())]


def test_relations_come_in_the_order_of_the_tables_without_those_that_no_longer_exist():
    server = server_with(tables=(relation(16384, "a"), relation(16385, "b")))
    tables = [PublishedTable("public", name) for name in ("b", "gone", "a")]
    assert [one.name for one in announced_relations(server.connection, tables)] == ["b", "a"]
    assert server.asked[0].parameters == (["public"] * 3, ["b", "gone", "a"])


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_the_servers_version_has_is_asked_for(version):
    server = ScriptedServer({"WHERE": []}, version=version)
    assert announced_relations(server.connection, []) == []
    assert bool(server.statements("indnkeyatts")) is (version >= 110000)
    assert bool(server.statements("attgenerated")) is (version >= 120000)
