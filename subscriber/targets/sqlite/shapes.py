"""Shapes of SQLite's tables.

``public`` is the database itself. Another schema is a part of the table's name, or an attached
database.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from subscriber.targets.generic.shapes import GenericShapes
from subscriber.targets.sqlite.catalog import SQLiteTable, places, read_table, table_list
from subscriber.targets.target_table import TargetTable

_OTHER_UNIQUE_INDEXES: Final = sa.text(
    "SELECT count(*) FROM pragma_index_list(:name, :database) WHERE \"unique\" AND origin <> 'pk'"
)


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
