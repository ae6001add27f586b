"""Row matching in SQLite: texts are compared exactly, whatever collation a column has."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa

from subscriber.targets.generic.matching import GenericMatching
from subscriber.targets.sqlite import values as sqlite_values
from subscriber.targets.sqlite.catalog import SQLiteColumn, SQLiteTable
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.types import family_of
from subscriber.types.equality import EXACT

_BINARY: Final = "BINARY"


class SQLiteMatching(GenericMatching):
    """See :class:`~subscriber.targets.roles.matching.Matching`."""

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """See :meth:`Matching.comparable`; texts are compared exactly."""
        del column
        return sa.collate(clause, _BINARY)

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Matching.equals`; with the collation of the key's index."""
        collation = _key_collation(column)
        return (clause if collation is None else sa.collate(clause, collation)) == value

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """See :meth:`Matching.found_as_written`.

        True for integers, and for texts that the key's index compares exactly.
        """
        watched = isinstance(table, SQLiteTable) and table.may_watch_columns
        if watched or self.equality(type_oid, column) != EXACT:
            return False
        if column.storage == sqlite_values.INTEGER:
            return bool(pa.types.is_integer(family_of(type_oid).arrow_type))
        return column.storage == sqlite_values.TEXT and _key_collation(column) == _BINARY

    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        """See :meth:`Matching.tells_apart`."""
        if column.storage == sqlite_values.INTEGER:
            return bool(pa.types.is_integer(family_of(type_oid).arrow_type))
        return column.storage == sqlite_values.TEXT and _key_collation(column) == _BINARY


def _key_collation(column: TargetColumn) -> str | None:
    return column.key_collation if isinstance(column, SQLiteColumn) else None
