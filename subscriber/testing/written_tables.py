"""Tables that a target makes itself, written and read as the engine does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import sqlalchemy as sa

from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from subscriber.postgres.types.registry import decode_column
from subscriber.targets import Target, TargetTable
from subscriber.targets.base.loading import LoadColumn, Loading, write_block
from subscriber.targets.ddl import create_table
from subscriber.testing.nodes.mirrored_rows import Row, read_target_rows

OIDS: Final = {type_name(oid): oid for oid in BUILT_IN_TYPES}


def shape_of(
    columns: Mapping[str, str], key: Sequence[str] = (), name: str = "t", schema: str = "public"
) -> PublisherTable:
    """A table's shape; the columns by their names, with ``format_type``'s names of their types."""
    shapes = (
        PublisherColumn(one, 0, OIDS[kind.partition("(")[0]], type_name=kind, nullable=one not in key)
        for one, kind in columns.items()
    )
    return PublisherTable(0, schema, name, kind="table", columns=tuple(shapes), key_columns=tuple(key))


def created(target: Target, shape: PublisherTable, *, identity: bool = False) -> TargetTable:
    """The target's new table for a shape."""
    with target.begin() as connection:
        create_table(target, shape, identity=identity).create(connection)
    return reflected(target, shape)


def reflected(target: Target, shape: PublisherTable) -> TargetTable:
    """The table of this shape, which is there."""
    with target.reporting(), target.engine.connect() as connection:
        table = target.shapes.reflect(connection, shape.schema, shape.name)
    assert table is not None
    return table


def load_columns(table: TargetTable, shape: PublisherTable) -> list[LoadColumn]:
    """All columns of a table, for a loader."""
    found = [(table.column(column.name), column.type_oid) for column in shape.columns]
    return [LoadColumn(column, type_oid) for column, type_oid in found if column is not None]


def insert(target: Target, connection: sa.Connection, shape: PublisherTable, *rows: Row) -> None:
    """INSERT rows, given by PostgreSQL's texts, with values bound as apply binds them."""
    table = target.shapes.reflect(connection, shape.schema, shape.name)
    assert table is not None
    columns = load_columns(table, shape)
    loading = Loading(target.engine, target.errors, target.values, target.writing)
    with loading.loader(connection, table, columns) as load:
        load(write_block(batch(target, shape, rows)))


def batch(target: Target, shape: PublisherTable, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as the executors decode them for this target."""
    arrays = [decoded(target, column.type_oid, [row[at] for row in rows]) for at, column in enumerate(shape.columns)]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in shape.columns])


def decoded(target: Target, type_oid: int, texts: Sequence[str | None]) -> pa.Array:
    """Values of one type: their texts for a target that reads PostgreSQL's."""
    if target.capabilities.postgresql_text:
        return pa.array(texts, pa.string())
    raw = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    return decode_column(type_oid, raw, binary=False, column=1)


def stored(target: Target, shape: PublisherTable) -> list[Row]:
    """What the table has, as PostgreSQL's texts."""
    with target.reporting(), target.engine.connect() as connection:
        return sorted(read_target_rows(target, connection, shape), key=repr)
