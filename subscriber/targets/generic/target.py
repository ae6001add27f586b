"""Any other SQLAlchemy dialect, with nothing assumed.

Shapes come from SQLAlchemy's inspector and values are bound as Python values or PostgreSQL's text. What
such a database does to a value is not known here, so opening one says so; a dialect that is to be trusted
gets a file of its own.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import pyarrow as pa
import sqlalchemy as sa

from subscriber.targets.capabilities import Capabilities
from subscriber.targets.target import Target
from subscriber.targets.target_table import TargetColumn, TargetTable

logger = logging.getLogger(__name__)


def open_generic(url: sa.URL) -> Target:
    """Open ``url`` with its dialect's defaults."""
    engine = sa.create_engine(url, hide_parameters=True)
    logger.warning("%s is not a tested target: values are bound as text or Python values", engine.dialect.name)
    return GenericTarget(url, engine)


class GenericTarget(Target):
    """A database that only SQLAlchemy knows."""

    capabilities: ClassVar[Capabilities] = Capabilities(database="the target")

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Target.reflect`; ``public`` is the default schema."""
        inside = None if schema == "public" else schema
        with self.reporting():
            inspector = sa.inspect(connection)
            if not inspector.has_table(table, inside):
                return None
            columns = inspector.get_columns(table, inside)
            key = inspector.get_pk_constraint(table, inside)["constrained_columns"]
            is_view = table in inspector.get_view_names(inside)
        return TargetTable(
            inside,
            table,
            tuple(
                TargetColumn(
                    name=column["name"],
                    declared_type=str(column["type"]),
                    storage=type(column["type"]).__name__,
                    nullable=column.get("nullable", True),
                    generated="computed" in column,
                    null_is_generated=column.get("autoincrement") is True,
                    required=not column.get("nullable", True)
                    and column.get("default") is None
                    and column.get("autoincrement") is not True
                    and not {"computed", "identity"} & set(column),
                )
                for column in columns
            ),
            tuple(key) or None,
            "view" if is_view else "table",
        )

    def check_column(self, type_oid: int, column: TargetColumn) -> None:
        """Nothing is known, so nothing is refused; :func:`open_generic` has said so."""

    def bind_values(self, type_oid: int, column: TargetColumn, values: pa.Array) -> list[Any]:
        """The values as Python's."""
        del type_oid, column  # nothing is known of what they would ask for
        bound: list[Any] = values.to_pylist()
        return bound
