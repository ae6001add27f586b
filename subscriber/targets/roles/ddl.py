"""New tables: how names, columns, expressions and keys of PostgreSQL are declared in the target."""

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
    """The words of CREATE TABLE and ALTER TABLE; :mod:`subscriber.targets.ddl` makes statements of
    them.
    """

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """Where a new table for the publisher's ``schema.table`` belongs, so that
        :meth:`Shapes.reflect` finds it: schema and name in SQL.
        """
        ...

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """How to declare a column that holds every value of a PostgreSQL type exactly.

        Args:
            type_oid: the type.
            type_name: ``format_type``'s name of it, such as ``numeric(10,2)``.
            key: the column is part of a key, which some databases allow for some types only.
        """
        ...

    def storage(self, declared: str) -> str:
        """:attr:`TargetColumn.storage` of a column that is declared so."""
        ...

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """PostgreSQL's expression in this target's SQL; None where it may mean something else
        there.

        Args:
            expression: as ``pg_get_expr`` prints it with an empty search_path.
            types: type OID of every column of its table.
        """
        ...

    def literal(self, value: Any) -> str | None:
        """A value that :meth:`Values.bind_values` gave, as a constant of the target's SQL; None
        where it has none.
        """
        ...

    def unique_constraint(self, key: UniqueKey) -> sa.UniqueConstraint | None:
        """A unique key; None where the target has none of the kind."""
        ...

    def unique_index(self, table: sa.Table, key: UniqueKey) -> ExecutableDDLElement | None:
        """A unique key that is no :meth:`unique_constraint`, as an index of a new table; None where
        the target has none of the kind.
        """
        ...

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """How an identity or serial column of a new table makes its values here; None where it
        cannot.

        Args:
            shape: the table.
            column: one of its columns.
            declared: the column's type, as :meth:`column_type` gave it.
        """
        ...
