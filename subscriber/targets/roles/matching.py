"""Row matching: the conditions that find a row by its key or by all its values."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from subscriber.targets.target_table import (
    LeafRouting,
    TargetColumn,
    TargetTable,
)
from subscriber.types.equality import Equality

Change = TypeVar("Change", sa.Update, sa.Delete)
Touching = TypeVar("Touching", sa.Update, sa.Delete, sa.Select[Any])


class Matching(Protocol):
    """Compares stored values with sent values, and limits which rows a statement affects."""

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """Whether a row found by a key value already stores exactly what an UPDATE to this value
        would write.

        If so, SET can omit the key column, and the result is the same. This requires that any two
        equal values are stored identically, and that no trigger depends on the columns that SET
        names. Omitting the column is worthwhile because writing a key takes time, and because
        DuckDB treats an UPDATE of a key as a change to another row.

        Args:
            type_oid: the publisher's type.
            table: the table of the column.
            column: a column of the key, which :meth:`finds` compares.
        """
        ...

    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        """Whether two values of a type are different in ``column`` if their texts differ.

        False if this is not known. A column of another type may convert ``1`` and ``01`` to the
        same value.

        Args:
            type_oid: a type of which equal values have the same text.
            column: a column of the key.
        """
        ...

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """When a value of a PostgreSQL type is equal to a value stored in ``column`` (rules C14,
        C17).

        :data:`~subscriber.types.equality.EXACT` if the target compares two values exactly as
        PostgreSQL does.
        """
        ...

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """``clause`` in a form in which the target's comparison is at least as strict as
        PostgreSQL's.

        ``clause`` is the SQL expression of ``column``. The form equals a bound value only if
        PostgreSQL does not distinguish the two values.
        """
        ...

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition that ``clause``, the SQL expression of ``column``, equals a bound value.

        The equality is that of a key on the column.
        """
        ...

    def finds(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition that finds a row by a column of its key.

        It is :meth:`equals` without the values that are equal in the target but not in PostgreSQL.
        """
        ...

    def is_same(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition for one column when a whole row is compared (rule C14).

        It is like :meth:`equals`, but NULL equals NULL.
        """
        ...

    def own_rows(self, table: TargetTable, statement: Touching, clause: sa.FromClause) -> Touching:
        """``statement``, limited to rows of ``table`` itself, without tables that inherit from it.

        Args:
            table: the table.
            statement: an UPDATE, a DELETE or a SELECT.
            clause: the table as used in the statement.
        """
        ...

    def routing(self, table: TargetTable) -> LeafRouting | None:
        """How to find the partition of a row if only the partitions have keys (rule C26).

        None if the table itself has a key.
        """
        ...

    def change_first(self, statement: Change) -> Change | None:
        """An UPDATE or DELETE of one table, limited to one of the rows that it finds.

        None if the target's SQL cannot express this.
        """
        ...
