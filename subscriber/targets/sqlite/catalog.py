"""Queries of SQLite's pragmas and ``sqlite_master`` about a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from subscriber.targets.sqlite import values as sqlite_values
from subscriber.targets.target_table import TableKind, TargetColumn, TargetTable

_KINDS: Final[dict[str, TableKind]] = {"table": "table", "view": "view", "virtual": "virtual table"}
_LOCATORS: Final = ("rowid", "_rowid_", "oid")
_KEY_COLLATIONS: Final = sa.text(
    "SELECT x.name, x.coll FROM pragma_index_list(:name, :database) AS i, pragma_index_xinfo(i.name, :database) AS x"
    " WHERE i.origin = 'pk' AND x.key"
)


@dataclass(frozen=True, slots=True)
class SQLiteColumn(TargetColumn):
    """A column of a SQLite table.

    Attributes:
        key_collation: the collation of the column in the key's index, which may differ from that of
            the column.
    """

    key_collation: str | None = None


@dataclass(frozen=True, slots=True)
class SQLiteTable(TargetTable):
    """A SQLite table.

    Attributes:
        resolves_conflicts: a constraint has an ON CONFLICT clause that replaces the error by
            another action.
        may_watch_columns: a trigger may fire for an UPDATE OF some columns, so it depends on the
            columns that SET names.
    """

    resolves_conflicts: bool = False
    may_watch_columns: bool = False


def places(schema: str, table: str) -> Iterator[tuple[str, str]]:
    """The possible places of a publisher's table, as database and name; the first that exists is
    used.
    """
    if schema == "public":
        yield "main", table
        return
    yield "main", f"{schema}.{table}"
    if schema not in ("main", "temp"):
        yield schema, table


def table_list(connection: sa.Connection, database: str, name: str) -> tuple[str, bool, bool] | None:
    """The kind of a table, whether it is WITHOUT ROWID, and whether it is STRICT.

    None if there is no table with exactly this name.
    """
    query = sa.text("SELECT type, wr, strict FROM pragma_table_list WHERE schema = :database AND name = :name")
    row = connection.execute(query, {"database": database, "name": name}).one_or_none()
    return None if row is None else (row.type, bool(row.wr), bool(row.strict))


def read_table(
    connection: sa.Connection, database: str, name: str, kind: str, without_rowid: bool, strict: bool
) -> SQLiteTable:
    """The table that :func:`table_list` found."""
    query = sa.text(
        'SELECT name, type, "notnull", pk, hidden, dflt_value FROM pragma_table_xinfo(:name, :database) ORDER BY cid'
    )
    rows = connection.execute(query, {"name": name, "database": database}).all()
    key = [row.name for row in sorted(rows, key=lambda row: row.pk) if row.pk]
    collations: dict[str, str] = {
        row.name: row.coll for row in connection.execute(_KEY_COLLATIONS, {"name": name, "database": database})
    }
    is_rowid = not without_rowid and len(key) == 1

    def is_alias(row: sa.Row[Any]) -> bool:
        """Whether a column is an alias of the rowid, which SQLite generates."""
        return is_rowid and bool(row.pk) and row.type.upper() == "INTEGER"

    columns = tuple(
        SQLiteColumn(
            name=row.name,
            declared_type=row.type,
            storage=sqlite_values.affinity(row.type, strict=strict),
            nullable=not row.notnull,
            generated=row.hidden in (2, 3),
            null_is_generated=is_alias(row),
            key_collation=collations.get(row.name),
            required=bool(row.notnull) and row.dflt_value is None and row.hidden not in (2, 3) and not is_alias(row),
        )
        for row in rows
    )
    taken = {column.name.lower() for column in columns}
    locators = () if without_rowid else tuple(word for word in _LOCATORS if word not in taken)[:1]
    statement = "" if kind != "table" else sql_of(connection, database, name)
    return SQLiteTable(
        database,
        name,
        columns,
        tuple(key) or None,
        _KINDS.get(kind, "other"),
        locators,
        resolves_conflicts="CONFLICT" in statement.upper(),
        may_watch_columns=_has_trigger(connection, database, name),
    )


def _has_trigger(connection: sa.Connection, database: str, name: str) -> bool:
    schema = sa.table("sqlite_master", sa.column("type"), sa.column("tbl_name"), schema=database)
    # The trigger may spell the table's name with letters of another case.
    of_table = (schema.c.type == "trigger") & (sa.collate(schema.c.tbl_name, "NOCASE") == name)
    return connection.execute(sa.select(sa.literal_column("1")).where(of_table)).first() is not None


def sql_of(connection: sa.Connection, database: str | None, name: str) -> str:
    """The CREATE TABLE statement of a table."""
    schema = sa.table("sqlite_master", sa.column("type"), sa.column("name"), sa.column("sql"), schema=database)
    query = sa.select(schema.c.sql).where(schema.c.type == "table", schema.c.name == name)
    return str(connection.execute(query).scalar_one())
