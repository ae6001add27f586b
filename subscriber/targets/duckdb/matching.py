"""Row matching in DuckDB."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from subscriber.targets.duckdb import values as duckdb_values
from subscriber.targets.generic.matching import GenericMatching
from subscriber.targets.target_table import (
    TargetColumn,
    TargetTable,
)
from subscriber.types.equality import EXACT, Equality

_BYTE_BY_BYTE: Final = "binary"
"""The collation that compares bytes: no collation at all."""


class DuckDBMatching(GenericMatching):
    """See :class:`~subscriber.targets.roles.matching.Matching`."""

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """See :meth:`Matching.equality`; a DECIMAL is compared like numeric."""
        return EXACT if column.storage == duckdb_values.DECIMAL else super().equality(type_oid, column)

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """See :meth:`Matching.comparable`.

        Texts are compared by their bytes, whatever the collation of the column or the database is.
        """
        return sa.collate(clause, _BYTE_BY_BYTE) if column.storage == duckdb_values.VARCHAR else clause

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Matching.equals`; DuckDB's indexes ignore collations, but ``=`` uses them."""
        return self.comparable(column, clause) == value

    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        """See :meth:`Matching.tells_apart`."""
        return duckdb_values.is_own_type(type_oid, column)

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """See :meth:`Matching.found_as_written`; DuckDB does not have triggers."""
        del table
        return column.storage in duckdb_values.STORED_ALIKE and self.equality(type_oid, column) == EXACT
