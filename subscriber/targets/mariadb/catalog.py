"""What MariaDB's ``information_schema`` says about tables and AUTO_INCREMENT counters."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from typing_extensions import override

from subscriber.base.errors import TargetUnavailable
from subscriber.postgres.schema.shape import SequencePosition
from subscriber.targets.base.catalog import Sequences, Shapes, TableRange, TableReader, by_table, ranges_of
from subscriber.targets.mariadb.transactions import facts_of
from subscriber.targets.mariadb.values import INEXACT_KEY, INTEGERS, TIMES, greatest_integer
from subscriber.targets.target_table import TableKind, TargetColumn, TargetSequence, TargetTable, UniqueIndex

_SYSTEM: Final = frozenset({"information_schema", "mysql", "performance_schema", "sys"})
_BINARY: Final = ("_bin", "binary")
_LAST_OF_A_NAME: Final = "\uffff"
_SKIPPED: Final = 1684
"""The warning that a table is missing in a result, because another session alters it."""

_HERE: Final = "COALESCE(:database, DATABASE())"
NAMES: Final[sa.BindParameter[Any]] = sa.bindparam("names", expanding=True)
_RELATIONS: Final = sa.text(
    "SELECT t.table_name AS name, t.table_type AS type, e.transactions AS transactions FROM information_schema.tables t"
    f" LEFT JOIN information_schema.engines e ON e.engine = t.engine WHERE t.table_schema = {_HERE} AND t.table_name IN :names"
).bindparams(NAMES)
_COLUMNS: Final = sa.text(
    "SELECT table_name AS place, column_name AS name, column_type AS declared, data_type AS storage, is_nullable AS nullable, extra AS extra,"
    " collation_name AS collation, generation_expression AS generation, column_default AS value FROM information_schema.columns"
    f" WHERE table_schema = {_HERE} AND table_name IN :names ORDER BY ordinal_position"
).bindparams(NAMES)
_KEYS: Final = sa.text(
    "SELECT table_name AS place, column_name AS name FROM information_schema.statistics"
    f" WHERE table_schema = {_HERE} AND table_name IN :names AND index_name = 'PRIMARY' ORDER BY seq_in_index"
).bindparams(NAMES)
_NEXT: Final = re.compile(r"^\)[^']*?\bAUTO_INCREMENT ?= ?(\d+)", re.MULTILINE)
"""The next value in a statement of SHOW CREATE TABLE, which has none below 2."""
_REFERENCES: Final = sa.text(
    "SELECT DISTINCT table_schema AS place, table_name AS name, table_schema = DATABASE() AS here"
    " FROM information_schema.key_column_usage"
    f" WHERE referenced_table_schema = {_HERE} AND referenced_table_name = :name"
)
_TRIGGER: Final = (
    "EXISTS (SELECT 1 FROM information_schema.triggers"
    f" WHERE event_object_schema = {_HERE} AND event_object_table = :name)"
    # Without the privilege TRIGGER the server does not show the triggers of a table.
    " OR NOT EXISTS (SELECT 1 FROM information_schema.user_privileges WHERE privilege_type = 'TRIGGER')"
    " AND NOT EXISTS (SELECT 1 FROM information_schema.schema_privileges"
    f" WHERE privilege_type = 'TRIGGER' AND {_HERE} LIKE table_schema)"
    " AND NOT EXISTS (SELECT 1 FROM information_schema.table_privileges"
    f" WHERE privilege_type = 'TRIGGER' AND table_schema = {_HERE} AND table_name = :name)"
)
_MAY_FIRE: Final = sa.text(f"SELECT {_TRIGGER} AS fires")
_CONNECTED: Final = sa.text(
    "SELECT EXISTS (SELECT 1 FROM information_schema.statistics"
    f" WHERE table_schema = {_HERE} AND table_name = :name AND non_unique = 0 AND index_name <> 'PRIMARY')"
    f" OR {_TRIGGER} AS connected"
)

_MOST_COLUMNS: Final = 64
"""A row of so many columns fits into a page, where a long value takes up to 40 bytes (InnoDB)."""
_PLAIN: Final = sa.text(
    "SELECT t.engine = 'InnoDB' AND t.row_format = 'Dynamic' AND t.table_type = 'BASE TABLE'"
    " AND NOT EXISTS (SELECT 1 FROM information_schema.partitions p"
    f" WHERE p.table_schema = {_HERE} AND p.table_name = :name AND p.partition_name IS NOT NULL)"
    f" AND (SELECT count(*) FROM information_schema.columns c WHERE c.table_schema = {_HERE} AND c.table_name = :name) <= {_MOST_COLUMNS}"
    " AND NOT EXISTS (SELECT 1 FROM information_schema.table_constraints c"
    f" WHERE c.table_schema = {_HERE} AND c.table_name = :name AND c.constraint_type = 'CHECK')"
    " AND NOT EXISTS (SELECT 1 FROM information_schema.statistics s"
    f" WHERE s.table_schema = {_HERE} AND s.table_name = :name AND s.column_name IS NULL) AS plain"
    f" FROM information_schema.tables t WHERE t.table_schema = {_HERE} AND t.table_name = :name"
)
_MISSING_PRIVILEGES: Final = frozenset({1142, 1143})


def read_tables(connection: sa.Connection, tables: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], TargetTable]:
    found: dict[tuple[str, str], TargetTable] = {}
    # The server cannot even compare a name with other characters.
    left = [
        (asked, [place for place in _places(connection, *asked) if max(place[1]) <= _LAST_OF_A_NAME])
        for asked in dict.fromkeys(tables)
    ]
    while left := [(asked, places) for asked, places in left if places and asked not in found]:
        wanted: dict[str | None, list[str]] = defaultdict(list)
        for _, ((database, name), *_others) in left:
            wanted[database].append(name)
        read = {database: _tables(connection, database, names) for database, names in wanted.items()}
        found |= {asked: read[database][name] for asked, ((database, name), *_) in left if name in read[database]}
        left = [(asked, others) for asked, (_, *others) in left]
    return found


def _tables(connection: sa.Connection, database: str | None, names: Sequence[str]) -> Mapping[str, TargetTable]:
    # The server may ignore case when it compares names.
    relations = {row.name: row for row in _answer(connection, _RELATIONS, database, names)}
    exact = [name for name in names if name in relations]
    if not exact:
        return {}
    columns = by_table(_answer(connection, _COLUMNS, database, exact))
    keys = by_table(_answer(connection, _KEYS, database, exact))
    return {name: _table(database, name, columns[name], keys[name], _kind(relations[name])) for name in exact}


def _table(
    database: str | None, name: str, columns: Sequence[sa.Row[Any]], keys: Sequence[sa.Row[Any]], kind: TableKind
) -> TargetTable:
    # In a system-versioned table every key contains the end of the row's period. It is the same for
    # all current rows.
    period = {row.name for row in columns if row.generation == "ROW END"}
    # MySQL gives a table without a key this one, if it is told to.
    columns = [row for row in columns if not _is_generated_key(row)]
    known = {row.name for row in columns}
    key = tuple(row.name for row in keys if row.name not in period and row.name in known)
    return TargetTable(database, name, tuple(_column(row, key) for row in columns), key or None, kind)


def _is_generated_key(row: sa.Row[Any]) -> bool:
    extra = row.extra.lower()
    return row.name == "my_row_id" and "auto_increment" in extra and "invisible" in extra


def _answer(
    connection: sa.Connection, query: sa.TextClause, database: str | None, names: str | Sequence[str]
) -> Sequence[sa.Row[Any]]:
    """Rows of a query about tables. In an incomplete result an existing table may be missing."""
    result = connection.execute(query, {"database": database, "name" if isinstance(names, str) else "names": names})
    rows = result.all()
    if result.context.cursor.warning_count and any(
        warning.Code == _SKIPPED for warning in connection.exec_driver_sql("SHOW WARNINGS")
    ):
        asked = [names] if isinstance(names, str) else names
        what = f'the definition of table "{asked[0]}"' if len(asked) == 1 else "the definitions of tables"
        raise TargetUnavailable(
            f"{what} cannot be read while a table is being altered",
            hint="It is retried; SHOW PROCESSLIST in the target shows which session alters the table, and what that session waits for.",
        )
    return rows


def _places(connection: sa.Connection, schema: str, table: str) -> Iterator[tuple[str | None, str]]:
    if facts_of(connection.dialect).lower_case_tables:
        schema, table = schema.lower(), table.lower()
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
        storage=row.storage + (INEXACT_KEY if inexact else ""),
        nullable=nullable,
        generated=bool(row.generation),
        # If NULL is written to a TIMESTAMP column that is NOT NULL, it may become the current time.
        null_is_generated="auto_increment" in row.extra or (row.storage == "timestamp" and not nullable),
        required=not nullable and row.value is None and not row.generation and "auto_increment" not in row.extra,
    )


def is_connected(connection: sa.Connection, table: TargetTable) -> bool:
    """Whether the table may have a trigger, or has a unique key beside the primary key."""
    return any(row.connected for row in _answer(connection, _CONNECTED, table.schema, table.name))


def may_have_trigger(connection: sa.Connection, table: TargetTable) -> bool:
    return any(row.fires for row in _answer(connection, _MAY_FIRE, table.schema, table.name))


def is_plain(connection: sa.Connection, table: TargetTable) -> bool:
    """Whether it has no CHECK, partition or index of an expression, and short values fit."""
    return any(row.plain for row in _answer(connection, _PLAIN, table.schema, table.name))


def may_write(connection: sa.Connection, table: TargetTable) -> bool:
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
    return any(column.name in (table.key or ()) and INEXACT_KEY in column.storage for column in table.columns)


def counts(column: TargetColumn) -> bool:
    return column.null_is_generated and column.storage not in TIMES


def next_auto_increment(connection: sa.Connection, table: TargetTable) -> int:
    """Not every server has it in ``information_schema``."""
    name = connection.dialect.identifier_preparer.format_table(table.clause())
    found = _NEXT.search(connection.exec_driver_sql(f"SHOW CREATE TABLE {name}").one()[1])
    return 1 if found is None else int(found[1])


def references_to(connection: sa.Connection, table: TargetTable, truncated: Sequence[TargetTable]) -> set[str]:
    """The tables that reference a table, without those that are truncated too (rule C30)."""
    rows = _answer(connection, _REFERENCES, table.schema, table.name)
    gone = {(other.schema, other.name) for other in truncated}
    return {row.name for row in rows if not {(row.place, row.name), (None if row.here else row.place, row.name)} & gone}


# Shapes ----------------------------------------------------------------------------------------


class MariaDBShapes(Shapes):
    @override
    def reflect_all(
        self, connection: sa.Connection, tables: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], TargetTable]:
        with self._errors.reporting():
            return read_tables(connection, tables)

    @override
    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """Servers write them in different ways into SHOW CREATE TABLE, which SQLAlchemy reads."""
        name = connection.dialect.identifier_preparer.format_table(table.clause())
        found: dict[str, list[str]] = {}
        with self._errors.reporting():
            rows = connection.exec_driver_sql(f"SHOW INDEX FROM {name} WHERE non_unique = 0").mappings().all()
        of_expressions = {row["Key_name"] for row in rows if row.get("Expression") or row["Column_name"] is None}
        for row in rows:
            columns = found.setdefault(row["Key_name"], [])
            if table.column(row["Column_name"] or "") is not None:  # not the period of a system-versioned table
                columns.append(row["Column_name"])
        return [
            UniqueIndex(f"{table.name}_pkey" if name == "PRIMARY" else name, tuple(columns))
            for name, columns in found.items()
            if columns and name not in of_expressions
        ]

    @override
    def order_matters(self, connection: sa.Connection, table: TargetTable) -> bool:
        """Foreign keys are not checked in the subscriber's sessions."""
        with self._errors.reporting():
            return has_inexact_key(table) or is_connected(connection, table)

    @override
    def refuses_rows(self, connection: sa.Connection, table: TargetTable) -> bool:
        if any(column.generated for column in table.columns):
            return True
        with self._errors.reporting():
            return not is_plain(connection, table) or not may_write(connection, table)


# Sequences -------------------------------------------------------------------------------------


class MariaDBSequences(Sequences):
    @override
    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """The values advance by the server's ``auto_increment_increment``."""
        found = table.column(column)
        if found is None or not counts(found):
            return None
        with self._errors.reporting():
            following = next_auto_increment(connection, table)
        position = SequencePosition(last_value=max(1, following - 1), is_called=following > 1)
        name = f"{table.schema or ''}.{table.name}"
        return TargetSequence(name, position, 1, greatest_integer(found), table)

    @override
    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """ALTER TABLE commits. The server raises the value above the table's largest."""
        assert sequence.table is not None
        name = connection.dialect.identifier_preparer.format_table(sequence.table.clause())
        with self._errors.reporting():
            connection.exec_driver_sql(f"ALTER TABLE {name} AUTO_INCREMENT = {position.next_value}")


# Reading ---------------------------------------------------------------------------------------


class MariaDBTableReader(TableReader):
    @override
    def ranges(self, connection: sa.Connection, table: TargetTable, count: int) -> Sequence[TableRange]:
        if table.key is None or len(table.key) != 1:
            return ()
        column = table.column(table.key[0])
        return ranges_of(connection, table, column.name, count) if column and column.storage in INTEGERS else ()

    @override
    def value(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """Decimals as text, because the driver would make an object of each."""
        if column.storage != "decimal":
            return super().value(column)
        return sa.cast(sa.column(column.name), sa.CHAR()).label(column.name)
