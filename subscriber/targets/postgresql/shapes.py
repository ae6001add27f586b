"""Shapes of PostgreSQL's tables; :mod:`subscriber.targets.postgresql.catalog` reads them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from subscriber.targets.generic.shapes import GenericShapes
from subscriber.targets.postgresql.catalog import PostgreSQLTable, read_table, read_unique_indexes
from subscriber.targets.postgresql.table_rules import is_connected, refuses_rows
from subscriber.targets.postgresql.transactions import PostgreSQLTransactions
from subscriber.targets.roles.errors import Errors
from subscriber.targets.target_table import (
    TargetTable,
    UniqueIndex,
)


class PostgreSQLShapes(GenericShapes):
    """See :class:`~subscriber.targets.roles.shapes.Shapes`."""

    def __init__(self, errors: Errors, transactions: PostgreSQLTransactions) -> None:
        super().__init__(errors)
        self._transactions = transactions

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Shapes.reflect`."""
        with self._errors.reporting():
            return read_table(connection, schema, table, fires=self._transactions.fires)

    def order_matters(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Shapes.order_matters`; true for keys that are unique only in a partition."""
        if isinstance(table, PostgreSQLTable) and table.routing is not None:
            return True
        with self._errors.reporting():
            return is_connected(connection, table, fires=self._transactions.fires)

    def refuses_rows(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Shapes.refuses_rows`."""
        with self._errors.reporting():
            return refuses_rows(connection, table)

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """See :meth:`Shapes.unique_indexes`; includes expressions and predicates."""
        return read_unique_indexes(connection, table)
