"""Who wrote a row last (rule C20)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from subscriber.targets.target_table import (
    RowVersion,
    TargetTable,
)


class RowVersions(Protocol):
    """What a target remembers of the last writer of a row; of most targets that is nothing."""

    def columns(self) -> Sequence[sa.ColumnElement[Any]]:
        """What to select of a row for :meth:`read`; nothing where nothing is remembered."""
        ...

    def read(self, connection: sa.Connection, table: TargetTable, values: Sequence[str | None]) -> RowVersion | None:
        """Who wrote a row last (rule C20); None where the target does not remember that.

        Args:
            connection: the one that has read the row.
            table: which it was read from.
            values: what :meth:`columns` selected, as text.
        """
        ...

    def index_of_partition(
        self, connection: sa.Connection, table: TargetTable, index: str, leaf: tuple[str, str]
    ) -> str:
        """The name that a partitioned table's index has in its partition ``leaf`` (schema and
        name).
        """
        ...
