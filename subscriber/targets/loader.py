"""Blocks of a table's initial copy, and how they become rows: the code that all loaders share.

A block is an Arrow IPC stream of one record batch. Its columns are in the loader's order, and each
is decoded by :func:`subscriber.types.decode_column`. If :meth:`Loading.block_format` says so, a
block has COPY's data instead. Values are bound as in the apply path, so a loaded row is equal to an
applied row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.errors import ConflictError
from subscriber.targets.roles.errors import Errors
from subscriber.targets.roles.values import Values
from subscriber.targets.roles.writing import Writing
from subscriber.targets.target_table import TargetColumn, TargetTable

BlockFormat = Literal["text", "binary", "arrow"]
"""The format of a block: COPY's text, COPY's binary rows without header and trailer, or the Arrow
IPC stream of one record batch.
"""


@dataclass(frozen=True, slots=True)
class LoadColumn:
    """A column that is loaded.

    Attributes:
        column: the target's column.
        type_oid: the type of the publisher's column.
        replaced: whether NULL takes the place of values that the column cannot hold, so that blocks
            must have a form in which single values can be replaced.
    """

    column: TargetColumn
    type_oid: int
    replaced: bool = field(default=False, kw_only=True)


def write_block(batch: pa.RecordBatch) -> bytes:
    """A record batch as a block. It is compressed because it passes through the JVM."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_block(block: bytes) -> pa.RecordBatch:
    """The record batch of a block."""
    with pa.ipc.open_stream(pa.py_buffer(block)) as reader:
        return reader.read_next_batch()


def bind_block(values: Values, columns: Sequence[LoadColumn], batch: pa.RecordBatch) -> list[list[Any]]:
    """The values to bind, column by column.

    Raises:
        UnsupportedValue: a column cannot store a value.
        ConflictError: 23502, a NULL for a column in which the target would replace it with a
            generated value.
    """
    bound = []
    for number, load in enumerate(columns):
        array, column = batch.column(number), load.column
        if column.null_is_generated and array.null_count:
            raise ConflictError(
                f'null value in column "{column.name}" violates not-null constraint',
                sqlstate="23502",
                column=column.name,
                detail="The target would replace the null with a generated value.",
            )
        bound.append(values.bind_values(load.type_oid, column, array))
    return bound


@dataclass(frozen=True, slots=True)
class RowStatement:
    """A statement for one row.

    Attributes:
        sql: the statement, in the driver's parameter style.
        order: for each parameter of the statement, the index of its column.
        names: the names of the parameters if the driver's parameter style uses names, else None.
    """

    sql: str
    order: tuple[int, ...]
    names: tuple[str, ...] | None

    def rows(self, bound: Sequence[Sequence[Any]], count: int) -> Iterable[Any]:
        """The parameters for ``count`` rows, from the values of each column."""
        if not self.order:
            return repeat((), count)
        rows = zip(*(bound[index] for index in self.order), strict=True)
        names = self.names
        return rows if names is None else (dict(zip(names, row, strict=True)) for row in rows)


def insert_statement(
    dialect: sa.Dialect, writing: Writing, table: TargetTable, columns: Sequence[LoadColumn]
) -> RowStatement:
    """The INSERT for rows of ``columns``; other columns of the table get their defaults."""
    prefix = parameter_prefix(table)
    index_of = {f"{prefix}{index}": index for index in range(len(columns))}
    # NullType: without a cast, so that the driver and the column decide. "inline": no RETURNING for
    # values that are not used.
    values = {
        columns[index].column.name: sa.bindparam(key, type_=sa.types.NullType()) for key, index in index_of.items()
    }
    insert = writing.or_fail(table, sa.insert(table.clause()).values(values).inline())
    compiled = insert.compile(dialect=dialect)
    sql = writing.override_identity(str(compiled)) if table.has_identity_always else str(compiled)
    keys = tuple(index_of if compiled.positiontup is None else compiled.positiontup)
    return RowStatement(sql, tuple(index_of[key] for key in keys), keys if compiled.positiontup is None else None)


def parameter_prefix(table: TargetTable) -> str:
    """How the names of parameters begin, so that none of them is the name of a column.

    SQLAlchemy Core reserves the names of columns for its own parameters.
    """
    prefix = "p"
    while any(column.name.startswith(prefix) for column in table.columns):
        prefix += "_"
    return prefix


def insert_blocks(
    errors: Errors,
    values: Values,
    statement: RowStatement,
    connection: sa.Connection,
    columns: Sequence[LoadColumn],
) -> Callable[[bytes], None]:
    """A function that loads a block by INSERT, for any SQLAlchemy dialect.

    Raises:
        SubscriberError: from a call of the function, as translated by :meth:`Errors.translate`.
    """

    def load(block: bytes) -> None:
        batch = read_block(block)
        rows = list(statement.rows(bind_block(values, columns, batch), batch.num_rows))
        if not rows:
            return
        try:
            connection.exec_driver_sql(statement.sql, rows)
        except exc.SQLAlchemyError as error:
            # The driver's error quotes rows, so it must not be printed as the cause.
            raise errors.translate(error, [columns[index].column.name for index in statement.order]) from None

    return load
