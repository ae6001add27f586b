"""Tables of a publisher with what is needed to create equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.schema.shape import UniqueKey
from subscriber.publisher.connection import Connection
from subscriber.publisher.shapes import read_shapes


def column_shape(name: str, type_oid: int, type_name: str, nullable: bool = True, **parts: Any) -> PublisherColumn:
    return PublisherColumn(name, 0, type_oid, type_name=type_name, nullable=nullable, **parts)


def table_shape(
    schema: str,
    name: str,
    columns: Sequence[PublisherColumn],
    key: tuple[str, ...] = (),
    unique: tuple[UniqueKey, ...] = (),
    **parts: Any,
) -> PublisherTable:
    return PublisherTable(
        0, schema, name, **{"kind": "table"} | parts, columns=tuple(columns), key_columns=key, unique=unique
    )


def read_shape(connection: Connection, schema: str, table: str) -> PublisherTable | None:
    """The table as :func:`table_shape` describes it, without what belongs to its server; None where
    there is no ordinary or partitioned table of that name.
    """
    found = next(iter(read_shapes(connection, [(schema, table)]).values()), None)
    return None if found is None else elsewhere(found)


def elsewhere(table: PublisherTable) -> PublisherTable:
    """The table without what another server's equal table does not have."""
    columns = tuple(replace(one, number=0, type_modifier=-1, collation=0) for one in table.columns)
    return replace(
        table,
        oid=0,
        columns=columns,
        identity="default",
        identity_columns=(),
        parents=(),
        is_partition=False,
        attributes=0,
    )
