"""The publisher's tables as data."""

from __future__ import annotations

from dataclasses import replace

from subscriber.postgres.schema.publisher_tables import (
    PublisherCollation,
    PublisherColumn,
    PublisherTable,
    PublisherTables,
    from_json,
    to_json,
)


def table(
    oid: int, name: str, *, parents: tuple[tuple[str, str], ...] = (), is_partition: bool = False
) -> PublisherTable:
    columns = (
        PublisherColumn("a", 1, 23, -1, "integer"),
        PublisherColumn('B"ä', 3, 25, -1, "text", 100, "stored", "'x'"),
    )
    return PublisherTable(
        oid, "s", name, "table", columns, "index", ("a",), parents, is_partition, "unlogged", is_system=True
    )


def database(*tables: PublisherTable) -> PublisherTables:
    return PublisherTables(180004, {one.key: one for one in tables}, frozenset({950, 951}), ("s", "public"))


def test_the_stored_text_is_read_back():
    tables = database(table(1, "t"), table(2, "u", parents=(("s", "t"), ("x", "y"))))
    assert from_json(to_json(tables)) == tables
    german = PublisherCollation(100, "default", "i", "de-DE", "de-DE", "153.120")
    assert from_json(to_json(replace(tables, collations=(german,)))).collations == (german,)


def test_a_table_is_looked_for_in_the_search_path():
    tables = database(table(1, "t"))
    assert tables.find(None, "t") is tables.find("s", "t") is tables.tables["s", "t"]
    assert tables.find("public", "t") is tables.find(None, "u") is None


def test_ancestors_are_named_from_the_nearest_to_the_root():
    """B2, B3"""
    root = table(1, "root")
    middle = table(2, "middle", parents=(root.key,), is_partition=True)
    leaf = table(3, "leaf", parents=(middle.key,), is_partition=True)
    child = table(4, "child", parents=(root.key,))
    tables = database(leaf, child, middle, root)
    assert [one.name for one in tables.ancestors(leaf)] == ["middle", "root"]
    assert tables.ancestors(child) == []
    assert [one.name for one in tables.children(root)] == ["middle", "leaf", "child"]
