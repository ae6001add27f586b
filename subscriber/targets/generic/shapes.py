"""Tables as SQLAlchemy's inspector describes them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.targets.roles.errors import Errors
from subscriber.targets.target_table import (
    TargetColumn,
    TargetTable,
    UniqueIndex,
)


class GenericShapes:
    """See :class:`~subscriber.targets.roles.shapes.Shapes`."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors

    def reflect(self, connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
        """See :meth:`Shapes.reflect`; ``public`` is the default schema."""
        inside = None if schema == "public" else schema
        with self._errors.reporting():
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

    def order_matters(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Shapes.order_matters`; not known, because SQLAlchemy does not describe
        triggers.
        """
        del connection, table
        return True

    def refuses_rows(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Shapes.refuses_rows`; not known, because databases differ in what an index
        or a constraint refuses.
        """
        del connection, table
        return True

    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """See :meth:`Shapes.unique_indexes`; partial indexes and indexes of expressions are left
        out.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", exc.SAWarning)  # about expression indexes, which are left out
            inspector = sa.inspect(connection)
            primary = inspector.get_pk_constraint(table.name, table.schema)
            uniques = inspector.get_unique_constraints(table.name, table.schema)
            indexes = inspector.get_indexes(table.name, table.schema)
        found = [(primary["name"] or f"{table.name}_pkey", primary["constrained_columns"])]
        for unique in uniques:
            columns = unique["column_names"]
            found.append((unique["name"] or "_".join([table.name, *columns, "key"]), columns))
        for index in indexes:
            names = [name for name in index["column_names"] if name is not None]
            # The predicate of a partial index is not known here.
            if index["unique"] and len(names) == len(index["column_names"]) and not _is_partial(index):
                found.append((str(index["name"]), names))
        # In MySQL, unique constraints are also reported as indexes.
        return list({name: UniqueIndex(name, tuple(columns)) for name, columns in found if columns}.values())

    def refused_key_hint(self, connection: sa.Connection, table: TargetTable) -> str | None:
        """See :meth:`Shapes.refused_key_hint`."""
        del connection, table
        return None


def _is_partial(index: Mapping[str, Any]) -> bool:
    return any(
        option.endswith("_where") and value is not None for option, value in index.get("dialect_options", {}).items()
    )
