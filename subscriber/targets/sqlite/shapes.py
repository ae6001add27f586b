"""Shapes of SQLite's tables.

``public`` is the database itself. Another schema is a part of the table's name, or an attached
database.
"""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.targets.generic.shapes import GenericShapes
from subscriber.targets.sqlite.catalog import places, read_table, table_list
from subscriber.targets.target_table import TargetTable


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
