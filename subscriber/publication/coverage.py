"""Does the replica identity cover what UPDATE and DELETE are judged by, and what is sent of them?
(rules B32-B36)

PostgreSQL asks at the first UPDATE or DELETE of a table, on the publisher
(``CheckCmdReplicaIdentity``). A publisher does not know of the publications that are evaluated
here, so they are asked for when a subscription is made or refreshed: what its messages refuse
there, the stream would not bring. Only where the publisher has a publication of its own by which it
refuses the same UPDATE or DELETE, as it has while the filtering moves from there to here, nothing
needs to be refused before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from subscriber.errors import PublisherNotReady, SubscriberError
from subscriber.publication.carrier import FilterColumns
from subscriber.publication.combine import level_of
from subscriber.publication.definition import OPERATIONS, Operation, Publication
from subscriber.publication.listed_tables import is_publishable
from subscriber.schema.publisher_tables import PublisherTable, PublisherTables

"""Only from this version on a publisher looks at generated columns."""

_FILTER: Final = "Column used in the publication WHERE expression is not part of the replica identity."
_LIST: Final = "Column list used by the publication does not cover the replica identity."
_GENERATED: Final = "Replica identity must not contain unpublished generated columns."

_Changing = Literal["update", "delete"]
_CHANGING: Final[tuple[_Changing, ...]] = ("update", "delete")


@dataclass(slots=True)
class _Flaws:
    """What is wrong: with one publication of a table, or with all of them so far."""

    filter: bool = False
    column_list: bool = False
    generated: bool = False

    def detail(self) -> str | None:
        """What PostgreSQL says first."""
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
    """Refuse filters and column lists that the replica identities do not cover.

    Args:
        publications: those of a subscription.
        tables: the publisher's.
        filter_columns: reads a filter.
        of_publisher: all publications that the publisher itself has, subscribed or not.

    Raises:
        PublisherNotReady: 42P10, with the text that PostgreSQL has for the UPDATE or DELETE.
    """

    def known_filter_columns(where: str, table: PublisherTable) -> frozenset[str]:
        try:
            return filter_columns(where, table)
        except SubscriberError:  # what is not computed here, nothing is taken for refused by
            return frozenset()

    refused_there = set(_refused_operations(of_publisher, tables, known_filter_columns))
    for operation, error in _refused_operations(publications, tables, filter_columns).items():
        if error.sqlstate == "42P10" and operation not in refused_there:
            raise error


def uncovered(
    publications: Sequence[Publication], tables: PublisherTables, filter_columns: FilterColumns
) -> Iterator[PublisherNotReady]:
    """What PostgreSQL would refuse, a table at a time, UPDATE before DELETE.

    A table without any identity is 55000 (rule B34); that the publisher refuses itself, since the
    carrier publishes its updates.

    Raises:
        SubscriberError: a filter cannot be read.
    """
    yield from _refused_operations(publications, tables, filter_columns).values()


def _refused_operations(
    publications: Sequence[Publication], tables: PublisherTables, filter_columns: FilterColumns
) -> dict[tuple[tuple[str, str], _Changing], PublisherNotReady]:
    """Table and operation → why."""
    found: dict[tuple[tuple[str, str], _Changing], PublisherNotReady] = {}
    for table in sorted(tables.tables.values(), key=lambda one: one.oid):
        # Rows are in leaves, and it is the leaf that is asked.
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
    """``RelationBuildPublicationDesc``: what is published, and what is wrong with it.

    It is followed to the letter, since the message depends on it: the publications' order, what a
    later one says of columns in place of an earlier one, and that nobody looks further when
    everything is published and the same thing is wrong for both operations.
    """
    ancestors = tables.ancestors(table)
    published: frozenset[Operation] = frozenset()
    found: dict[_Changing, _Flaws] = {operation: _Flaws() for operation in _CHANGING}
    for publication in sorted(publications, key=lambda one: _rank(one, table, ancestors)):
        level = level_of(publication, table, ancestors)
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
    """In which order publications are looked at: by table, by schema, by each ancestor and its
    schema, of all tables.
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
    """``pub_rf_contains_invalid_column`` and ``pub_contains_invalid_column``; columns of a root are
    those of the leaf by name.
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
    return PublisherNotReady(
        f'cannot {_COMMANDS[operation]} table "{table.name}"',
        sqlstate="42P10",
        detail=detail,
        hint=f"This is found before the first {operation.upper()}, because the publisher cannot find it. Choose another replica identity"
        f" with ALTER TABLE {table.qualified_name} REPLICA IDENTITY, or publish no {operation}s in that publication.",
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
