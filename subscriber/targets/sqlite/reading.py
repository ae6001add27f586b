"""All rows of a table, which is stored in the order of its row numbers."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from subscriber.targets.generic.reading import GenericReading, ranges_of
from subscriber.targets.roles.reading import TableRange
from subscriber.targets.target_table import TargetTable


class SQLiteReading(GenericReading):
    """See :class:`~subscriber.targets.roles.reading.Reading`."""

    def ranges(self, connection: sa.Connection, table: TargetTable, count: int) -> Sequence[TableRange]:
        """See :meth:`Reading.ranges`; ranges of row numbers, which a table WITHOUT ROWID lacks."""
        return ranges_of(connection, table, table.locators[0], count) if table.locators else ()
