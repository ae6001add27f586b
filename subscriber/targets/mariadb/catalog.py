"""Queries of a MariaDB or MySQL target's ``information_schema``.

They read columns, keys, references and auto-increments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from subscriber.errors import ConflictError, TargetUnavailable
from subscriber.targets.mariadb import values
from subscriber.targets.target_table import TableKind, TargetColumn, TargetTable

_SYSTEM: Final = frozenset({"information_schema", "mysql", "performance_schema", "sys"})
_BINARY: Final = ("_bin", "binary")
_LAST_OF_A_NAME: Final = "\uffff"
"""The last character that a name may contain."""
_SKIPPED: Final = 1684
"""The number of the warning that a table is missing in a result, because another session alters it
and the transaction may not wait for this.
"""

_HERE: Final = "COALESCE(:database, DATABASE())"
_RELATION: Final = sa.text(
    "SELECT t.table_name AS name, t.table_type AS type, e.transactions AS transactions FROM information_schema.tables t"
    f" LEFT JOIN information_schema.engines e ON e.engine = t.engine WHERE t.table_schema = {_HERE} AND t.table_name = :name"
)
_COLUMNS: Final = sa.text(
    "SELECT column_name AS name, column_type AS declared, data_type AS storage, is_nullable AS nullable, extra AS extra,"
    " collation_name AS collation, generation_expression AS generated, column_default AS value FROM information_schema.columns"
    f" WHERE table_schema = {_HERE} AND table_name = :name ORDER BY ordinal_position"
)
_KEY: Final = sa.text(
    "SELECT column_name AS name FROM information_schema.statistics"
    f" WHERE table_schema = {_HERE} AND table_name = :name AND index_name = 'PRIMARY' ORDER BY seq_in_index"
)
_NEXT: Final = sa.text(
    f"SELECT auto_increment FROM information_schema.tables WHERE table_schema = {_HERE} AND table_name = :name"
)
_REFERENCES: Final = sa.text(
    "SELECT DISTINCT table_schema AS place, table_name AS name, table_schema = DATABASE() AS here"
    " FROM information_schema.key_column_usage"
    f" WHERE referenced_table_schema = {_HERE} AND referenced_table_name = :name"
)
_CONNECTED: Final = sa.text(
    "SELECT EXISTS (SELECT 1 FROM information_schema.statistics"
    f" WHERE table_schema = {_HERE} AND table_name = :name AND non_unique = 0 AND index_name <> 'PRIMARY')"
    " OR EXISTS (SELECT 1 FROM information_schema.triggers"
    f" WHERE event_object_schema = {_HERE} AND event_object_table = :name)"
    # Without the privilege TRIGGER the server does not show the triggers of a table.
    " OR NOT EXISTS (SELECT 1 FROM information_schema.user_privileges WHERE privilege_type = 'TRIGGER')"
    " AND NOT EXISTS (SELECT 1 FROM information_schema.schema_privileges"
    f" WHERE privilege_type = 'TRIGGER' AND {_HERE} LIKE table_schema)"
    " AND NOT EXISTS (SELECT 1 FROM information_schema.table_privileges"
    f" WHERE privilege_type = 'TRIGGER' AND table_schema = {_HERE} AND table_name = :name) AS connected"
)

_MOST_COLUMNS: Final = 64
"""With so many columns a row fits into a page, whatever its values are: InnoDB stores up to 40
bytes of a long value in the row.
"""
_PLAIN: Final = sa.text(
    "SELECT t.engine = 'InnoDB' AND t.row_format = 'Dynamic' AND t.table_type = 'BASE TABLE'"
    " AND coalesce(t.create_options, '') NOT LIKE '%partitioned%'"
    f" AND (SELECT count(*) FROM information_schema.columns c WHERE c.table_schema = {_HERE} AND c.table_name = :name) <= {_MOST_COLUMNS}"
    " AND NOT EXISTS (SELECT 1 FROM information_schema.table_constraints c"
    f" WHERE c.table_schema = {_HERE} AND c.table_name = :name AND c.constraint_type = 'CHECK')"
    " AND NOT EXISTS (SELECT 1 FROM information_schema.statistics s"
    f" WHERE s.table_schema = {_HERE} AND s.table_name = :name AND s.column_name IS NULL) AS plain"
    f" FROM information_schema.tables t WHERE t.table_schema = {_HERE} AND t.table_name = :name"
)
_MISSING_PRIVILEGES: Final = frozenset({1142, 1143})


def read_table(connection: sa.Connection, schema: str, table: str) -> TargetTable | None:
    """The target's table for a table of the publisher; see
    :mod:`subscriber.targets.mariadb.target`.

    None if it does not exist.

    Raises:
        TargetUnavailable: the table is being altered; a later attempt can succeed.
    """
    for database, name in _places(schema, table):
        if max(name) > _LAST_OF_A_NAME:
            continue  # the server cannot even compare such a name
        found = _answer(connection, _RELATION, {"database": database, "name": name})
        # The server may ignore case when it compares names.
        exact = [row for row in found if row.name == name]
        if exact:
            return _table(connection, database, name, _kind(exact[0]))
    return None


def _table(connection: sa.Connection, database: str | None, name: str, kind: TableKind) -> TargetTable:
    place = {"database": database, "name": name}
    columns = _answer(connection, _COLUMNS, place)
    # In a system-versioned table every key contains the end of the row's period. It is the same for
    # all current rows.
    period = {row.name for row in columns if row.generated == "ROW END"}
    key = tuple(row.name for row in _answer(connection, _KEY, place) if row.name not in period)
    return TargetTable(database, name, tuple(_column(row, key) for row in columns), key or None, kind)


def _answer(connection: sa.Connection, query: sa.TextClause, place: Mapping[str, str | None]) -> Sequence[sa.Row[Any]]:
    """The rows of a query about one table, if the result is complete.

    A table that is missing in an incomplete result must not be treated as a table that does not
    exist.

    Raises:
        TargetUnavailable: a table is being altered, so the result is not complete.
    """
    result = connection.execute(query, place)
    rows = result.all()
    # The result contains the number of warnings. It is almost always 0, and then no query is
    # needed.
    if result.context.cursor.warning_count and any(
        warning.Code == _SKIPPED for warning in connection.exec_driver_sql("SHOW WARNINGS")
    ):
        raise TargetUnavailable(
            f'the definition of table "{place["name"]}" cannot be read while a table is being altered',
            hint="It is retried; SHOW PROCESSLIST in the target shows which session alters the table, and what that session waits for.",
        )
    return rows


def _places(schema: str, table: str) -> Iterator[tuple[str | None, str]]:
    if schema == "public":
        yield None, table
        return
    yield None, f"{schema}.{table}"
    if schema.lower() not in _SYSTEM:
        yield schema, table


def _kind(row: sa.Row[Any]) -> TableKind:
    if row.type not in ("BASE TABLE", "SYSTEM VERSIONED"):
        return "view" if row.type == "VIEW" else "other"
    return "table" if row.transactions == "YES" else "non-transactional table"


def _column(row: sa.Row[Any], key: tuple[str, ...]) -> TargetColumn:
    nullable = row.nullable == "YES"
    inexact = row.name in key and row.collation is not None and not row.collation.endswith(_BINARY)
    return TargetColumn(
        name=row.name,
        declared_type=row.declared,
        storage=row.storage + (values.INEXACT_KEY if inexact else ""),
        nullable=nullable,
        generated=bool(row.generated),
        # If NULL is written to a TIMESTAMP column that is NOT NULL, it may become the current time.
        null_is_generated="auto_increment" in row.extra or (row.storage == "timestamp" and not nullable),
        required=not nullable and row.value is None and not row.generated and "auto_increment" not in row.extra,
    )


def is_connected(connection: sa.Connection, table: TargetTable) -> bool:
    """Whether the table has a trigger, or a unique key beside the primary key.

    Also true if this user may not see the table's triggers.
    """
    place = {"database": table.schema, "name": table.name}
    return any(row.connected for row in _answer(connection, _CONNECTED, place))


def is_plain(connection: sa.Connection, table: TargetTable) -> bool:
    """Whether the table has no CHECK constraint, no partitions and no index of an expression, and
    each row of short values fits into a page.
    """
    place = {"database": table.schema, "name": table.name}
    return any(row.plain for row in _answer(connection, _PLAIN, place))


def may_write(connection: sa.Connection, table: TargetTable) -> bool:
    """Whether this user may insert, update and delete all columns of the table."""
    clause, nothing = table.clause(), sa.literal_column("1") == sa.literal_column("0")
    columns = [clause.c[column.name] for column in table.columns]
    nothing_new = sa.select(*columns).where(nothing)
    try:
        connection.execute(sa.insert(clause).from_select(columns, nothing_new))
        connection.execute(sa.update(clause).values({column: column for column in columns}).where(nothing))
        connection.execute(sa.delete(clause).where(nothing))
    except sa.exc.DBAPIError as error:
        if error.orig is not None and error.orig.args[0] in _MISSING_PRIVILEGES:
            return False
        raise
    return True


def has_inexact_key(table: TargetTable) -> bool:
    """Whether two values that differ in PostgreSQL may be equal in a column of the key."""
    return any(column.name in (table.key or ()) and values.INEXACT_KEY in column.storage for column in table.columns)


def counts(column: TargetColumn) -> bool:
    """Whether the column is an AUTO_INCREMENT column."""
    return column.null_is_generated and column.storage not in values.TIMES


def next_auto_increment(connection: sa.Connection, table: TargetTable) -> int:
    """The next value of a table's AUTO_INCREMENT."""
    return int(connection.execute(_NEXT, {"database": table.schema, "name": table.name}).scalar_one() or 1)


def check_references(connection: sa.Connection, table: TargetTable, truncated: Sequence[TargetTable]) -> None:
    """Refuse to truncate a table that is referenced by a table that is not truncated too (rule
    C30).

    Raises:
        ConflictError: 0A000, with the name of a table that references it.
        TargetUnavailable: a table is being altered, so it is not known whether it references the
            table.
    """
    rows = _answer(connection, _REFERENCES, {"database": table.schema, "name": table.name})
    gone = {(other.schema, other.name) for other in truncated}
    left = [row.name for row in rows if not {(row.place, row.name), (None if row.here else row.place, row.name)} & gone]
    if left:
        raise ConflictError(
            "cannot truncate a table referenced in a foreign key constraint",
            sqlstate="0A000",
            detail=f'Table "{min(left)}" references "{table.name}".',
            hint="Truncate the referencing table at the publisher in the same command.",
        )
