"""Statements that SQLAlchemy does not have for all databases: ALTER TABLE … ADD, DROP and RENAME
COLUMN, and an upsert. If two sessions looked first whether a row of the catalog is there, one could
fail with a duplicate key; in MariaDB it would not even see a row committed since its first query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement

from subscriber.targets.target_table import TargetTable


@dataclass(frozen=True, slots=True)
class AlterWords:
    """The words of a database's ALTER TABLE."""

    add: str = "ADD COLUMN"
    drop: str = "DROP COLUMN"
    rename: str = "RENAME COLUMN"


ALTER_WORDS: Final = (AlterWords(), AlterWords(add="ADD", drop="DROP", rename="ALTER COLUMN"))
"""Nearly every database has the words of PostgreSQL; others have those of the SQL standard."""
_ATTRIBUTE: Final = "subscriber_alter_words"


def set_alter_words(dialect: sa.Dialect, words: AlterWords) -> None:
    """Let a dialect's statements have these words."""
    setattr(dialect, _ATTRIBUTE, words)


def _words(compiler: Any) -> AlterWords:
    found: AlterWords = getattr(compiler.dialect, _ATTRIBUTE, ALTER_WORDS[0])
    return found


class AddColumn(ExecutableDDLElement):
    def __init__(self, table: sa.Table, column: sa.Column[Any]) -> None:
        self.table = table
        self.column = column


class DropColumn(ExecutableDDLElement):
    def __init__(self, table: sa.Table, column: str) -> None:
        self.table = table
        self.column = column


@compiles(AddColumn)
def _add_column(element: AddColumn, compiler: Any, **_: Any) -> str:
    table = compiler.preparer.format_table(element.table)
    return f"ALTER TABLE {table} {_words(compiler).add} {compiler.get_column_specification(element.column)}"


@compiles(DropColumn)
def _drop_column(element: DropColumn, compiler: Any, **_: Any) -> str:
    preparer = compiler.preparer
    table = preparer.format_table(element.table)
    return f"ALTER TABLE {table} {_words(compiler).drop} {preparer.quote(element.column)}"


class RenameColumn(ExecutableDDLElement):
    def __init__(self, table: sa.Table, old: str, new: str) -> None:
        self.table = table
        self.old = old
        self.new = new


@compiles(RenameColumn)
def _rename_column(element: RenameColumn, compiler: Any, **_: Any) -> str:
    preparer = compiler.preparer
    old, new = preparer.quote(element.old), preparer.quote(element.new)
    return f"ALTER TABLE {preparer.format_table(element.table)} {_words(compiler).rename} {old} TO {new}"


def rename_column(table: TargetTable, old: str, new: str) -> RenameColumn:
    schema, name = table.altered
    return RenameColumn(sa.Table(name, sa.MetaData(), schema=schema), old, new)


def upsert(
    connection: sa.Connection,
    table: sa.Table,
    key: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    new: Mapping[str, Any] | None = None,
    add: Mapping[str, int] | None = None,
) -> None:
    """Write the row with the primary key ``key``. Only a new row gets ``new``; the numbers ``add``
    are added to what the row has, and a new row gets them as they are.
    """
    add = add or {}
    inserted = {**key, **values, **(new or {}), **add}
    statement: Any
    # What the dialect can write says what the database has.
    clauses = connection.dialect.statement_compiler
    if hasattr(clauses, "visit_on_conflict_do_update"):
        from sqlalchemy.dialects import postgresql

        statement = postgresql.insert(table).values(inserted)
        changed = _changed(table, statement.excluded, values, add)
        statement = statement.on_conflict_do_update(index_elements=list(key), set_=changed)
    elif hasattr(clauses, "visit_on_duplicate_key_update"):
        from sqlalchemy.dialects import mysql

        statement = mysql.insert(table).values(inserted)
        statement = statement.on_duplicate_key_update(_changed(table, statement.inserted, values, add))
    else:
        row = sa.and_(*(table.c[name] == value for name, value in key.items()))
        changed = {**values, **{name: table.c[name] + number for name, number in add.items()}}
        if connection.execute(sa.update(table).where(row).values(changed)).rowcount:
            return
        statement = sa.insert(table).values(inserted)
    connection.execute(statement)


def _changed(table: sa.Table, row: Any, values: Mapping[str, Any], add: Mapping[str, int]) -> dict[str, Any]:
    return {**{name: row[name] for name in values}, **{name: table.c[name] + row[name] for name in add}}
