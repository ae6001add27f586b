"""All rows of a table, which InnoDB stores in the order of its primary key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from subscriber.targets.generic.reading import GenericReading, ranges_of
from subscriber.targets.mariadb.values import INTEGERS
from subscriber.targets.roles.reading import TableRange
from subscriber.targets.target_table import TargetColumn, TargetTable


class MariaDBReading(GenericReading):
    """See :class:`~subscriber.targets.roles.reading.Reading`."""

    def ranges(self, connection: sa.Connection, table: TargetTable, count: int) -> Sequence[TableRange]:
        """See :meth:`Reading.ranges`; ranges of a key that is one column of integers."""
        if table.key is None or len(table.key) != 1:
            return ()
        column = table.column(table.key[0])
        return ranges_of(connection, table, column.name, count) if column and column.storage in INTEGERS else ()

    def value(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """See :meth:`GenericReading.value`; decimals as text, because the driver would make an
        object of each.
        """
        if column.storage != "decimal":
            return super().value(column)
        return sa.cast(sa.column(column.name), sa.CHAR()).label(column.name)
