"""Row versions of a database that does not record the last writer of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from subscriber.targets.target_table import (
    RowVersion,
    TargetTable,
)


class GenericRowVersions:
    """See :class:`~subscriber.targets.roles.row_versions.RowVersions`."""

    def columns(self) -> Sequence[sa.ColumnElement[Any]]:
        """See :meth:`RowVersions.columns`."""
        return ()

    def read(self, connection: sa.Connection, table: TargetTable, values: Sequence[str | None]) -> RowVersion | None:
        """See :meth:`RowVersions.read`."""
        del connection, table, values  # no columns were selected
        return None

    def index_of_partition(
        self, connection: sa.Connection, table: TargetTable, index: str, leaf: tuple[str, str]
    ) -> str:
        """See :meth:`RowVersions.index_of_partition`."""
        del connection, table, leaf  # only in PostgreSQL do the names differ
        return index
