"""The values that the target could not hold and got NULL instead: ``subscriber_replaced_value`` and
``subscriber_replaced_row``.

The counts are exact, because they are written in the transaction of the rows. The size of the
tables is limited: a row for each column, and the first :data:`KEPT_VALUES` values of each column
one by one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from subscriber.catalog.own_tables import REPLACED_ROW, REPLACED_VALUE
from subscriber.catalog.row_numbers import ROW_NUMBERS, RowNumbers
from subscriber.lsn import LSN, format_lsn

KEPT_VALUES: Final = 1_000
"""How many values of each column are recorded one by one: the first ones."""


@dataclass(frozen=True, slots=True)
class ReplacedColumn:
    """A column of which values were replaced.

    Attributes:
        schema: the table's schema at the publisher.
        table: the table's name at the publisher.
        column: the name of the column.
        relation: the target's table, for messages.
        key: the columns of the key of the target's table; empty if it has none.
    """

    schema: str
    table: str
    column: str
    relation: str
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplacedRow:
    """One value that was replaced.

    Attributes:
        lsn: the commit LSN of its transaction, or the LSN of the snapshot of a copy.
        key_values: the values of the key as text; None where values are not to be shown.
        value: the value as text; None where values are not to be shown.
    """

    lsn: LSN
    key_values: tuple[str | None, ...] | None = None
    value: str | None = None


@dataclass(slots=True)
class ReplacedValues:
    """The values of one column that were replaced in a transaction of the target.

    Attributes:
        first: the LSN of the first one.
        last: the LSN of the last one.
        count: how many there are.
        rows: the first ones of them, at most :data:`KEPT_VALUES`.
    """

    first: LSN
    last: LSN
    count: int = 0
    rows: list[ReplacedRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReplacedCount:
    """A row of ``subscriber_replaced_value``.

    Attributes:
        relation: the target's table.
        column: the name of the column.
        count: how many values were replaced.
        key: the columns of the table's key; empty if it has none.
        first_lsn: the LSN of the first one, as text.
        last_lsn: the LSN of the last one, as text.
    """

    relation: str
    column: str
    count: int
    key: tuple[str, ...]
    first_lsn: str
    last_lsn: str


def count_replaced_values(
    connection: sa.Connection,
    subid: int,
    replaced: Mapping[ReplacedColumn, ReplacedValues],
    numbers: RowNumbers = ROW_NUMBERS,
) -> None:
    """Count and record values, in the transaction that writes their rows.

    Args:
        connection: the connection of the transaction.
        subid: the subscription's number.
        replaced: the values, by column.
        numbers: gives new rows their numbers.
    """
    table = REPLACED_VALUE.c
    for column, values in replaced.items():
        where = (
            (table.subid == subid)
            & (table.nspname == column.schema)
            & (table.relname == column.table)
            & (table.columnname == column.column)
        )
        before = connection.execute(sa.select(table.replaced).where(where)).scalar_one_or_none()
        now = {
            "relation": column.relation,
            "key_columns": _json(column.key or None),
            "replaced": (before or 0) + values.count,
            "last_lsn": format_lsn(values.last),
        }
        if before is None:
            place = {"nspname": column.schema, "relname": column.table, "columnname": column.column}
            first = {"subid": subid, "first_lsn": format_lsn(values.first)}
            connection.execute(sa.insert(REPLACED_VALUE).values(now | place | first))
        else:
            connection.execute(sa.update(REPLACED_VALUE).where(where).values(now))
        rows = values.rows[: max(0, KEPT_VALUES - (before or 0))]
        if rows:
            connection.execute(sa.insert(REPLACED_ROW), [_row(subid, column, row, numbers) for row in rows])


def _row(subid: int, column: ReplacedColumn, row: ReplacedRow, numbers: RowNumbers) -> dict[str, Any]:
    return {
        "replacedid": numbers.next(),
        "recorded_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "subid": subid,
        "relation": column.relation,
        "columnname": column.column,
        "remote_lsn": format_lsn(row.lsn),
        "key_columns": _json(column.key or None),
        "key_values": _json(row.key_values),
        "replaced_value": row.value,
    }


def replaced_counts(connection: sa.Connection, subid: int) -> list[ReplacedCount]:
    """How many values of which columns were replaced, by relation and column."""
    table = REPLACED_VALUE.c
    query = sa.select(REPLACED_VALUE).where(table.subid == subid).order_by(table.relation, table.columnname)
    return [
        ReplacedCount(
            row.relation,
            row.columnname,
            row.replaced,
            tuple(json.loads(row.key_columns)) if row.key_columns else (),
            row.first_lsn,
            row.last_lsn,
        )
        for row in connection.execute(query)
    ]


def forget_replaced_values(connection: sa.Connection, subid: int) -> None:
    """Delete the rows of a subscription, because its number may be used again."""
    for table in (REPLACED_VALUE, REPLACED_ROW):
        connection.execute(sa.delete(table).where(table.c.subid == subid))


def _json(values: Sequence[str | None] | None) -> str | None:
    return None if values is None else json.dumps(list(values), ensure_ascii=False)
