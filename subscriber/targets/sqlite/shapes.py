"""Shapes of SQLite's tables.

``public`` is the database itself. Another schema is a part of the table's name, or an attached
database.
"""

from __future__ import annotations

import re
from typing import Final

import sqlalchemy as sa

from subscriber.targets.generic.shapes import GenericShapes
from subscriber.targets.sqlite.catalog import SQLiteTable, places, read_table, sql_of, table_list
from subscriber.targets.target_table import TargetTable

_OTHER_UNIQUE_INDEXES: Final = sa.text(
    "SELECT count(*) FROM pragma_index_list(:name, :database) WHERE \"unique\" AND origin <> 'pk'"
)
_INDEXES_OF_VALUES: Final = sa.text(
    # Indexes with a predicate, or of an expression.
    "SELECT count(*) FROM pragma_index_list(:name, :database) AS i"
    " WHERE i.partial OR EXISTS (SELECT 1 FROM pragma_index_info(i.name, :database) AS c WHERE c.cid = -2)"
)
_REFUSING: Final = re.compile(r"\b(CHECK|STRICT|COLLATE)\b", re.IGNORECASE)
"""Words without which a CREATE TABLE statement has no CHECK constraint, no column that refuses
values of another type, and no collation that may be unknown here.
"""


class SQLiteShapes(GenericShapes):
    """See :class:`~subscriber.targets.roles.shapes.Shapes`."""

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Shapes.reflect`; names are compared exactly, although SQLite ignores their
        case.
        """
        with self._errors.reporting():
            for database, name in places(schema, table):
                found = table_list(connection, database, name)
                if found is not None:
                    return read_table(connection, database, name, *found)
        return None

    def order_matters(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Shapes.order_matters`; foreign keys are off."""
        assert isinstance(table, SQLiteTable)
        if table.may_watch_columns or table.resolves_conflicts:
            return True
        with self._errors.reporting():
            place = {"name": table.name, "database": table.schema}
            return bool(connection.execute(_OTHER_UNIQUE_INDEXES, place).scalar_one())

    def refuses_rows(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Shapes.refuses_rows`; a word of the CREATE TABLE statement may be a name."""
        if any(column.generated for column in table.columns):
            return True
        with self._errors.reporting():
            statement = sql_of(connection, table.schema, table.name)
            place = {"name": table.name, "database": table.schema}
            return _REFUSING.search(statement) is not None or bool(
                connection.execute(_INDEXES_OF_VALUES, place).scalar_one()
            )
