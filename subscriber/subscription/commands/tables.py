"""The tables of a subscription at the target: what must be there, and what is made (rule D13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from subscriber.errors import PublisherNotReady, SubscriberError, UsageError
from subscriber.receive.published import PublishedTable
from subscriber.receive.publisher import Publisher
from subscriber.subscription.commands.notices import Notify, notice
from subscriber.target import Target
from subscriber.target.ddl import NewTable, create_table


@dataclass(frozen=True, slots=True)
class MissingTable:
    """A table that ``create_tables`` makes: the publisher's name, and the target's DDL."""

    relation: str
    table: NewTable


def check_tables(
    target: Target, publisher: Publisher, tables: Sequence[PublishedTable], *, create_tables: bool
) -> list[MissingTable]:
    """Look at the target's table of each published one; gives those that are to be made.

    Columns are not looked at: as in PostgreSQL, copying and applying find those that are missing.

    Raises:
        UsageError: 42P01, a table does not exist and is not to be made; 42809, it is of a kind that cannot be replicated into.
        PublisherNotReady: a table was dropped at the publisher meanwhile.
    """
    missing = _missing(target, tables, create_tables=create_tables)
    return [
        MissingTable(table.qualified_name, create_table(target, _shape(publisher, table), identity=True))
        for table in missing
    ]


def make_tables(target: Target, connection: Any, missing: Sequence[MissingTable], notify: Notify) -> None:
    """Make tables in the caller's transaction, and tell what they lack.

    Raises:
        SubscriberError: the target refused, with the relation.
    """
    for one in missing:
        try:
            with target.reporting():
                one.table.create(connection)
        except SubscriberError as error:
            error.relation = one.relation
            error.context = error.context or f'creating table "{one.relation}"'
            raise
        notice(notify, f'created table "{one.relation}" at the subscriber')
        for note in one.table.notes:
            notice(notify, f'table "{one.relation}": {note}')


def _missing(target: Target, tables: Sequence[PublishedTable], *, create_tables: bool) -> list[PublishedTable]:
    missing = []
    with target.reporting(), target.engine.connect() as connection:
        for table in tables:
            found = target.reflect(connection, table.schema, table.name)
            if found is None and create_tables:
                missing.append(table)
            elif found is None:
                raise UsageError(
                    f'relation "{table.qualified_name}" does not exist',
                    sqlstate="42P01",
                    relation=table.qualified_name,
                    hint="Create the table at the subscriber, with the publisher's column names, or use"
                    " WITH (create_tables = true).",
                )
            elif found.kind not in ("table", "partitioned table"):
                raise UsageError(
                    f'cannot use relation "{table.qualified_name}" as logical replication target',
                    sqlstate="42809",
                    detail=f"This operation is not supported for {found.kind}s." if found.kind != "other" else None,
                    relation=table.qualified_name,
                )
    return missing


def _shape(publisher: Publisher, table: PublishedTable) -> Any:
    shape = publisher.shape(table)
    if shape is None:
        raise PublisherNotReady(
            f'table "{table.qualified_name}" not found on publisher', sqlstate="42P01", relation=table.qualified_name
        )
    return shape
