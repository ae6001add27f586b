"""Row matching: the conditions that find a row by its key, or by all its values."""

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
    """How stored values are compared with values that were sent, and which rows a statement
    touches.
    """

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """Whether a row that a value of its key has found holds just what an UPDATE to that value
        would write.

        SET can leave such a column of the key out then, and nobody can tell: no two values are
        equal that are not stored alike, and no trigger asks which columns SET names. To write a key
        costs time, and DuckDB takes it for another row.

        Args:
            type_oid: the publisher's type.
            table: the column's.
            column: one of the key, found by :meth:`finds`.
        """
        ...

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """What makes a value of a PostgreSQL type equal to one stored in ``column`` (rules C14,
        C17).

        :data:`~subscriber.types.equality.EXACT` where the target compares two values just as
        PostgreSQL does.
        """
        ...

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """``clause``, which is ``column``, in a form that equals a bound value only if PostgreSQL
        tells the two not apart.
        """
        ...

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition that ``clause``, which is ``column``, has a bound value, by the equality of
        a key on it.
        """
        ...

    def finds(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition that finds a row by a column of its key: :meth:`equals`, and nothing that
        only the target takes for the same.
        """
        ...

    def is_same(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition of a whole row's comparison: as :meth:`equals`, and NULL equals NULL (rule
        C14).
        """
        ...

    def own_rows(self, table: TargetTable, statement: Touching, clause: sa.FromClause) -> Touching:
        """``statement`` about rows of ``table`` itself, and not of others that inherit from it.

        Args:
            table: the table.
            statement: an UPDATE, a DELETE or a SELECT.
            clause: the table in it.
        """
        ...

    def routing(self, table: TargetTable) -> LeafRouting | None:
        """How to tell the partition of a row, where only the partitions have keys (rule C26).

        None where the table has a key itself.
        """
        ...

    def change_first(self, statement: Change) -> Change | None:
        """An UPDATE or DELETE of one table that changes one of the rows it finds; None where that
        cannot be said in SQL.
        """
        ...
