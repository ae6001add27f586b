"""The values that the target could not hold and got NULL instead: ``subscriber_replaced_value`` and
``subscriber_replaced_row``.

The counts are exact, because they are written in the transaction of the rows. The tables stay
small: a row for each column, and the first :data:`KEPT_VALUES` values of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from subscriber.base import clock
from subscriber.base.lsn import LSN, format_lsn
from subscriber.catalog.own_tables import REPLACED_ROW, REPLACED_VALUE
from subscriber.catalog.rows import ROW_NUMBERS, matching
from subscriber.targets.statements import upsert

KEPT_VALUES: Final = 1_000
"""How many values of each column are recorded one by one: the first ones."""


@dataclass(frozen=True, slots=True)
class ReplacedColumn:
    """A column of a publisher's table; ``relation`` is the target's, for messages, with its key."""

    schema: str
    table: str
    column: str
    relation: str
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplacedRow:
    """One value and its row's key as text, None where values are not to be shown."""

    lsn: LSN
    key_values: tuple[str | None, ...] | None = None
    value: str | None = None


@dataclass(slots=True)
class ReplacedValues:
    """Replaced values of one column and transaction; ``rows`` has at most :data:`KEPT_VALUES`."""

    first: LSN
    last: LSN
    count: int = 0
    rows: list[ReplacedRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReplacedCount:
    relation: str
    column: str
    count: int
    key: tuple[str, ...]
    first_lsn: str
    last_lsn: str


def count_replaced_values(
    connection: sa.Connection, subid: int, replaced: Mapping[ReplacedColumn, ReplacedValues]
) -> None:
    """Count and record values, in the transaction that writes their rows."""
    for column, values in replaced.items():
        key = {"subid": subid, "nspname": column.schema, "relname": column.table, "columnname": column.column}
        already = sa.select(REPLACED_VALUE.c.replaced).where(matching(REPLACED_VALUE, **key))
        before = connection.execute(already).scalar_one_or_none()
        upsert(
            connection,
            REPLACED_VALUE,
            key,
            {
                "relation": column.relation,
                "key_columns": column.key or None,
                "last_lsn": format_lsn(values.last),
            },
            new={"first_lsn": format_lsn(values.first)},
            add={"replaced": values.count},
        )
        rows = values.rows[: max(0, KEPT_VALUES - (before or 0))]
        if rows:
            connection.execute(sa.insert(REPLACED_ROW), [_row(subid, column, row) for row in rows])


def _row(subid: int, column: ReplacedColumn, row: ReplacedRow) -> dict[str, Any]:
    return {
        "replacedid": ROW_NUMBERS.next(),
        "recorded_at": clock.now(),
        "subid": subid,
        "relation": column.relation,
        "columnname": column.column,
        "remote_lsn": row.lsn,
        "key_columns": column.key or None,
        "key_values": row.key_values,
        "replaced_value": row.value,
    }


def replaced_counts(connection: sa.Connection, subid: int) -> list[ReplacedCount]:
    table = REPLACED_VALUE.c
    query = sa.select(REPLACED_VALUE).where(table.subid == subid).order_by(table.relation, table.columnname)
    return [
        ReplacedCount(
            row.relation,
            row.columnname,
            row.replaced,
            tuple(row.key_columns or ()),
            row.first_lsn,
            row.last_lsn,
        )
        for row in connection.execute(query)
    ]
