"""The last writer of a row (rule C20)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from subscriber.targets.target_table import (
    RowVersion,
    TargetTable,
)


class RowVersions(Protocol):
    """Reads what a target records about the last writer of a row. Most targets record nothing."""

    def columns(self) -> Sequence[sa.ColumnElement[Any]]:
        """The columns of a row to select for :meth:`read`; empty if the target records nothing."""
        ...

    def read(self, connection: sa.Connection, table: TargetTable, values: Sequence[str | None]) -> RowVersion | None:
        """The last writer of a row (rule C20); None if the target does not record it.

        Args:
            connection: the connection that read the row.
            table: the table of the row.
            values: the values of :meth:`columns`, as text.
        """
        ...

    def index_of_partition(
        self, connection: sa.Connection, table: TargetTable, index: str, leaf: tuple[str, str]
    ) -> str:
        """The name of a partitioned table's index in its partition ``leaf`` (schema and name)."""
        ...
