"""A publisher's table and a target's table, to compare them, with SQLite as the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from subscriber.migrate.schema.compare_table import compare_table
from subscriber.migrate.schema.schema_object import Missing, TablePair
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.relation_names import SAME_NAMES, RelationNames
from subscriber.postgres.schema.shape import IndexShape
from subscriber.targets import Connection, Target
from subscriber.targets.table_changes import FoundObjects
from subscriber.targets.target_table import TargetColumn, TargetTable
from tests.table_shapes import column_shape, table_shape

TABLE = TargetTable("main", "t", (TargetColumn("a", "INT", "INTEGER"), TargetColumn("b", "TEXT", "TEXT")), ("a",))
NOTHING = FoundObjects()
COLUMNS = (column_shape("a", 23, "integer"), column_shape("b", 25, "text"))


class Comparison:
    """Compares tables in a target."""

    def __init__(self, target: Target, connection: Connection) -> None:
        self._target = target
        self._connection = connection

    def both(
        self,
        found: FoundObjects = NOTHING,
        *,
        names: RelationNames = SAME_NAMES,
        table: TargetTable = TABLE,
        references: Mapping[tuple[str, str], TargetTable] | None = None,
        objects: PublisherTable | None = None,
        **shape: Any,
    ) -> TablePair:
        """A publisher's table of this shape, and what the target has."""
        made = replace(objects or table_shape("public", "t", COLUMNS), **{"columns": COLUMNS, **shape})
        return TablePair(
            target=self._target,
            connection=self._connection,
            objects=made,
            table=table,
            found=found,
            names=names,
            subscription="My sub",
            published=[column.name for column in made.columns],
            references=references or {},
        )

    def __call__(self, *found: FoundObjects, **more: Any) -> list[Missing]:
        """What is missing or different."""
        return list(compare_table(self.both(*found, **more)))


def indexed(*indexes: IndexShape) -> PublisherTable:
    """The publisher's table with these indexes."""
    return table_shape("public", "t", COLUMNS, indexes=indexes)
