"""The tables that emulated publications list: ``pg_get_publication_tables`` (rules B1, B5, D7-D9,
B39-B41).

A table is listed once, under the name that its changes have. Initial copies use this list, whatever
operations the publications publish.
"""

from __future__ import annotations

from collections.abc import Sequence

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables


def listed_tables(publications: Sequence[Publication], tables: PublisherTables) -> list[PublishedTable]:
    """By schema and name; NotSupportedError if two publish different columns (rule B39)."""
    members = {publication.name: members_of(publication, tables) for publication in publications}
    listed = {table.key: table for found in members.values() for table in found}
    if any(publication.via_root for publication in publications):
        listed = _without_partitions(listed, tables)
    return [
        _published(table, [one for one in publications if table in members[one.name]])
        for _, table in sorted(listed.items())
    ]


def members_of(publication: Publication, tables: PublisherTables) -> list[PublisherTable]:
    """With ``publish_via_partition_root`` partitioned tables, otherwise their leaves."""
    if publication.all_tables:
        chosen = [
            table
            for table in tables.tables.values()
            if is_publishable(table) and not is_excepted(publication, table, tables.ancestors(table))
        ]
        if publication.via_root:
            return [table for table in chosen if not table.is_partition]
        return [table for table in chosen if table.kind == "table"]
    named = [tables.tables[entry.key] for entry in publication.tables if entry.key in tables.tables]
    in_schemas = [one for one in tables.tables.values() if one.schema in publication.schemas and is_publishable(one)]
    found: dict[tuple[str, str], PublisherTable] = {}
    for table in (*named, *in_schemas):
        if publication.via_root or table.kind == "table":
            found[table.key] = table
        else:
            found |= {
                leaf.key: leaf for leaf in tables.children(table) if leaf.kind == "table" and is_publishable(leaf)
            }
    return list((_without_partitions(found, tables) if publication.via_root else found).values())


def is_publishable(table: PublisherTable) -> bool:
    """Whether the table is permanent and not a system table (rule B1)."""
    return table.kind in ("table", "partitioned table") and table.persistence == "permanent" and not table.is_system


def is_excepted(publication: Publication, table: PublisherTable, ancestors: Sequence[PublisherTable]) -> bool:
    """For a partition its root decides, the last of its ancestors (rule B6)."""
    root = ancestors[-1] if ancestors else table
    return root.key in publication.excepted


def member_entry(publication: Publication, table: PublisherTable) -> TableEntry | None:
    """The table's own entry; None if it is published as part of a schema or of all tables."""
    if publication.all_tables or table.schema in publication.schemas:
        return None
    return publication.entry(*table.key)


def listed_columns(publication: Publication, table: PublisherTable) -> tuple[str, ...]:
    """The columns of a table that one publication lists (rules B40, B41)."""
    entry = member_entry(publication, table)
    if entry is not None and entry.columns is not None:
        return tuple(column.name for column in table.columns if column.name in entry.columns)
    sent = ("", "stored") if publication.generated_columns == "stored" else ("",)
    return tuple(column.name for column in table.columns if column.generated in sent)


def _published(table: PublisherTable, publications: Sequence[Publication]) -> PublishedTable:
    columns = {listed_columns(publication, table) for publication in publications}
    if len(columns) > 1 or (table.attributes and len({_compared_by_15(one, table) for one in publications}) > 1):
        raise NotSupportedError(
            f'cannot use different column lists for table "{table.qualified_name}" in different publications',
            hint="Give the table the same column list in all of them, or create a subscription for each.",
            relation=table.qualified_name,
        )
    entries = [member_entry(publication, table) for publication in publications]
    filters = [entry.where for entry in entries if entry is not None and entry.where is not None]
    every_row = len(filters) < len(entries)
    return PublishedTable(
        table.schema,
        table.name,
        "partitioned table" if table.kind == "partitioned table" else "table",
        columns.pop(),
        () if every_row else tuple(dict.fromkeys(filters)),
    )


def _compared_by_15(publication: Publication, table: PublisherTable) -> tuple[str, ...]:
    """PostgreSQL 15 compares generated columns, too, if there is no column list."""
    entry = member_entry(publication, table)
    if entry is not None and entry.columns is not None:
        return listed_columns(publication, table)
    return tuple(column.name for column in table.columns)


def _without_partitions(
    listed: dict[tuple[str, str], PublisherTable], tables: PublisherTables
) -> dict[tuple[str, str], PublisherTable]:
    return {
        key: table
        for key, table in listed.items()
        if not any(ancestor.key in listed for ancestor in tables.ancestors(table))
    }
