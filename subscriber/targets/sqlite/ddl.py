"""New tables in SQLite, and the triggers that record deleted rows."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import ExecutableDDLElement
from typing_extensions import override

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.schema.shape import UniqueKey
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.targets.base.ddl import DDL
from subscriber.targets.base.writing import NEW_ROUND, TOLD, DeletedRows, found_by
from subscriber.targets.sqlite.transactions import stored_name
from subscriber.targets.sqlite.values import BLOB, INTEGER, TEXT, affinity, declaration
from subscriber.targets.target_table import AutoIncrement, TargetColumn, TargetTable
from subscriber.targets.translate_expression import TranslationRules


class SQLiteDDL(DDL):
    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self.rules = TranslationRules(quote=engine.dialect.identifier_preparer.quote, distinct="{left} IS NOT {right}")

    @override
    def qualified(self, schema: str, table: str) -> tuple[str | None, str]:
        name = table if schema == "public" else f"{schema}.{table}"
        return None, stored_name(self._engine.dialect, name)

    @override
    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        return declaration(type_oid, type_name)

    @override
    def storage(self, declared: str) -> str:
        return affinity(declared)

    @override
    def literal(self, value: Any) -> str | None:
        match value:
            case bytes():
                return f"X'{value.hex()}'"
            case str() if "\0" not in value:
                return quote_literal(value)
            case _:
                return super().literal(value)

    @override
    def unique_index(self, table: sa.Table, key: UniqueKey) -> ExecutableDDLElement | None:
        """NULLS NOT DISTINCT as an index of expressions: is the column NULL, and its value."""
        if key.deferrable or key.nulls_distinct:
            return None
        quote = self._engine.dialect.identifier_preparer.quote
        name = quote("_".join([table.name, *key.columns, "key"]))
        parts = ", ".join(f"{quote(column)} IS NULL, ifnull({quote(column)}, 0)" for column in key.columns)
        statement = f"CREATE UNIQUE INDEX {name} ON {quote(table.name)} ({parts})"
        return sa.DDL(statement.replace("%", "%%"))  # type: ignore[no-untyped-call]  # SQLAlchemy left it out

    @override
    def auto_increment(self, shape: PublisherTable, column: PublisherColumn, declared: str) -> AutoIncrement | None:
        if shape.key_columns != (column.name,) or affinity(declared) != INTEGER:
            return None
        return AutoIncrement("INTEGER PRIMARY KEY AUTOINCREMENT", is_key=True)


class SQLiteDeletedRows(DeletedRows):
    """A recorded row is a JSON array of the values by which it is found. JSON would round a real
    number, so it is an array with its text. Binary values are not recorded: they find no row.
    """

    transaction = sa.literal_column("0")

    @override
    def are_recorded(self, connection: sa.Connection, table: TargetTable) -> bool:
        query = sa.text("SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name IN (:deleted, :updated)")
        return bool(connection.execute(query, _triggers(table)).scalar_one() == 2)

    @override
    def record(self, connection: sa.Connection, table: TargetTable, relation: str) -> None:
        if table.schema not in (None, "main"):
            raise NotSupportedError(
                f'retain_dead_tuples is not supported for table "{table.schema}.{table.name}"',
                detail="A trigger of an attached database cannot write to the catalog.",
            )
        quote = connection.dialect.identifier_preparer.quote
        names = [quote(name) for name in found_by(table)]
        values = ", ".join(
            f"CASE typeof(OLD.{name}) WHEN 'real' THEN json_array(printf('%!.17g', OLD.{name}))"
            f" WHEN 'blob' THEN NULL ELSE OLD.{name} END"
            for name in names
        )
        insert = (
            "INSERT INTO subscriber_deleted_row (relation, deletedrow, deletedat, transactionid, round)"
            f" VALUES ({quote_literal(relation)}, json_array({values}),"
            f" strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now'), 0, {NEW_ROUND});"
        )
        moved = " OR ".join(f"OLD.{name} IS NOT NEW.{name}" for name in names)
        place = connection.dialect.identifier_preparer.format_table(table.clause())
        triggers = _triggers(table)
        self.forget(connection, table)
        for statement in (
            f"CREATE TRIGGER {quote(triggers['deleted'])} AFTER DELETE ON {place} BEGIN {insert} END",
            f"CREATE TRIGGER {quote(triggers['updated'])} AFTER UPDATE ON {place} WHEN {moved} BEGIN {insert} END",
        ):
            connection.exec_driver_sql(statement)

    @override
    def forget(self, connection: sa.Connection, table: TargetTable) -> None:
        for name in _triggers(table).values():
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {connection.dialect.identifier_preparer.quote(name)}")

    @override
    def rows(self, connection: sa.Connection, table: TargetTable, relation: str) -> sa.Subquery:
        columns = (table.column(name) for name in found_by(table))
        kept = [_recorded(column, place) for place, column in enumerate(columns) if column is not None]
        return (
            sa.select(
                *kept,
                sa.literal_column("deletedat").label(TOLD[0]),
                sa.literal_column("transactionid").label(TOLD[1]),
                sa.literal_column("origin").label(TOLD[2]),
                sa.literal_column("rowid").label(TOLD[3]),
            )
            .select_from(sa.text("subscriber_deleted_row"))
            .where(sa.literal_column("relation") == relation)
            .subquery("subscriber_deleted")
        )


def _triggers(table: TargetTable) -> dict[str, str]:
    return {kind: f"subscriber_{kind}_{table.name}" for kind in ("deleted", "updated")}


def _recorded(column: TargetColumn, place: int) -> sa.ColumnElement[Any]:
    """A value of a recorded row, with the affinity of the column if that converts numbers."""
    text = (
        f"CASE json_type(deletedrow, '$[{place}]') WHEN 'array' THEN CAST(json_extract(deletedrow, '$[{place}][0]') AS REAL)"
        f" ELSE json_extract(deletedrow, '$[{place}]') END"
    )
    numeric = column.storage not in (TEXT, BLOB) and any(word in column.declared_type.upper() for word in _NUMBERS)
    return sa.literal_column(f"CAST({text} AS NUMERIC)" if numeric else text).label(column.name)


_NUMBERS = ("INT", "REAL", "FLOA", "DOUB", "NUM", "DEC")
