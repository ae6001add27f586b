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


class Reading(Protocol):
    """Reads all rows of a table, in no particular order."""

    def rows(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[TargetColumn]
    ) -> Iterator[ReadRows]:
        """The rows of a table, some at a time, with each value as it is stored (see
        :meth:`Values.readable`).

        Args:
            connection: a connection to the target.
            table: the table.
            columns: the columns to read, possibly none.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database's error; :meth:`Errors.reporting`
                translates it.
            SubscriberError: the database's error, if the driver is used without SQLAlchemy.
        """
        ...
