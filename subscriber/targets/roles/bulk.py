"""Bulk writes: many changes of one table with one statement (an optional role)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import sqlalchemy as sa

from subscriber.targets.loader import LoadColumn
from subscriber.targets.target_table import TargetTable


@dataclass(frozen=True, slots=True)
class BulkColumn(LoadColumn):
    """A column of the changed rows.

    Attributes:
        values: a value for each row, as decoded.
    """

    values: pa.Array


class Bulk(Protocol):
    """Writes changes of different rows with one statement, in the caller's transaction.

    A target has this role if it is quicker than a statement for each row. The result is the same as
    that of the single statements: the same rows are found, and the same values are stored. All rows
    of an UPDATE or DELETE have different keys; rows are inserted in their order. If a call fails,
    or does not find all its rows, the caller rolls the transaction or a savepoint back.

    A row that another origin wrote last (:meth:`Origins.others`) is not found. So it is left to the
    single statements, whose conflict is recorded.
    """

    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[LoadColumn]) -> int | None:
        """From how many rows on the following methods are quicker than single statements.

        None if they cannot write changes of this table. The answer holds for the transaction.

        Args:
            connection: a connection of :meth:`Transactions.begin`.
            table: the table of the rows.
            key: the columns by which rows are found; empty for INSERT.

        Raises:
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...

    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[BulkColumn]) -> int:
        """Insert rows; returns their number. The other columns get their defaults.

        Raises:
            UnsupportedValue: a column cannot store a value.
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...

    def update(
        self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn], written: Sequence[BulkColumn]
    ) -> int:
        """Update the rows that have these keys; returns how many were found.

        Args:
            connection: a connection of :meth:`Transactions.begin`.
            table: the table of the rows.
            key: the columns by which rows are found, as :meth:`least_rows` has accepted them.
            written: the columns to set; the other columns keep their values. A column of the key
                has the value by which the row is found.

        Raises:
            UnsupportedValue: a column cannot store a value.
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...

    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn]) -> int:
        """Delete the rows that have these keys; returns how many were found.

        Raises:
            UnsupportedValue: a key column cannot store a value.
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...
