"""New tables: how PostgreSQL's names, columns, expressions and keys are declared in the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.schema import ExecutableDDLElement

from subscriber.schema.shape import ColumnShape, TableShape, UniqueKey
from subscriber.targets.target_table import (
    AutoIncrement,
)


class DDL(Protocol):
    """The parts of CREATE TABLE and ALTER TABLE that depend on the target's dialect.

    :mod:`subscriber.targets.ddl` combines them to statements.
    """

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """The schema and the name, in SQL, of a new table for the publisher's ``schema.table``.

        :meth:`Shapes.reflect` finds the table there.
        """
        ...

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """The declaration of a column that stores every value of a PostgreSQL type exactly.

        Args:
            type_oid: the type.
            type_name: the type's name as ``format_type`` returns it, such as ``numeric(10,2)``.
            key: the column is part of a key. Some databases allow only some types in a key.
        """
        ...

    def storage(self, declared: str) -> str:
        """The :attr:`TargetColumn.storage` of a column with this declaration."""
        ...

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """A PostgreSQL expression in the target's SQL; None if it may have another meaning there.

        Args:
            expression: the expression as ``pg_get_expr`` prints it with an empty search_path.
            types: the type OID of every column of its table.
        """
        ...

    def literal(self, value: Any) -> str | None:
        """A value that :meth:`Values.bind_values` returned, as a constant of the target's SQL.

        None if the target's SQL has no constant for the value.
        """
        ...

    def unique_constraint(self, key: UniqueKey) -> sa.UniqueConstraint | None:
        """A unique key as a constraint; None if the target does not have this kind."""
        ...

    def unique_index(self, table: sa.Table, key: UniqueKey) -> ExecutableDDLElement | None:
        """A unique key that cannot be a :meth:`unique_constraint`, as an index of a new table.

        None if the target does not have this kind of index.
        """
        ...

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """How an identity or serial column of a new table generates values in the target.

        None if the target cannot generate values for this column.

        Args:
            shape: the publisher's table.
            column: a column of the table.
            declared: the column's type, as :meth:`column_type` returned it.
        """
        ...
