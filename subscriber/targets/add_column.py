"""ALTER TABLE … ADD COLUMN: the catalog adds columns to its own tables, and a batch adds them to a
replicated table.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement


class AddColumn(ExecutableDDLElement):
    """ALTER TABLE … ADD COLUMN, for a column of ``table``."""

    def __init__(self, table: sa.Table, column: sa.Column[Any]) -> None:
        self.table = table
        self.column = column


@compiles(AddColumn)
def _add_column(element: AddColumn, compiler: Any, **_: Any) -> str:
    table = compiler.preparer.format_table(element.table)
    return f"ALTER TABLE {table} ADD COLUMN {compiler.get_column_specification(element.column)}"
