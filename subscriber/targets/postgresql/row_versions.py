"""The last writer of a row: its ``xmin``, and the commit time and origin of this transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from subscriber.targets.postgresql.catalog import (
    find_index_of_partition,
    read_row_version,
)
from subscriber.targets.target_table import (
    RowVersion,
    TargetTable,
)


class PostgreSQLRowVersions:
    """See :class:`~subscriber.targets.roles.row_versions.RowVersions`."""

    def columns(self) -> Sequence[sa.ColumnElement[Any]]:
        """The transaction that inserted the row version, and the table or partition of the row."""
        return sa.literal_column("xmin::text"), sa.literal_column("tableoid::text")

    def read(self, connection: sa.Connection, table: TargetTable, values: Sequence[str | None]) -> RowVersion | None:
        """See :meth:`RowVersions.read`.

        The commit time and the origin are known only with ``track_commit_timestamp``.
        """
        return read_row_version(connection, table, *values)

    def index_of_partition(
        self, connection: sa.Connection, table: TargetTable, index: str, leaf: tuple[str, str]
    ) -> str:
        """See :meth:`RowVersions.index_of_partition`; also for partitions of partitions."""
        return find_index_of_partition(connection, table, index, leaf)
