"""All rows of a table, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

from subscriber.targets.target_table import TargetColumn, TargetTable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Some rows of a table.

    Attributes:
        rows: the number of rows.
        columns: the values of each column: an Arrow array if the driver returns Arrow, and Python
            values otherwise.
    """

    rows: int
    columns: Sequence[pa.Array | Sequence[Any]]


@dataclass(frozen=True, slots=True)
class TableRange:
    """The rows of a table in which a column of integers is in a range.

    Attributes:
        column: the name of the column, or of a pseudo-column; it is never NULL.
        first: the smallest value; None if there is no limit.
        end: the first value that is too large; None if there is no limit.
    """

    column: str
    first: int | None
    end: int | None


class Reading(Protocol):
    """Reads all rows of a table, in no particular order."""

    def ranges(self, connection: sa.Connection, table: TargetTable, count: int) -> Sequence[TableRange]:
        """Ranges that together have all rows of a table, for several connections to read at a time.

        Args:
            connection: a connection to the target.
            table: the table.
            count: the largest number of ranges.

        Returns:
            The ranges; none if the table is to be read by one connection.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database's error.
        """
        ...

    def rows(
        self,
        connection: sa.Connection,
        table: TargetTable,
        columns: Sequence[TargetColumn],
        part: TableRange | None = None,
    ) -> Iterator[ReadRows]:
        """The rows of a table, some at a time, with each value as it is stored (see
        :meth:`Values.readable`).

        Args:
            connection: a connection to the target.
            table: the table.
            columns: the columns to read, possibly none.
            part: one of :meth:`ranges`; all rows if it is None.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database's error; :meth:`Errors.reporting`
                translates it.
            SubscriberError: the database's error, if the driver is used without SQLAlchemy.
        """
        ...
