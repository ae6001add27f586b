"""Rows as PostgreSQL's text, copied between a PostgreSQL table and a target's table.

::

    PostgreSQL ──COPY TO──▶ text ─┐                                ┌─▶ decode, bind, INSERT as apply does ──▶ target
                                  ├─▶ one text for each value ─────┤
    target ──SELECT, text_of ─────┘                                └─▶ COPY FROM ──▶ PostgreSQL

Both databases give the same text for the same value, so that bags of rows can be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import psycopg
import pyarrow as pa
import sqlalchemy as sa
from psycopg import sql

from subscriber.apply.conflicts.conflict import ChangePlace
from subscriber.apply.walk import Run
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.errors import TargetRelationError
from subscriber.lsn import INVALID_LSN
from subscriber.protocol.changes import ChangeGroup, Frame
from subscriber.protocol.messages import Relation, RelationColumn
from subscriber.schema.shape import ColumnShape, TableShape
from subscriber.targets import Target, TargetTable
from subscriber.types import decode_column, family_of
from subscriber.verify.canonical_text import text_of
from subscriber.verify.read_rows import target_rows

Row: TypeAlias = tuple[str | None, ...]
Bag: TypeAlias = Counter[Row]
"""Rows, each with the number of times that it occurs."""

_FLOATS: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
"""Python's text of special floats → PostgreSQL's text."""


def stored_columns(shape: TableShape) -> tuple[ColumnShape, ...]:
    """The columns whose values are stored and not computed: all except generated columns."""
    return tuple(column for column in shape.columns if column.generated is None)


# PostgreSQL's side --------------------------------------------------------------------------------


def read_rows(connection: psycopg.Connection[Any], shape: TableShape, columns: Sequence[ColumnShape]) -> list[Row]:
    """The rows of a PostgreSQL table, without the rows of its child tables.

    The settings ``datestyle``, ``intervalstyle``, ``TimeZone`` and ``bytea_output`` of the session
    must have the values that they have in a replication session.
    """
    query = sql.SQL("COPY (SELECT {} FROM ONLY {}) TO STDOUT").format(_listed(columns), _name(shape))
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        return list(_as_texts(copy.rows(), columns))


def write_rows(
    connection: psycopg.Connection[Any], shape: TableShape, columns: Sequence[ColumnShape], rows: Iterable[Row]
) -> None:
    """Add rows to a PostgreSQL table. PostgreSQL routes the rows of a partitioned table."""
    query = sql.SQL("COPY {} ({}) FROM STDIN").format(_name(shape), _listed(columns))
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in rows:
            copy.write_row(row)


def empty_table(connection: psycopg.Connection[Any], shape: TableShape) -> None:
    """Delete the rows of a PostgreSQL table, without the rows of its child tables.

    Foreign keys that refer to the rows are ignored.
    """
    connection.execute(sql.SQL("DELETE FROM ONLY {}").format(_name(shape)))


def _name(shape: TableShape) -> sql.Identifier:
    return sql.Identifier(shape.schema, shape.name)


def _listed(columns: Sequence[ColumnShape]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)


# The target's side --------------------------------------------------------------------------------


def read_target_rows(target: Target, connection: sa.Connection, shape: TableShape) -> list[Row]:
    """The rows of the target's table with this shape. Each row has the :func:`stored_columns`.

    Raises:
        TargetRelationError: the table does not exist any more.
    """
    columns = stored_columns(shape)
    table = target_table(target, connection, shape)
    rows = target_rows(target, connection, table, [column.name for column in columns])
    return list(_as_texts(rows, columns))


def replace_target_rows(
    target: Target, connection: sa.Connection, shape: TableShape, columns: Sequence[ColumnShape], rows: Sequence[Row]
) -> None:
    """Replace the rows of the target's table, in the caller's transaction.

    The rows are written as a replicated INSERT is written.

    Raises:
        ApplyError: the target cannot hold the rows.
        TargetRelationError: the table does not exist any more.
    """
    connection.execute(sa.delete(target_table(target, connection, shape).clause()))
    if not rows:
        return
    group = ChangeGroup(
        relation=Relation(
            0, shape.schema, shape.name, "d", tuple(RelationColumn(0, one.name, one.type_oid, -1) for one in columns)
        ),
        action="I",
        old_kind=None,
        positions=np.arange(len(rows), dtype=np.int32),
        old=None,
        new=pa.RecordBatch.from_arrays(
            [_decoded(target, column, [row[at] for row in rows]) for at, column in enumerate(columns)],
            names=[column.name for column in columns],
        ),
    )
    writer = ChangeWriter(target, connection, {})
    writer.open_frame(Frame((group,)))
    writer.write(Run(0, 0, len(rows)), ChangePlace(xid=0, final_lsn=INVALID_LSN, timestamp=0))


def writable_columns(target: Target, connection: sa.Connection, shape: TableShape) -> tuple[ColumnShape, ...]:
    """The columns that can be written in the target's table.

    A generated column of PostgreSQL may be an ordinary column in the target.

    Raises:
        TargetRelationError: the table does not exist any more.
    """
    table = target_table(target, connection, shape)
    generated = {column.name for column in table.columns if column.generated}
    return tuple(column for column in shape.columns if column.name not in generated)


def target_table(target: Target, connection: sa.Connection, shape: TableShape) -> TargetTable:
    """The target's table with this shape.

    Raises:
        TargetRelationError: the table does not exist.
    """
    table = target.shapes.reflect(connection, shape.schema, shape.name)
    if table is None:
        raise TargetRelationError(
            f'relation "{shape.qualified_name}" is not in the target any more',
            relation=shape.qualified_name,
            hint="Something else has dropped it; start again with an empty target.",
        )
    return table


def _decoded(target: Target, column: ColumnShape, values: Sequence[str | None]) -> pa.Array:
    if target.capabilities.postgresql_text:
        return pa.array(values, pa.string())
    raw = pa.array([None if value is None else value.encode() for value in values], pa.binary())
    return decode_column(column.type_oid, raw, binary=False, column=1)


# Text -------------------------------------------------------------------------------------------


def _as_texts(rows: Iterable[Sequence[Any]], columns: Sequence[ColumnShape]) -> Iterator[Row]:
    oids = [column.type_oid for column in columns]
    floats = [at for at, oid in enumerate(oids) if pa.types.is_floating(family_of(oid).arrow_type)]
    for row in rows:
        texts = [text_of(oid, value) for oid, value in zip(oids, row, strict=True)]
        for at in floats:
            texts[at] = _FLOATS.get(texts[at] or "", texts[at])
        yield tuple(texts)
