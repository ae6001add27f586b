"""Tables of a target that is a file: changed and read with the target's own SQL, or loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from subscriber.postgres.protocol import messages as m
from subscriber.targets import Target, TargetTable
from subscriber.targets.base.loading import LoadColumn, write_block
from tests.frames import values


def execute(target: Target, *statements: str) -> None:
    """Execute statements in one write transaction."""
    with target.begin() as connection:
        for statement in statements:
            connection.execution_options(no_parameters=True).exec_driver_sql(statement)


def rows(target: Target, query: str) -> list[dict[str, Any]]:
    """The rows of a query, each as a dict from the column's name to the value."""
    with target.engine.connect() as connection:
        result = connection.execution_options(no_parameters=True).exec_driver_sql(query)
        return [dict(row) for row in result.mappings()]


def reflected(target: Target, name: str, schema: str = "public") -> TargetTable:
    """A table that exists."""
    with target.engine.connect() as connection:
        table = target.shapes.reflect(connection, schema, name)
    assert table is not None
    return table


def load(target: Target, table: TargetTable, types: Mapping[str, int], *batches: pa.RecordBatch) -> None:
    """Load batches of columns, given as a mapping from the column's name to its type OID."""
    found = [(table.column(name), type_oid) for name, type_oid in types.items()]
    columns = [LoadColumn(column, type_oid) for column, type_oid in found if column is not None]
    assert len(columns) == len(types)
    with target.begin() as connection, target.loading.loader(connection, table, columns) as load_block:
        for batch in batches:
            load_block(write_block(batch))


def insert(*texts: str | m.Absence | None) -> m.Insert:
    """The message of an INSERT, for a relation of :func:`tests.frames.relation`."""
    return m.Insert(16384, values(*texts))
