"""The statements that alter a table of the target: columns are added, filled and renamed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement

from subscriber.targets.add_column import AddColumn
from subscriber.targets.declared_columns import Declared
from subscriber.targets.target import Target
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.types import decode_column


class RenameColumn(ExecutableDDLElement):
    """ALTER TABLE … RENAME COLUMN, for a column of ``table``."""

    def __init__(self, table: sa.Table, old: str, new: str) -> None:
        self.table = table
        self.old = old
        self.new = new


@compiles(RenameColumn)
def _rename_column(element: RenameColumn, compiler: Any, **_: Any) -> str:
    preparer = compiler.preparer
    old, new = preparer.quote(element.old), preparer.quote(element.new)
    return f"ALTER TABLE {preparer.format_table(element.table)} RENAME COLUMN {old} TO {new}"


def rename_column(table: TargetTable, old: str, new: str) -> RenameColumn:
    """The statement that renames a column of an existing table."""
    return RenameColumn(sa.Table(table.name, sa.MetaData(), schema=table.schema), old, new)


def as_typed(target: Target, statement: ExecutableDDLElement) -> str:
    """The text of a statement, as a user would type it.

    For some drivers, SQLAlchemy doubles the percent signs in a name; here each percent sign is
    single.
    """
    written = str(statement.compile(target.engine))
    return written.replace("%%", "%") if target.engine.dialect.paramstyle in ("format", "pyformat") else written


def fill_column(
    target: Target, connection: sa.Connection, table: TargetTable, column: TargetColumn, type_oid: int, text: str
) -> None:
    """Set a column to one value in every row.

    Args:
        target: the target that has the table.
        connection: a connection of :meth:`Transactions.begin`.
        table: the table. Tables that inherit from it have the column too, and their rows also get
            the value.
        column: a column of the table.
        type_oid: the value's type at the publisher.
        text: the value, as the type's output function writes it.

    Raises:
        UnsupportedValue: the column cannot store the value.
        sqlalchemy.exc.SQLAlchemyError: the database refused the statement. The target's boundary
            (:meth:`Errors.reporting`) translates this error.
    """
    array = pa.array([text.encode()], pa.binary())
    if target.capabilities.postgresql_text:
        values: pa.Array = array.cast(pa.string())
    else:
        values = decode_column(type_oid, array, binary=False, column=1)
    (value,) = target.values.bind_values(type_oid, column, values)
    clause = table.clause()
    bound: sa.BindParameter[Any] = sa.bindparam("subscriber_value", value, type_=sa.types.NullType())
    statement = sa.update(clause).values({clause.c[column.name]: bound}).compile(dialect=target.engine.dialect)
    parameters: Any = (value,) if statement.positiontup is not None else {"subscriber_value": value}
    connection.exec_driver_sql(str(statement), parameters)


def add_column(target: Target, table: TargetTable, name: str, type_oid: int, type_name: str) -> AddColumn:
    """The statement that adds a nullable column for a PostgreSQL type to an existing table.

    The column stores every value of the type.

    Args:
        target: the target that has the table.
        table: the table.
        name: the new column's name.
        type_oid: the column's type.
        type_name: the type's name as ``format_type`` returns it.
    """
    column = sa.Column(name, Declared(target.ddl.column_type(type_oid, type_name)), nullable=True)
    return AddColumn(sa.Table(table.name, sa.MetaData(), column, schema=table.schema), column)
