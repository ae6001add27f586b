"""What DuckDB's functions say about tables and sequences: ``public`` is ``main``."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from typing_extensions import override

from subscriber.postgres.schema.shape import SequencePosition
from subscriber.targets.base import catalog
from subscriber.targets.base.values import Values
from subscriber.targets.declared_columns import declared_precision
from subscriber.targets.duckdb.errors import DuckDBErrors
from subscriber.targets.duckdb.values import DECIMAL, storage
from subscriber.targets.target_table import TableKind, TargetColumn, TargetSequence, TargetTable, UniqueIndex

_WANTED: Final = "database_name = current_database() AND {} IN (SELECT unnest(CAST(:names AS VARCHAR[])))"
_RELATIONS: Final = sa.text(
    f"SELECT schema_name, table_name, 'table' FROM duckdb_tables() WHERE {_WANTED.format('table_name')}"
    f" UNION ALL SELECT schema_name, view_name, 'view' FROM duckdb_views() WHERE {_WANTED.format('view_name')}"
)
_COLUMNS: Final = sa.text(
    "SELECT (schema_name, table_name) AS place, column_name, data_type, is_nullable, is_generated, column_default IS NOT NULL AS has_default"
    f" FROM duckdb_columns() WHERE {_WANTED.format('table_name')} ORDER BY column_index"
)
_CONSTRAINTS: Final = sa.text(
    # Also foreign keys to the tables, of which the schema is not known.
    "SELECT (schema_name, table_name) AS place, constraint_type AS type, constraint_column_names AS columns, referenced_table"
    f" FROM duckdb_constraints() WHERE constraint_type <> 'NOT NULL' AND (({_WANTED.format('table_name')})"
    f" OR ({_WANTED.format('referenced_table')}))"
)
_INDEXES: Final = sa.text(
    "SELECT (schema_name, table_name) AS place, bool_or(is_unique) AS is_unique FROM duckdb_indexes()"
    f" WHERE {_WANTED.format('table_name')} GROUP BY ALL"
)
_VERSIONS: Final = sa.text(
    # All that the queries above read, as DuckDB itself writes it. A type of the user's is written
    # by its name, and may be another one later.
    "SELECT t.schema_name, t.table_name, t.table_oid, t.sql, i.texts AS indexes, f.tables AS referencing FROM duckdb_tables() t"
    " LEFT JOIN (SELECT schema_name, table_name, list(sql ORDER BY index_name) AS texts FROM duckdb_indexes()"
    f" WHERE {_WANTED.format('table_name')} GROUP BY ALL) i USING (schema_name, table_name)"
    " LEFT JOIN (SELECT referenced_table, list(table_name ORDER BY table_name) AS tables FROM duckdb_constraints()"
    f" WHERE {_WANTED.format('referenced_table')} GROUP BY ALL) f ON f.referenced_table = t.table_name"
    f" WHERE {_WANTED.format('t.table_name')} AND NOT EXISTS (SELECT 1 FROM duckdb_types() WHERE NOT internal)"
)
_UNIQUE_CONSTRAINTS: Final = sa.text(
    "SELECT constraint_name AS name, constraint_column_names AS keys FROM duckdb_constraints()"
    " WHERE database_name = current_database() AND schema_name = :schema AND table_name = :table"
    " AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY constraint_type, constraint_index"
)
_UNIQUE_INDEXES: Final = sa.text(
    "SELECT index_name, expressions FROM duckdb_indexes() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table AND is_unique ORDER BY index_oid"
)
_INDEX_SQL: Final = sa.text(
    "SELECT index_name, sql FROM duckdb_indexes() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table AND is_unique ORDER BY index_oid"
)
_CONNECTING: Final = {"FOREIGN KEY", "UNIQUE"}


@dataclass(frozen=True, slots=True)
class DuckDBTable(TargetTable):
    """It ``is_connected`` by a foreign key, or by a unique key beside the primary key; it
    ``is_checked`` by another constraint than those of columns and the primary key, or by an index.
    """

    is_connected: bool = False
    is_checked: bool = False


class DuckDBShapes(catalog.Shapes):
    @override
    def versions(
        self, connection: sa.Connection, tables: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Hashable]:
        """The definition of a table as text: one query in place of four."""
        places = {(schema, table): (_schema(schema), table) for schema, table in tables}
        with self._errors.reporting():
            rows = connection.execute(_VERSIONS, {"names": [table for _, table in places]}).all()
        found = {(row.schema_name, row.table_name): str(tuple(row)) for row in rows}
        return {asked: found[place] for asked, place in places.items() if place in found}

    @override
    def reflect_all(
        self, connection: sa.Connection, tables: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], TargetTable]:
        places = {(schema, table): (_schema(schema), table) for schema, table in tables}
        names = {"names": [table for _, table in places]}
        with self._errors.reporting():
            kinds: dict[tuple[str, str], TableKind] = {
                (schema, table): kind for schema, table, kind in connection.execute(_RELATIONS, names)
            }
            columns = catalog.by_table(connection.execute(_COLUMNS, names))
            constraints = connection.execute(_CONSTRAINTS, names).all()
            unique = {row.place: bool(row.is_unique) for row in connection.execute(_INDEXES, names)}
        referenced = {one.referenced_table for one in constraints}
        of_table = catalog.by_table(constraints)

        def table(place: tuple[str, str]) -> DuckDBTable:
            types = {one.type: tuple(one.columns) for one in of_table[place]}
            found = _table(place, columns[place], types.pop("PRIMARY KEY", None), kinds[place])
            return replace(
                found,
                is_connected=place[1] in referenced
                or not types.keys().isdisjoint(_CONNECTING)
                or unique.get(place, False),
                is_checked=bool(types) or place in unique,
            )

        return {asked: table(place) for asked, place in places.items() if place in kinds}

    @override
    def order_matters(self, connection: sa.Connection, table: TargetTable) -> bool:
        """DuckDB has no triggers."""
        assert isinstance(table, DuckDBTable)
        return table.is_connected

    @override
    def refuses_rows(self, connection: sa.Connection, table: TargetTable) -> bool:
        """An index limits the length of keys."""
        assert isinstance(table, DuckDBTable)
        return table.is_checked or any(column.generated for column in table.columns)

    @override
    def unique_indexes(self, connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
        """Indexes of expressions are left out."""
        place = {"schema": table.schema, "table": table.name}
        found = [UniqueIndex(row.name, tuple(row.keys)) for row in connection.execute(_UNIQUE_CONSTRAINTS, place)]
        names = {column.name for column in table.columns}
        for name, text in connection.execute(_UNIQUE_INDEXES, place):
            keys = tuple(key.strip('"') for key in text.strip("[]").split(", "))
            if names.issuperset(keys):
                found.append(UniqueIndex(name, keys))
        return found

    @override
    def refused_key_hint(self, connection: sa.Connection, table: TargetTable) -> str | None:
        """The reason is in :mod:`subscriber.targets.duckdb.objects`."""
        place = {"schema": table.schema, "table": table.name}
        quote = connection.dialect.identifier_preparer.quote
        built = [
            f"DROP INDEX {quote(table.schema or 'main')}.{quote(name)}; {sql}"
            for name, sql in connection.execute(_INDEX_SQL, place)
        ]
        if not built:
            return None
        return (
            "If no row has the key, a unique index has kept it from a row that was deleted, as DuckDB's indexes do that were"
            f" created while another transaction was open. Create the index again: {' '.join(built)}"
        )


def _table(
    place: tuple[str, str], columns: Sequence[sa.Row[Any]], key: tuple[str, ...] | None, kind: TableKind
) -> DuckDBTable:
    return DuckDBTable(
        *place,
        tuple(
            TargetColumn(
                name=column.column_name,
                declared_type=column.data_type,
                storage=storage(column.data_type),
                nullable=column.is_nullable,
                generated=bool(column.is_generated),
                required=not (column.is_nullable or column.is_generated or column.has_default),
            )
            for column in columns
        ),
        key or None,
        kind,
        locators=() if any(column.column_name.lower() == "rowid" for column in columns) else ("rowid",),
    )


def _schema(schema: str) -> str:
    return "main" if schema == "public" else schema


# Sequences -------------------------------------------------------------------------------------

_DEFAULT: Final = sa.text(
    "SELECT column_default FROM duckdb_columns() WHERE database_name = current_database()"
    " AND schema_name = :schema AND table_name = :table AND column_name = :column"
)
_SEQUENCES: Final = sa.text(
    # DuckDB 2.0 loses START when it opens the file again. Then the default first value is used.
    "SELECT schema_name, sequence_name, CASE WHEN increment_by > 0 THEN min_value ELSE max_value END AS first,"
    " increment_by, min_value, max_value, last_value FROM duckdb_sequences() WHERE database_name = current_database()"
)
_SET_SEQUENCE: Final = sa.text("SELECT setval(:sequence, :last, :called)")


class DuckDBSequences(catalog.Sequences):
    @override
    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        with self._errors.reporting():
            written = _sequence_of(connection, table, column)
            found = written and next(
                (one for one in connection.execute(_SEQUENCES) if written in _spellings(connection, one)), None
            )
        if not written or not found:
            return None
        last = found.last_value
        position = SequencePosition(
            last_value=found.first if last is None else last, is_called=last is not None, increment=found.increment_by
        )
        return TargetSequence(written, position, found.min_value, found.max_value)

    @override
    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """Takes effect immediately, even if the transaction is rolled back."""
        last, called = position.last_value, position.is_called
        before = last - sequence.position.increment
        if not called and sequence.least <= before <= sequence.greatest:
            last, called = before, True  # DuckDB does not report a value that has not been used yet
        with self._errors.reporting():
            connection.execute(_SET_SEQUENCE, {"sequence": sequence.name, "last": last, "called": called})


def _sequence_of(connection: sa.Connection, table: TargetTable, column: str) -> str | None:
    """Spelled as in the column's default."""
    place = {"schema": table.schema, "table": table.name, "column": column}
    default = connection.execute(_DEFAULT, place).scalar_one_or_none()
    found = re.fullmatch(r"nextval\('((?:[^']|'')+)'\)", default or "")
    return found[1].replace("''", "'") if found else None


def restart_sequences(connection: sa.Connection, table: TargetTable) -> None:
    names = {_sequence_of(connection, table, column.name) for column in table.columns} - {None}
    if not names:
        return
    for found in connection.execute(_SEQUENCES).all():
        for name in names & _spellings(connection, found):
            connection.execute(_SET_SEQUENCE, {"sequence": name, "last": found.first, "called": False})


def _spellings(connection: sa.Connection, sequence: sa.Row[Any]) -> set[str]:
    quote = connection.dialect.identifier_preparer.quote
    schema, name = sequence.schema_name, sequence.sequence_name
    return {name, quote(name), f"{schema}.{name}", f"{quote(schema)}.{quote(name)}"}


# Reading ---------------------------------------------------------------------------------------

_ROWS_OF_A_VECTOR: Final = 2048
_VECTORS: Final = 10


class DuckDBTableReader(catalog.TableReader):
    def __init__(self, engine: sa.Engine, errors: DuckDBErrors, values: Values) -> None:
        super().__init__(values)
        self._dialect = engine.dialect
        self._errors = errors

    @override
    def value(self, column: TargetColumn) -> sa.ColumnElement[Any]:
        """Numbers of DECIMAL as text, because Arrow writes small ones with an exponent."""
        if column.storage != DECIMAL:
            return super().value(column)
        text: sa.ColumnElement[Any] = sa.cast(sa.column(column.name), sa.Text())
        precision, scale = declared_precision(column.declared_type)
        if precision == scale:  # DuckDB writes no zero before the point
            text = sa.func.regexp_replace(text, r"^(-?)\.", r"\10.")
        return text.label(column.name)

    @override
    def rows(
        self,
        connection: sa.Connection,
        table: TargetTable,
        columns: Sequence[TargetColumn],
        part: catalog.TableRange | None = None,
    ) -> Iterator[catalog.ReadRows]:
        """One process has the file open, so there are no ranges."""
        assert part is None

        sql = str(self.query(table, columns).compile(dialect=self._dialect, compile_kwargs={"literal_binds": True}))
        driver: Any = connection.connection.driver_connection
        with self._errors.reporting_driver():
            some: list[pa.RecordBatch] = []
            for batch in driver.sql(sql).to_arrow_reader(_ROWS_OF_A_VECTOR):
                some.append(batch)
                if len(some) == _VECTORS or sum(one.nbytes for one in some) >= catalog.BATCH_BYTES:
                    yield _together(some, len(columns))
                    some = []
            if some:
                yield _together(some, len(columns))


def _together(some: Sequence[pa.RecordBatch], columns: int) -> catalog.ReadRows:
    rows = sum(batch.num_rows for batch in some)
    return catalog.ReadRows(
        rows, [pa.concat_arrays([batch.column(place) for batch in some]) for place in range(columns)]
    )
