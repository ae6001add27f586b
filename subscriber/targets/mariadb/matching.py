"""Row matching in MariaDB: texts are compared exactly, whatever collation a column has."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects.mysql import CHAR

from subscriber.targets.generic.matching import GenericMatching
from subscriber.targets.mariadb import values as mariadb_values
from subscriber.targets.mariadb.ddl import MariaDBDDL
from subscriber.targets.roles.matching import Change
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.types import family_of
from subscriber.types.equality import EXACT, Equality

_OWN_STORAGE: Final = {17: "varbinary", 1082: "date", 1700: "decimal", 2950: "uuid"}
"""Types that store exactly the values of a PostgreSQL type: bytea, date, numeric and uuid."""


class MariaDBMatching(GenericMatching):
    """See :class:`~subscriber.targets.roles.matching.Matching`."""

    def __init__(self, ddl: MariaDBDDL) -> None:
        self._ddl = ddl

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """See :meth:`Matching.equality`; a DECIMAL is compared like numeric."""
        return EXACT if column.storage == "decimal" else super().equality(type_oid, column)

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """See :meth:`Matching.comparable`; texts are compared exactly, including blanks at the end.

        A CHAR has no blanks at the end.
        """
        storage = column.storage.removesuffix(mariadb_values.INEXACT_KEY)
        if storage not in mariadb_values.TEXTS | {"char"}:
            return clause
        collation = "utf8mb4_bin" if storage == "char" else self._ddl.collation
        return sa.collate(sa.cast(clause, CHAR(charset="utf8mb4")), collation)

    def finds(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """See :meth:`Matching.finds`.

        A text is found by its index and then compared including the blanks at the end, which most
        ``_bin`` collations ignore.
        """
        equal = super().finds(column, clause, value)
        if column.storage not in mariadb_values.TEXTS:
            return equal
        return sa.and_(equal, self.comparable(column, clause) == value)

    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        """See :meth:`Matching.tells_apart`."""
        if column.storage in mariadb_values.INTEGERS:
            return bool(pa.types.is_integer(family_of(type_oid).arrow_type))
        return column.storage in mariadb_values.TEXTS or _OWN_STORAGE.get(type_oid) == column.storage

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """See :meth:`Matching.found_as_written`; triggers do not depend on the columns that SET
        names.
        """
        del table
        return column.storage in mariadb_values.STORED_ALIKE and self.equality(type_oid, column) == EXACT

    def change_first(self, statement: Change) -> Change:
        """See :meth:`Matching.change_first`; adds LIMIT 1."""
        return statement.with_dialect_options(mysql_limit=1)
