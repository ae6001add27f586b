"""Row matching by SQL's equality, for a database of which nothing else is known."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from subscriber.targets.roles.matching import Change, Touching
from subscriber.targets.target_table import (
    LeafRouting,
    TargetColumn,
    TargetTable,
)
from subscriber.types import equality_of
from subscriber.types.equality import Equality


class GenericMatching:
    """See :class:`~subscriber.targets.roles.matching.Matching`."""

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """See :meth:`Matching.found_as_written`."""
        del type_oid, table, column
        return False  # the database's equality is not known

    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        """See :meth:`Matching.tells_apart`; not known."""
        del type_oid, column
        return False

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """See :meth:`Matching.equality`."""
        del column  # the column stores the text
        return equality_of(type_oid)

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """See :meth:`Matching.comparable`."""
        del column  # texts are compared as they are stored
        return clause

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Matching.equals`."""
        del column  # the operator = of the column's type is used
        return clause == value

    def finds(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Matching.finds`."""
        return self.equals(column, clause, value)

    def is_same(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Matching.is_same`."""
        return self.comparable(column, clause).is_not_distinct_from(value)

    def own_rows(self, table: TargetTable, statement: Touching, clause: sa.FromClause) -> Touching:
        """See :meth:`Matching.own_rows`."""
        del table, clause  # tables do not inherit
        return statement

    def routing(self, table: TargetTable) -> LeafRouting | None:
        """See :meth:`Matching.routing`."""
        del table  # its key is unique in the whole table
        return None

    def change_first(self, statement: Change) -> Change | None:
        """See :meth:`Matching.change_first`."""
        del statement
        return None
