"""Shapes of MariaDB's tables; :mod:`subscriber.targets.mariadb.catalog` reads them."""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.targets.generic.shapes import GenericShapes
from subscriber.targets.mariadb.catalog import has_inexact_key, is_connected, is_plain, may_write, read_table
from subscriber.targets.target_table import TargetTable


class MariaDBShapes(GenericShapes):
    """See :class:`~subscriber.targets.roles.shapes.Shapes`."""

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Shapes.reflect` and :mod:`subscriber.targets.mariadb.target`."""
        with self._errors.reporting():
            return read_table(connection, schema, table)

    def order_matters(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Shapes.order_matters`; foreign keys are not checked in the subscriber's
        sessions.
        """
        with self._errors.reporting():
            return has_inexact_key(table) or is_connected(connection, table)

    def refuses_rows(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Shapes.refuses_rows`."""
        if any(column.generated for column in table.columns):
            return True
        with self._errors.reporting():
            return not is_plain(connection, table) or not may_write(connection, table)
