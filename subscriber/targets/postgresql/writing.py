r"""Statements that write to PostgreSQL, for one row and for many.

Rows are found by the server's operators, with an empty search_path (rule C23). Tables are loaded
with COPY, which reads the publisher's text unchanged. Other rows are texts that the server reads:

::

    copy_data      1\tO'Neil\t\N\n                     a tab between values, \N for NULL, a row is a line
    row_array      {"(1,O'Neil,)","(2,\"a,b\",)"}      a comma between values, nothing for NULL

https://www.postgresql.org/docs/current/sql-copy.html, "Text Format";
https://www.postgresql.org/docs/current/rowtypes.html, "Composite Type Input and Output Syntax";
https://www.postgresql.org/docs/current/arrays.html, "Array Input and Output Syntax".

Bulk writes are COPY for new rows, and a join with an array of rows for the others::

    COPY t (a, b) FROM STDIN
    UPDATE ONLY t SET b = s.b FROM unnest('{"(1,x)","(2,y)"}'::t[]) AS s WHERE t.a = s.a
    DELETE FROM ONLY t USING unnest('{"(1,)","(2,)"}'::t[]) AS s WHERE t.a = s.a

The array is one parameter, and its elements have the type of the table's rows. So the server reads
each value with the input function and the modifier of its column, as PostgreSQL's apply worker
does, and gives it the column's collation (docs/decisions.md has the alternatives).

Invariants:

- A table with a trigger that fires is written row by row: a trigger may read the table, and may
  count statements.
- A key is compared by :meth:`Matching.finds`, as in a statement for one row.
- No parameter is longer than a few megabytes, unless a few values are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from typing_extensions import override

from subscriber.base.errors import ApplyError, ConflictError, TargetRelationError
from subscriber.postgres.types.equality import EXACT, NONE, Equality
from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from subscriber.postgres.types.registry import equality_of
from subscriber.targets.base.errors import Errors
from subscriber.targets.base.loading import (
    BlockFormat,
    Bulk,
    BulkColumn,
    LoadColumn,
    Loading,
    copy_data,
    escaped,
    parts,
)
from subscriber.targets.base.transactions import Origins
from subscriber.targets.base.writing import Matching, Touching, Writing, named, referenced
from subscriber.targets.declared_columns import Declared
from subscriber.targets.postgresql.catalog import PostgreSQLColumn, PostgreSQLTable, takes_many_rows
from subscriber.targets.postgresql.errors import translate_copy
from subscriber.targets.postgresql.transactions import PostgreSQLTransactions
from subscriber.targets.postgresql.values import column_texts
from subscriber.targets.target_table import LeafRouting, TargetColumn, TargetTable

_WITHOUT_EQUALITY: Final = frozenset({type_name(oid) for oid in BUILT_IN_TYPES if not equality_of(oid).exists})

_TEXTS: Final = frozenset({"text", "character varying"})


class PostgreSQLMatching(Matching):
    @override
    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """The server compares by the type of the target's column, if this type has an equality."""
        # The publisher's type.
        return NONE if column.storage in _WITHOUT_EQUALITY else EXACT

    @override
    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        """varchar and text are the same type in this respect."""
        names = {column.storage, type_name(type_oid)}
        return len(names) == 1 or names <= _TEXTS

    @override
    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """A trigger with UPDATE OF a key column fires, as in PostgreSQL's apply worker."""
        return False

    @override
    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """An empty search_path does not find an extension's operator without its schema (C23)."""
        typed = _typed(column, value)
        operator = _own_operator(column)
        if operator is None:
            return clause == typed
        return clause.bool_op(f"OPERATOR({operator})")(typed)

    @override
    def is_same(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """A type with its own operator is compared as a record: in any schema, NULL equals NULL."""
        typed = _typed(column, value)
        if _own_operator(column) is None:
            return super().is_same(column, clause, typed)
        return _record(_typed(column, clause)) == _record(typed)

    @override
    def routing(self, table: TargetTable) -> LeafRouting | None:
        return table.routing if isinstance(table, PostgreSQLTable) else None

    @override
    def own_rows(self, table: TargetTable, statement: Touching, clause: sa.FromClause) -> Touching:
        if table.kind == "partitioned table":
            return statement
        if isinstance(statement, sa.Select):
            return statement.with_hint(clause, "ONLY", "postgresql")
        return statement.with_hint("ONLY", dialect_name="postgresql")


def _typed(column: TargetColumn, value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """A value as the column would store it, where the operator does not round it."""
    compared_as = column.compared_as if isinstance(column, PostgreSQLColumn) else None
    return value if compared_as is None else sa.cast(value, Declared(compared_as.replace("%", "%%")))


def _own_operator(column: TargetColumn) -> str | None:
    return column.own_operator if isinstance(column, PostgreSQLColumn) else None


def _record(value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.cast(sa.func.row(value), Declared("record"))


# Writing ---------------------------------------------------------------------------------------

_ACTING: Final = sa.text(
    # The foreign keys that a DELETE of this session would obey by changing rows of other tables.
    "SELECT r.relname, f.conrelid = f.confrelid FROM pg_constraint f JOIN pg_class r ON r.oid = f.conrelid"
    " JOIN pg_class c ON c.oid = f.confrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE f.contype = 'f' AND f.confdeltype IN ('c', 'n', 'd')"
    " AND current_setting('session_replication_role') <> 'replica'"
    " AND n.nspname = :schema AND c.relname = :table ORDER BY r.relname"
)
_SEES_A_DELETE: Final = sa.text(
    # Triggers that fire in this session at an INSERT (4), DELETE (8) or UPDATE (16). Those of a
    # foreign key that refers to the table act otherwise at a DELETE, unless both have NO ACTION.
    "SELECT format('trigger \"%s\"', g.tgname) FROM pg_trigger g"
    " LEFT JOIN pg_constraint f ON f.oid = g.tgconstraint AND f.contype = 'f' AND f.confrelid = g.tgrelid"
    " JOIN (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    "  WHERE n.nspname = :schema AND c.relname = :table) t"
    " ON g.tgrelid = t.oid OR g.tgrelid IN (SELECT relid FROM pg_partition_tree(t.oid))"
    " WHERE g.tgtype & 28 > 0 AND (NOT g.tgisinternal OR f.confdeltype <> 'a' OR f.confupdtype <> 'a')"
    " AND position(g.tgenabled::text IN CASE current_setting('session_replication_role') WHEN 'replica' THEN 'RA' ELSE 'OA' END) > 0"
    # What the target publishes in turn.
    " UNION ALL SELECT format('publication \"%s\"', pubname) FROM pg_publication WHERE NOT (pubinsert AND pubupdate AND pubdelete)"
    " ORDER BY 1 LIMIT 1"
)


class PostgreSQLWriting(Writing):
    @override
    def may_suppress(self, table: TargetTable) -> bool:
        return isinstance(table, PostgreSQLTable) and table.may_suppress

    @override
    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """Never with CASCADE (rule C29); partitions too, but not tables that inherit."""
        if not tables:
            return
        quote = connection.dialect.identifier_preparer.format_table
        only = {"partitioned table": ""}
        names = [only.get(table.kind, "ONLY ") + quote(table.clause()) for table in tables]
        identity = "RESTART IDENTITY" if restart_identity else "CONTINUE IDENTITY"
        with self._errors.reporting():
            connection.exec_driver_sql(f"TRUNCATE {', '.join(names)} {identity} RESTRICT")

    @override
    def delete_acts(self, connection: sa.Connection, table: TargetTable) -> bool:
        return bool(self._acting(connection, table))

    def _acting(self, connection: sa.Connection, table: TargetTable) -> Sequence[tuple[str, bool]]:
        """The tables whose foreign keys to ``table`` act, and whether each is the table itself."""
        with self._errors.reporting():
            rows = connection.execute(_ACTING, {"schema": table.schema, "table": table.name})
            return [(other, is_same) for other, is_same in rows]

    @override
    def delete_all(self, connection: sa.Connection, table: TargetTable) -> None:
        """TRUNCATE would lock out readers. Foreign keys must not act on other tables."""
        if not isinstance(table, PostgreSQLTable):
            super().delete_all(connection, table)
            return
        only = "" if table.kind == "partitioned table" else "ONLY "
        name = connection.dialect.identifier_preparer.format_table(table.clause())
        acting = [other for other, is_same in self._acting(connection, table) if not is_same]
        if acting:
            raise referenced(table, f'Table "{acting[0]}" references "{table.name}", with an action ON DELETE.')
        try:
            with self._errors.reporting():
                connection.exec_driver_sql(f"DELETE FROM {only}{name}")
                left = table.may_suppress and table.has_rows(connection)
        except ConflictError as error:
            raise named(error, table) from None
        if left:
            raise TargetRelationError(
                f'the rows of table "{table.name}" cannot be replaced, because a trigger has left some of them',
                sqlstate="55000",
                hint=f"Run at the target: ALTER TABLE {name} DISABLE TRIGGER USER. Enable the triggers when the table is copied.",
            )

    @override
    def override_identity(self, insert: str) -> str:
        # Only placeholders follow the last VALUES or SELECT, so it cannot be part of a name.
        place = max(insert.rfind(" VALUES ("), insert.rfind(" SELECT "))
        if place < 0 or insert.endswith(" DEFAULT VALUES"):
            return insert
        return f"{insert[:place]} OVERRIDING SYSTEM VALUE{insert[place:]}"

    @override
    def replacement_error(self, connection: sa.Connection, table: TargetTable) -> TargetRelationError | None:
        """An error where somebody sees that the row was deleted."""
        with self._errors.reporting():
            sees = connection.execute(_SEES_A_DELETE, {"schema": table.schema, "table": table.name}).scalar()
        if sees is None:
            return None
        preparer = connection.dialect.identifier_preparer
        column = next(column.name for column in table.columns if column.identity_always)
        alter = f"ALTER TABLE {preparer.format_table(table.clause())} ALTER COLUMN {preparer.quote(column)}"
        return TargetRelationError(
            f'column "{column}" can only be updated to DEFAULT',
            sqlstate="428C9",
            detail=f'Column "{column}" is an identity column defined as GENERATED ALWAYS. The row cannot be deleted'
            f" and inserted instead, because {sees} of the target would act on that.",
            hint=f"Run at the target: {alter} SET GENERATED BY DEFAULT;".replace("%%", "%"),
            relation=f"{table.schema}.{table.name}",
            column=column,
        )


# Loading ---------------------------------------------------------------------------------------

_SAME_IN_BINARY: Final = frozenset(
    {16, 17, 20, 21, 23, 25, 114, 700, 701, 1043, 1082, 1083, 1114, 1184, 1700, 2950, 3802}
)
"""Their binary format is the same in all versions, with the same checks, length and scale. A server
before version 17 reads a newer interval's infinity as a number of years.
"""
_BINARY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_BINARY_END: Final = b"\xff\xff"


class PostgreSQLLoading(Loading):
    @override
    def block_format(self, columns: Sequence[LoadColumn]) -> BlockFormat:
        """Binary, where it means the same, takes the server little more than half the time."""
        same = all(
            load.type_oid in _SAME_IN_BINARY and load.column.storage == type_name(load.type_oid) and not load.replaced
            for load in columns
        )
        return "binary" if columns and same else "text"

    @override
    @contextmanager
    def loader(
        self, connection: sa.Connection, table: TargetTable, columns: Sequence[LoadColumn]
    ) -> Iterator[Callable[[bytes], None]]:
        if not columns:
            # COPY cannot express rows without any given column.
            yield lambda block: self._insert_defaults(connection, table, block.count(b"\n"))
            return
        names = [load.column.name for load in columns]
        binary = self.block_format(columns) == "binary"
        with copying(connection, table, names, " (FORMAT binary)" if binary else "") as write:
            if binary:
                write(_BINARY_HEADER)
            yield write
            if binary:
                write(_BINARY_END)

    def _insert_defaults(self, connection: sa.Connection, table: TargetTable, count: int) -> None:
        into = connection.dialect.identifier_preparer.format_table(table.clause())
        with self._errors.reporting():
            connection.exec_driver_sql(f"INSERT INTO {into} SELECT FROM generate_series(1, {count})")


@contextmanager
def copying(
    connection: sa.Connection, table: TargetTable, names: Sequence[str], options: str = ""
) -> Iterator[Callable[[bytes], None]]:
    """A COPY into columns of a table; gives the function that sends a part of its data."""
    preparer = connection.dialect.identifier_preparer
    into = preparer.format_table(table.clause())
    command = f"COPY {into} ({', '.join(map(preparer.quote, names))}) FROM STDIN{options}"
    command = command.replace("%%", "%")  # a name is quoted for a statement with parameters
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(command.encode()) as copy:
            yield copy.write
    except connection.dialect.loaded_dbapi.Error as error:
        # The driver's error quotes rows, so it must not be printed as the cause.
        raise translate_copy(error, table.name, names) from None


# Row texts -------------------------------------------------------------------------------------

_IN_ROW: Final = b'\\",()'
"""A value that is empty, or has one of these, is quoted in a row."""


def row_array(columns: Sequence[pa.Array | None]) -> str:
    values = ["" if one is None else _quoted(one) for one in columns]
    rows = pc.binary_join_element_wise(*values, ",", null_handling="replace", null_replacement="")
    return '{"(' + ')","('.join(rows.to_pylist()) + ')"}'


def _quoted(texts: pa.Array) -> pa.Array:
    """Values of a row that is itself quoted as an element of an array."""
    quoted = escaped(texts, _IN_ROW, (("\\", "\\\\\\\\"), ('"', '\\\\\\"')))
    if quoted is texts and not pc.any(pc.equal(pc.binary_length(texts), 0)).as_py():
        return texts
    return pc.binary_join_element_wise('\\"', quoted, '\\"', "")


# Bulk ------------------------------------------------------------------------------------------

_LEAST_ROWS: Final = 8
"""From this many rows on one statement is quicker than a statement for each row."""
_MOST_CHARACTERS: Final = 2**28
"""The length of the longest array. The server's limit is 1 GiB, and a lost connection."""
_ROWS: Final = "subscriber_rows"


class PostgreSQLBulk(Bulk):
    def __init__(
        self,
        engine: sa.Engine,
        errors: Errors,
        transactions: PostgreSQLTransactions,
        matching: Matching,
        origins: Origins,
    ) -> None:
        self._engine = engine
        self._errors = errors
        self._transactions = transactions
        self._matching = matching
        self._origins = origins

    @override
    def least_rows(self, connection: sa.Connection, table: TargetTable, key: Sequence[LoadColumn]) -> int | None:
        """None where only the partitions have keys."""
        if key and self._matching.routing(table) is not None:
            return None
        if not all(self._matching.tells_apart(one.type_oid, one.column) for one in key):
            return None
        with self._errors.reporting():
            takes = takes_many_rows(connection, table, fires=self._transactions.fires, as_rows=bool(key))
        return _LEAST_ROWS if takes else None

    @override
    def insert(self, connection: sa.Connection, table: TargetTable, written: Sequence[BulkColumn]) -> int:
        with copying(connection, table, [one.column.name for one in written]) as write:
            for part in parts(written):
                write(copy_data([column_texts(one.column, one.values) for one in part]))
        return len(written[0].values)

    @override
    def update(
        self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn], written: Sequence[BulkColumn]
    ) -> int:
        """A row that has nothing to set gets a new version, too."""
        clause, rows = table.clause(), self._rows(table)
        columns = {one.column.name: one for one in key}
        for one in written:
            own = columns.setdefault(one.column.name, one)
            if not own.values.equals(one.values):
                raise ValueError("an UPDATE of many rows cannot change their key")
        new: dict[str, Any] = {one.column.name: rows.c[one.column.name] for one in written}
        same = key[0].column.name
        statement = sa.update(clause).values(new or {same: clause.c[same]})
        found = statement.where(*self._found(connection, clause, rows, key))
        return self._run(connection, table, self._matching.own_rows(table, found, clause), list(columns.values()))

    @override
    def delete(self, connection: sa.Connection, table: TargetTable, key: Sequence[BulkColumn]) -> int:
        clause = table.clause()
        found = sa.delete(clause).where(*self._found(connection, clause, self._rows(table), key))
        return self._run(connection, table, self._matching.own_rows(table, found, clause), key)

    def _rows(self, table: TargetTable) -> sa.TableValuedAlias:
        """The rows of the array, with the table's columns. Their type has the table's name."""
        row_type = self._engine.dialect.identifier_preparer.format_table(table.clause())
        array = sa.cast(sa.bindparam(None, type_=sa.types.NullType()), Declared(f"{row_type}[]"))
        return sa.func.unnest(array).table_valued(*(column.name for column in table.columns), name=_ROWS)

    def _found(
        self, connection: sa.Connection, clause: sa.TableClause, rows: sa.FromClause, key: Sequence[BulkColumn]
    ) -> Iterator[sa.ColumnElement[bool]]:
        """The key of a row is in the array, and no other origin wrote the row last."""
        for one in key:
            name = one.column.name
            yield self._matching.finds(one.column, clause.c[name], rows.c[name])
        differs = self._origins.others(connection)
        if differs is not None:
            yield differs.is_not(sa.true())

    def _run(
        self, connection: sa.Connection, table: TargetTable, statement: sa.UpdateBase, columns: Sequence[BulkColumn]
    ) -> int:
        sql = str(statement.compile(dialect=self._engine.dialect))
        found = 0
        for part in parts(columns):
            texts = {one.column.name: column_texts(one.column, one.values) for one in part}
            array = row_array([texts.get(column.name) for column in table.columns])
            if len(array) > _MOST_CHARACTERS:
                raise ApplyError("the values are too long for one statement", sqlstate="54000")
            with self._errors.reporting():
                found += connection.exec_driver_sql(sql, (array,)).rowcount
        return found
