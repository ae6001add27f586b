"""Who wrote a row last: its ``xmin``, and what commit times tell of that."""

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
        """The transaction that inserted the version, and the table or partition that it is in."""
        return sa.literal_column("xmin::text"), sa.literal_column("tableoid::text")

    def read(self, connection: sa.Connection, table: TargetTable, values: Sequence[str | None]) -> RowVersion | None:
        """See :meth:`RowVersions.read`; when and by which origin is known with
        ``track_commit_timestamp`` only.
        """
        return read_row_version(connection, table, *values)

    def index_of_partition(
        self, connection: sa.Connection, table: TargetTable, index: str, leaf: tuple[str, str]
    ) -> str:
        """See :meth:`RowVersions.index_of_partition`; partitions of partitions too."""
        return find_index_of_partition(connection, table, index, leaf)
