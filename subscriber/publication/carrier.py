"""Checks that a server's publication sends everything that emulated publications need (the option
``carrier`` of a subscription).

The carrier is an ordinary publication of the server. It must contain every table, operation and
column that the emulated publications publish or use in filters. It must not filter rows, and it
must publish partitions under their own names. Changes that the carrier leaves out would be missing
without an error. Therefore the carrier is checked when the subscription is created and when it is
refreshed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from subscriber.errors import NotSupportedError
from subscriber.publication.combine import ROW_OPERATIONS, PublishedAs, opinions, published_as, sent_columns
from subscriber.publication.definition import OPERATIONS, Publication
from subscriber.publication.listed_tables import is_publishable
from subscriber.schema.publisher_tables import PublisherTable, PublisherTables

FilterColumns = Callable[[str, PublisherTable], frozenset[str]]
"""A function that returns the columns that a filter on a table uses."""

_ALL_TABLES: Final = "The simplest carrier is a publication FOR ALL TABLES."


def check_carrier(
    carrier: Publication, publications: Sequence[Publication], tables: PublisherTables, filter_columns: FilterColumns
) -> None:
    """Refuse a carrier that leaves out what the publications need.

    Args:
        carrier: the server's publication.
        publications: the emulated publications of the subscription.
        tables: the publisher's tables.
        filter_columns: returns the columns that a filter uses.

    Raises:
        NotSupportedError: 0A000, with the table and what is missing.
    """
    for table in tables.tables.values():
        if table.kind != "table" or not is_publishable(table):
            continue
        found = published_as(publications, tables, table)
        if found is not None:
            _check_table(carrier, found, tables, table, filter_columns)


def _check_table(
    carrier: Publication,
    found: PublishedAs,
    tables: PublisherTables,
    table: PublisherTable,
    filter_columns: FilterColumns,
) -> None:
    held = published_as([carrier], tables, table)
    if held is None:
        raise _lacks(carrier, table, "The table is not in it.", f"Add the table to it. {_ALL_TABLES}")
    if held.table is not table:
        raise _lacks(
            carrier,
            table,
            f'It publishes the partition as "{held.table.qualified_name}".',
            f'Run at the publisher: ALTER PUBLICATION "{carrier.name}" SET (publish_via_partition_root = false);',
        )
    missing = [operation for operation in OPERATIONS if operation in found.operations - held.operations]
    if missing:
        raise _lacks(
            carrier,
            table,
            f"It does not publish {missing[0]}.",
            f"Run at the publisher: ALTER PUBLICATION \"{carrier.name}\" SET (publish = '{', '.join(OPERATIONS)}');",
        )
    if any(opinion.where is not None for said in opinions(held).values() for opinion in said):
        raise _lacks(carrier, table, "The table has a row filter in it.", f"Add the table without WHERE. {_ALL_TABLES}")
    if not found.operations.isdisjoint(ROW_OPERATIONS):
        _check_columns(carrier, found, held, filter_columns)


def _check_columns(carrier: Publication, found: PublishedAs, held: PublishedAs, filter_columns: FilterColumns) -> None:
    needed = set(sent_columns(found).names)
    sent = sent_columns(held).names
    for said in opinions(found).values():
        for opinion in said:
            if opinion.where is not None:
                needed |= filter_columns(opinion.where, found.table.computing(sent))
    # In the table's order, so that the error always names the same column.
    for column in held.table.columns:
        if column.name in needed and column.name not in sent and column.generated != "virtual":
            generated = (
                f'Run at the publisher, which must be PostgreSQL 18 or newer: ALTER PUBLICATION "{carrier.name}"'
                " SET (publish_generated_columns = stored);"
            )
            raise _lacks(
                carrier,
                held.table,
                f'It does not send column "{column.name}".',
                generated if column.generated else f"Add the table without a column list. {_ALL_TABLES}",
                column.name,
            )


def _lacks(
    carrier: Publication, table: PublisherTable, detail: str, hint: str, column: str | None = None
) -> NotSupportedError:
    return NotSupportedError(
        f'publication "{carrier.name}" does not carry all that is published of table "{table.qualified_name}"',
        detail=detail,
        hint=hint,
        relation=table.qualified_name,
        column=column,
    )
