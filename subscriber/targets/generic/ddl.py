"""New tables in a database of which only SQLAlchemy's dialect is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import ExecutableDDLElement

from subscriber.schema.shape import ColumnShape, TableShape, UniqueKey
from subscriber.targets.generic.types import generic_type
from subscriber.targets.target_table import (
    AutoIncrement,
)


class GenericDDL:
    """See :class:`~subscriber.targets.roles.ddl.DDL`."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """See :meth:`DDL.place`."""
        return None if schema == "public" else schema, table

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """See :meth:`DDL.column_type`."""
        return generic_type(type_oid, type_name, key=key).compile(dialect=self._engine.dialect)

    def storage(self, declared: str) -> str:
        """See :meth:`DDL.storage`."""
        return declared.partition("(")[0]

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """See :meth:`DDL.expression`."""
        del expression, types  # the target's expressions are not known
        return None

    def literal(self, value: Any) -> str | None:
        """See :meth:`DDL.literal`."""
        match value:
            case bool() | int():
                return str(int(value))
            case float() if math.isfinite(value):
                return repr(value)
            # A backslash is an escape character in some databases; a zero byte ends a statement.
            case str() if not {"\\", "\0"}.intersection(value):
                return "'" + value.replace("'", "''") + "'"
            case _:
                return None

    def unique_constraint(self, key: UniqueKey) -> sa.UniqueConstraint | None:
        """See :meth:`DDL.unique_constraint`."""
        return None if key.deferrable or not key.nulls_distinct else sa.UniqueConstraint(*key.columns)

    def unique_index(self, table: sa.Table, key: UniqueKey) -> ExecutableDDLElement | None:
        """See :meth:`DDL.unique_index`."""
        del table, key
        return None

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """See :meth:`DDL.auto_increment`."""
        del shape, column, declared
        return None
