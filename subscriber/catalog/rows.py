"""How the catalog's rows are read and written: column types, and :class:`RowMapper`, a table whose
rows are dataclasses.

A row has an LSN where the database has text, and members where a field's type is an enum. A field
has the name of its column unless the mapper names another. ``change`` returns the number of rows
that were as expected: compare-and-set.

*Rejected:* SQLAlchemy's ORM. Rows are written by statements that name what they expect, in
transactions that the caller begins, and nothing is cached.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import fields
from enum import Enum
from typing import Any, Final, Generic, TypeVar, get_type_hints

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from typing_extensions import override

from subscriber.base.lsn import LSN, format_lsn, parse_lsn
from subscriber.targets.statements import upsert

TEXT: Final = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
"""A text of any length. MySQL's TEXT is too short for the column names of a wide table, or for the
values of a row.
"""

BYTES: Final = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
"""Bytes of any number."""


class _Name(sa.String):
    """An identifier: "S" differs from "s", and "s " from "s" (not so by MySQL's default)."""

    cache_ok = True

    @override
    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Callable[[Any], Any]:
        return _name_of


def _name_of(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


@compiles(_Name, "mysql", "mariadb")
def _name_in_mysql(_type: _Name, compiler: Any, **_: Any) -> str:
    from subscriber.targets.mariadb.transactions import facts_of

    collation = facts_of(compiler.dialect).exact_collation
    # Without a collation that compares spaces at the end, a name is stored as the bytes of UTF-8.
    return f"VARCHAR({_type.length}) COLLATE {collation}" if collation else f"VARBINARY({4 * (_type.length or 0)})"


NAME: Final = _Name(63)
"""A PostgreSQL identifier."""


class Lsn(sa.types.TypeDecorator[LSN]):
    """An LSN as text, since few targets have unsigned 64 bits. Compare only by = (A19a)."""

    impl = sa.String(32)
    cache_ok = True

    @override
    def process_bind_param(self, value: LSN | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else format_lsn(value)

    @override
    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> LSN | None:
        return None if value is None else parse_lsn(value)


class JsonText(sa.types.TypeDecorator[Any]):
    """A value as JSON text: not every target has a JSON type. A set is a sorted list."""

    impl = TEXT
    cache_ok = True

    @override
    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=False, default=sorted)

    @override
    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> Any:
        return None if value is None else json.loads(value)


class RowNumbers:
    """Numbers that grow with time: nanoseconds since 1970, each greater than the one before."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._last = 0

    def next(self) -> int:
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())
            return self._last


ROW_NUMBERS: Final = RowNumbers()
"""The row numbers of this process; the rows of all subscriptions are numbered together."""


def matching(table: sa.Table, **columns: Any) -> sa.ColumnElement[bool]:
    """The rows of a table that have these values."""
    return sa.and_(sa.true(), *(table.c[name] == value for name, value in columns.items()))


def change_rows(connection: sa.Connection, where: sa.ColumnElement[bool], table: sa.Table, **values: Any) -> int:
    """Returns the number of rows. A condition with what is expected makes it a compare-and-set."""
    return connection.execute(sa.update(table).where(where).values(**values)).rowcount


def delete_rows(connection: sa.Connection, table: sa.Table, **columns: Any) -> int:
    return connection.execute(sa.delete(table).where(matching(table, **columns))).rowcount


_Row = TypeVar("_Row")


class RowMapper(Generic[_Row]):
    """A table with a dataclass for its rows; ``columns`` has the columns with other names, and None
    for a field that is not stored and has a default.
    """

    def __init__(self, table: sa.Table, row: type[_Row], **columns: str | None) -> None:
        self.table: Final = table
        self._row: Final = row
        names = [one.name for one in fields(row)]  # type: ignore[arg-type]  # a dataclass
        self._columns: Final = {name: column for name in names if (column := columns.get(name, name)) is not None}
        types = get_type_hints(row)
        self._enums: Final = {
            name: types[name]
            for name in self._columns
            if isinstance(types[name], type) and issubclass(types[name], Enum)
        }
        self._read: Final = [table.c[column] for column in self._columns.values()]

    def select(self, connection: sa.Connection, *order: sa.ColumnElement[Any], **columns: Any) -> list[_Row]:
        query = sa.select(*self._read).where(matching(self.table, **columns)).order_by(*order)
        return [self._from(row) for row in connection.execute(query)]

    def find(self, connection: sa.Connection, **columns: Any) -> _Row | None:
        query = sa.select(*self._read).where(matching(self.table, **columns))
        row = connection.execute(query).one_or_none()
        return None if row is None else self._from(row)

    def _from(self, stored: Iterable[Any]) -> _Row:
        values = dict(zip(self._columns, stored, strict=True))
        return self._row(**values | {name: enum(values[name]) for name, enum in self._enums.items()})

    def insert(self, connection: sa.Connection, rows: Iterable[_Row], **columns: Any) -> None:
        """Insert rows; ``columns`` are values that all of them get beside their fields."""
        values = [self.values(row) | columns for row in rows]
        if values:
            connection.execute(sa.insert(self.table), values)

    def write(self, connection: sa.Connection, row: _Row, **columns: Any) -> None:
        """Insert a row, or replace the row that has its primary key."""
        values = self.values(row) | columns
        key = {column.name: values.pop(column.name) for column in self.table.primary_key}
        upsert(connection, self.table, key, values)

    def replace(self, connection: sa.Connection, where: sa.ColumnElement[bool], row: _Row) -> int:
        """Store everything but the primary key in the rows that are there; returns their number."""
        values = {name: value for name, value in self.values(row).items() if not self.table.c[name].primary_key}
        return change_rows(connection, where, self.table, **values)

    def values(self, row: _Row) -> dict[str, Any]:
        values = {column: getattr(row, name) for name, column in self._columns.items()}
        return values | {self._columns[name]: getattr(row, name).value for name in self._enums}
