"""The tables of the target that dropped subscriptions have filled: ``subscriber_dropped_rel``.

DROP SUBSCRIPTION leaves the rows of its tables in place, and deletes everything else that the
catalog has of them. TRUNCATE in ``subscriber sql`` empties only tables that a subscription fills or
has filled, so they are remembered until they are emptied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.catalog.own_tables import DROPPED_REL as TABLE
from subscriber.schema.relation_names import TableName


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A row of ``subscriber_dropped_rel``.

    Attributes:
        local: its schema and name in the target.
        published: its schema and name at the publisher.
        subscription: the name of the subscription that was dropped.
    """

    local: TableName
    published: TableName
    subscription: str


def remember_dropped_tables(connection: sa.Connection, tables: Iterable[DroppedTable]) -> None:
    """Store tables of a subscription that is dropped. A table that is known already gets these
    names.
    """
    rows = [
        dict(zip(TABLE.columns.keys(), (*one.local, *one.published, one.subscription), strict=True)) for one in tables
    ]
    if rows:
        places = [{"schema": row["localschema"], "name": row["localname"]} for row in rows]
        here = TABLE.c.localschema == sa.bindparam("schema"), TABLE.c.localname == sa.bindparam("name")
        connection.execute(sa.delete(TABLE).where(*here), places)
        connection.execute(sa.insert(TABLE), rows)


def dropped_tables(connection: sa.Connection) -> list[DroppedTable]:
    """All tables that are remembered, ordered by their names in the target."""
    rows = connection.execute(sa.select(TABLE).order_by(TABLE.c.localschema, TABLE.c.localname))
    return [DroppedTable((row.localschema, row.localname), (row.schemaname, row.relname), row.subname) for row in rows]


def forget_dropped_table(connection: sa.Connection, local: TableName) -> None:
    """Forget a table, by its schema and name in the target; it is no error if it is unknown."""
    schema, name = local
    connection.execute(sa.delete(TABLE).where(TABLE.c.localschema == schema, TABLE.c.localname == name))
