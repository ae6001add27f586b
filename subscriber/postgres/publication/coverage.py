"""Checks that the stream has all that emulated publications need: that a server's publication (the
option ``carrier`` of a subscription) sends it, and that replica identities contain the columns that
filters and column lists need for UPDATE and DELETE (rules B32-B36).

The carrier must contain every table, operation and column that the emulated publications publish or
use in filters, must not filter rows, and must publish partitions under their own names.

PostgreSQL checks replica identities at the first UPDATE or DELETE of a table, on the publisher
(``CheckCmdReplicaIdentity``), which does not know the emulated publications. So they are checked
here, with PostgreSQL's messages, unless the publisher has a publication for which it refuses the
same UPDATE or DELETE itself. That is so while a user moves the filters from the server to the
subscriber.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from subscriber.base.errors import NotSupportedError, PublisherNotReady, SubscriberError
from subscriber.postgres.publication import combine
from subscriber.postgres.publication.definition import OPERATIONS, Operation, Publication
from subscriber.postgres.publication.listed_tables import is_publishable
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables
from subscriber.postgres.sql.quoting import quote_identifier

_FILTER: Final = "Column used in the publication WHERE expression is not part of the replica identity."
_LIST: Final = "Column list used by the publication does not cover the replica identity."
_GENERATED: Final = "Replica identity must not contain unpublished generated columns."

_Changing = Literal["update", "delete"]
_CHANGING: Final[tuple[_Changing, ...]] = ("update", "delete")


@dataclass(slots=True)
class _Flaws:
    filter: bool = False
    column_list: bool = False
    generated: bool = False

    def detail(self) -> str | None:
        if self.filter:
            return _FILTER
        if self.column_list:
            return _LIST
        return _GENERATED if self.generated else None


def check_coverage(
    publications: Sequence[Publication],
    tables: PublisherTables,
    filter_columns: FilterColumns,
    of_publisher: Sequence[Publication] = (),
) -> None:
    """Refuse what replica identities do not cover: PublisherNotReady (42P10), PostgreSQL's text."""

    def known_filter_columns(where: str, table: PublisherTable) -> frozenset[str]:
        try:
            return filter_columns(where, table)
        except (
            SubscriberError
        ):  # a publication of the server that cannot be evaluated here is not assumed to refuse anything
            return frozenset()

    refused_there = set(_refused_operations(of_publisher, tables, known_filter_columns))
    for operation, error in _refused_operations(publications, tables, filter_columns).items():
        if error.sqlstate == "42P10" and operation not in refused_there:
            raise error


def uncovered(
    publications: Sequence[Publication], tables: PublisherTables, filter_columns: FilterColumns
) -> Iterator[PublisherNotReady]:
    """The errors that PostgreSQL would raise, table by table, UPDATE before DELETE. The publisher
    itself refuses a table without a replica identity (55000, rule B34).
    """
    yield from _refused_operations(publications, tables, filter_columns).values()


def _refused_operations(
    publications: Sequence[Publication], tables: PublisherTables, filter_columns: FilterColumns
) -> dict[tuple[tuple[str, str], _Changing], PublisherNotReady]:
    found: dict[tuple[tuple[str, str], _Changing], PublisherNotReady] = {}
    for table in sorted(tables.tables.values(), key=lambda one: one.oid):
        # Leaves have the rows, so their replica identities are checked.
        if table.kind == "table" and is_publishable(table):
            for operation, error in _table_errors(publications, tables, table, filter_columns):
                found[table.key, operation] = error
    return found


def _table_errors(
    publications: Sequence[Publication], tables: PublisherTables, table: PublisherTable, filter_columns: FilterColumns
) -> Iterator[tuple[_Changing, PublisherNotReady]]:
    published, found = _descriptor(publications, tables, table, filter_columns)
    for operation in _CHANGING:
        detail = found[operation].detail()
        if detail is not None:
            yield operation, _refused(table, operation, detail)
        elif operation in published and not _has_identity(table):
            yield operation, _without_identity(table, operation)


def _descriptor(
    publications: Sequence[Publication], tables: PublisherTables, table: PublisherTable, filter_columns: FilterColumns
) -> tuple[frozenset[Operation], dict[_Changing, _Flaws]]:
    """``RelationBuildPublicationDesc``: the published operations and the violations.

    This follows PostgreSQL's code exactly, since the error message depends on the order of the
    publications, on a later publication that replaces what an earlier one reported about columns,
    and on the early end of the loop once everything is published and both operations have the same
    violation.
    """
    ancestors = tables.ancestors(table)
    published: frozenset[Operation] = frozenset()
    found: dict[_Changing, _Flaws] = {operation: _Flaws() for operation in _CHANGING}
    for publication in sorted(publications, key=lambda one: _rank(one, table, ancestors)):
        level = combine.level_of(publication, table, ancestors)
        if level is None:
            continue
        published |= publication.publish
        flaws = _flaws(publication, tables, table, ancestors[level - 1] if level else table, filter_columns)
        for operation in _CHANGING:
            if operation in publication.publish:
                found[operation].filter |= flaws.filter
                if flaws.column_list or flaws.generated:
                    found[operation].column_list = flaws.column_list
                    found[operation].generated = flaws.generated
        update, delete = found["update"], found["delete"]
        if published.issuperset(OPERATIONS) and (
            (update.filter and delete.filter)
            or (update.column_list and delete.column_list)
            or (update.generated and delete.generated)
        ):
            break
    return published, found


def _rank(publication: Publication, table: PublisherTable, ancestors: Sequence[PublisherTable]) -> int:
    """The order in which publications are checked: those with the table, with its schema, with each
    ancestor and the ancestor's schema, with all tables.
    """
    for rank, one in enumerate((table, *ancestors)):
        if publication.entry(*one.key) is not None:
            return 2 * rank
        if one.schema in publication.schemas:
            return 2 * rank + 1
    return 2 * len(ancestors) + 2


def _flaws(
    publication: Publication,
    tables: PublisherTables,
    table: PublisherTable,
    target: PublisherTable,
    filter_columns: FilterColumns,
) -> _Flaws:
    """``pub_rf_contains_invalid_column`` and ``pub_contains_invalid_column``; the columns of a root
    are matched with those of the leaf by name.
    """
    entry = None if publication.all_tables else publication.entry(*target.key)
    where = None if entry is None else entry.where
    columns = None if entry is None else entry.columns
    full = table.identity == "full"
    identity = set(table.identity_columns) if table.identity in ("default", "index") else set()
    generated = {column.name: column.generated for column in table.columns if column.generated}
    unpublished = {
        name for name, kind in generated.items() if kind == "virtual" or publication.generated_columns != "stored"
    }
    return _Flaws(
        filter=not full and where is not None and not filter_columns(where, target) <= identity,
        column_list=columns is not None if full else columns is not None and not identity <= set(columns),
        generated=tables.features.published_generated_columns
        and bool(unpublished if full else columns is None and unpublished & identity),
    )


def _has_identity(table: PublisherTable) -> bool:
    return table.identity == "full" or (table.identity != "nothing" and bool(table.identity_columns))


def _refused(table: PublisherTable, operation: _Changing, detail: str) -> PublisherNotReady:
    name = ".".join(map(quote_identifier, table.key))
    return PublisherNotReady(
        f'cannot {_COMMANDS[operation]} table "{table.name}"',
        sqlstate="42P10",
        detail=detail,
        hint=f"This is checked before the first {operation.upper()}, because the publisher cannot check it. Choose another replica identity,"
        f" such as ALTER TABLE {name} REPLICA IDENTITY FULL, or publish no {operation}s in that publication.",
        relation=table.qualified_name,
    )


_COMMANDS: Final[dict[Operation, str]] = {"update": "update", "delete": "delete from"}


def _without_identity(table: PublisherTable, operation: _Changing) -> PublisherNotReady:
    doing = "updating" if operation == "update" else "deleting from"
    return PublisherNotReady(
        f'cannot {_COMMANDS[operation]} table "{table.name}" because it does not have a replica identity'
        f" and publishes {operation}s",
        hint=f"To enable {doing} the table, set REPLICA IDENTITY using ALTER TABLE.",
        relation=table.qualified_name,
    )


FilterColumns = Callable[[str, PublisherTable], frozenset[str]]

_ALL_TABLES: Final = "The simplest carrier is a publication FOR ALL TABLES."


def check_carrier(
    carrier: Publication, publications: Sequence[Publication], tables: PublisherTables, filter_columns: FilterColumns
) -> None:
    """Refuse a carrier that leaves out what the publications need, with NotSupportedError."""
    for table in tables.tables.values():
        if table.kind != "table" or not is_publishable(table):
            continue
        found = combine.published_as(publications, tables, table)
        if found is not None:
            _check_carried(carrier, found, tables, table, filter_columns)


def _check_carried(
    carrier: Publication,
    found: combine.PublishedAs,
    tables: PublisherTables,
    table: PublisherTable,
    filter_columns: FilterColumns,
) -> None:
    held = combine.published_as([carrier], tables, table)
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
    if any(one.where is not None for each in combine.publication_filters(held).values() for one in each):
        raise _lacks(carrier, table, "The table has a row filter in it.", f"Add the table without WHERE. {_ALL_TABLES}")
    if not found.operations.isdisjoint(combine.ROW_OPERATIONS):
        _check_columns(carrier, found, held, filter_columns)


def _check_columns(
    carrier: Publication, found: combine.PublishedAs, held: combine.PublishedAs, filter_columns: FilterColumns
) -> None:
    needed = set(combine.sent_columns(found).names)
    sent = combine.sent_columns(held).names
    for where in [one.where for each in combine.publication_filters(found).values() for one in each]:
        if where is not None:
            needed |= filter_columns(where, found.table.computing(sent))
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
