"""What was altered in the target for a subscription, read; apply writes it (:mod:`subscriber.apply.schema_change_log`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.apply.added_columns import KeptColumn, first_baseline
from subscriber.apply.schema_change_log import SCHEMA_CHANGE, keep_shape
from subscriber.schema.attributes import TableAttributes
from subscriber.schema.published_table import PublishedTable


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A row of ``subscriber_schema_change``.

    Attributes:
        changed_at: when (UTC, ISO 8601).
        relation: the target's table.
        remote_lsn: commit LSN of the transaction that brought it; None for the initial copy.
        statement: the DDL that was run; None where none was.
        reason: what it was for.
        difference: why rows may differ from the publisher's.
        resolved_at: when the table was copied again, so that they do not any more.
    """

    changed_at: str
    relation: str
    remote_lsn: str | None
    statement: str | None
    reason: str
    difference: str | None
    resolved_at: str | None

    @property
    def differs(self) -> bool:
        """Whether rows may still differ."""
        return self.difference is not None and self.resolved_at is None


def schema_changes_of(connection: sa.Connection, subid: int) -> list[SchemaChange]:
    """What was altered for a subscription, in the order in which it was."""
    table = SCHEMA_CHANGE.c
    query = (
        sa.select(
            table.changed_at,
            table.relation,
            table.remote_lsn,
            table.statement,
            table.reason,
            table.difference,
            table.resolved_at,
        )
        .where(table.subid == subid, table.finished.is_(sa.true()))
        .order_by(table.changeid)
    )
    return [SchemaChange(*row) for row in connection.execute(query)]


def keep_published_shapes(
    connection: sa.Connection, subid: int, tables: Iterable[tuple[PublishedTable, TableAttributes]]
) -> None:
    """Keep what tables are like that are not copied: their rows are the publisher's as of now."""
    for table, attributes in tables:
        published = [
            KeptColumn(one.name, one.type_oid, one.type_modifier)
            for one in attributes.columns
            if (not one.generated if table.columns is None else one.name in table.columns)
        ]
        keep_shape(connection, subid, (table.schema, table.name), published, first_baseline(attributes))
