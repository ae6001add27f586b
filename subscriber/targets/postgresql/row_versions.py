"""The last writer of a row: its ``xmin``, and the commit time and origin of this transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from subscriber.targets.target_table import (
    RowVersion,
    TargetTable,
)

_ROW_VERSION: Final = sa.text(
    # CASE: the function raises an error if commit times are not recorded.
    "SELECT v.timestamp::text AS at, CASE WHEN v.roident <> 0 THEN coalesce(o.roname, '') END AS origin, n.nspname, c.relname"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " LEFT JOIN LATERAL (SELECT * FROM pg_xact_commit_timestamp_origin(CAST(:xmin AS xid))"
    "  WHERE current_setting('track_commit_timestamp') = 'on') v ON true"
    " LEFT JOIN pg_replication_origin o ON o.roident = v.roident WHERE c.oid = CAST(:place AS oid)"
)
_INDEX_OF_PARTITION: Final = sa.text(
    "WITH RECURSIVE below (indexrelid) AS (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    "  WHERE n.nspname = :schema AND c.relname = :index"
    " UNION ALL SELECT h.inhrelid FROM pg_inherits h JOIN below b ON h.inhparent = b.indexrelid)"
    " SELECT c.relname FROM below JOIN pg_index i USING (indexrelid) JOIN pg_class c ON c.oid = i.indexrelid"
    " JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace"
    " WHERE n.nspname = :leaf_schema AND t.relname = :leaf"
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
        transaction, place = values
        row = connection.execute(_ROW_VERSION, {"xmin": transaction, "place": place}).one()
        leaf = (row.nspname, row.relname) if table.kind == "partitioned table" else None
        return RowVersion(int(str(transaction)), row.at, row.origin, leaf)

    def index_of_partition(
        self, connection: sa.Connection, table: TargetTable, index: str, leaf: tuple[str, str]
    ) -> str:
        """See :meth:`RowVersions.index_of_partition`; also for partitions of partitions."""
        place = {"schema": table.schema, "index": index, "leaf_schema": leaf[0], "leaf": leaf[1]}
        return str(connection.execute(_INDEX_OF_PARTITION, place).scalar_one_or_none() or index)
