"""The rows of tables, as PostgreSQL's text, copied between a PostgreSQL table and a target's table.

::

    PostgreSQL ──COPY TO──▶ text ─┐                                ┌─▶ decode, bind, INSERT as apply does ──▶ target
                                  ├─▶ one text for each value ─────┤
    target ──SELECT, text_of ─────┘                                └─▶ COPY FROM ──▶ PostgreSQL

In a target without partitions the root and its partitions are separate ordinary tables, and a row
is in the table into which it was replicated. In PostgreSQL it is in the partition::

    target                                PostgreSQL
    parent  (1)(2)                        parent
    child   (3)             ──────▶         └─ child  (1)(2)(3)

From the target to PostgreSQL, the rows of the root's table are inserted into the root. In the other
direction, the rows of a partition must be split: rows that the root's table already has stay there,
and all other rows go to the partition's table. Equal rows belong to the same partition, so it is
enough to compare values. Rows of a table that is attached go to the table of a root through which
they are replicated from then on.

A query that reads only partitions which are replicated under their own names is shown the rows of
their own tables: rows of the root's table may be left there from the time when the root was
replicated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import psycopg
import pyarrow as pa
import sqlalchemy as sa
from psycopg import sql

from subscriber.apply.conflicts.conflict import ChangePlace
from subscriber.apply.frame_order import ChangeRun
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.base.errors import TargetRelationError
from subscriber.base.lsn import INVALID_LSN
from subscriber.postgres.protocol.changes import ChangeGroup, Frame
from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.types.registry import decode_column, family_of
from subscriber.targets import Target, TargetTable
from subscriber.verify.canonical_text import text_of
from subscriber.verify.table_sides import target_texts

Row: TypeAlias = tuple[str | None, ...]
Bag: TypeAlias = Counter[Row]
"""Rows, each with the number of times that it occurs."""

_FLOATS: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
"""Python's text of special floats → PostgreSQL's text."""


def stored_columns(shape: PublisherTable) -> tuple[PublisherColumn, ...]:
    """All columns except generated ones."""
    return tuple(column for column in shape.columns if not column.generated)


# PostgreSQL's side --------------------------------------------------------------------------------


def read_rows(
    connection: psycopg.Connection[Any], shape: PublisherTable, columns: Sequence[PublisherColumn]
) -> list[Row]:
    """The rows of a table without its child tables, in a session with a replication's settings."""
    query = sql.SQL("COPY (SELECT {} FROM ONLY {}) TO STDOUT").format(_listed(columns), _name(shape))
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        return list(_as_texts(copy.rows(), columns))


def write_rows(
    connection: psycopg.Connection[Any], shape: PublisherTable, columns: Sequence[PublisherColumn], rows: Iterable[Row]
) -> None:
    query = sql.SQL("COPY {} ({}) FROM STDIN").format(_name(shape), _listed(columns))
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in rows:
            copy.write_row(row)


def empty_table(connection: psycopg.Connection[Any], shape: PublisherTable) -> None:
    """Delete the rows of a PostgreSQL table, but not of its children; foreign keys are ignored."""
    connection.execute(sql.SQL("DELETE FROM ONLY {}").format(_name(shape)))


def _name(shape: PublisherTable) -> sql.Identifier:
    return sql.Identifier(shape.schema, shape.name)


def _listed(columns: Sequence[PublisherColumn]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)


# The target's side --------------------------------------------------------------------------------


def read_target_rows(target: Target, connection: sa.Connection, shape: PublisherTable) -> list[Row]:
    """The :func:`stored_columns` of the target's table with this shape."""
    columns = stored_columns(shape)
    table = target_table(target, connection, shape)
    rows = target_texts(target, connection, table, {column.name: column.type_oid for column in columns})
    return list(_as_texts(rows, columns))


def replace_target_rows(
    target: Target,
    connection: sa.Connection,
    shape: PublisherTable,
    columns: Sequence[PublisherColumn],
    rows: Sequence[Row],
) -> None:
    """Replace the rows of the target's table as INSERTs are applied; the caller commits."""
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
    writer.write(ChangeRun(0, 0, len(rows)), ChangePlace(xid=0, final_lsn=INVALID_LSN, timestamp=0))


def writable_columns(target: Target, connection: sa.Connection, shape: PublisherTable) -> tuple[PublisherColumn, ...]:
    """Columns of the target's table that are not generated there, as they may be in PostgreSQL."""
    table = target_table(target, connection, shape)
    generated = {column.name for column in table.columns if column.generated}
    return tuple(column for column in shape.columns if column.name not in generated)


def target_table(target: Target, connection: sa.Connection, shape: PublisherTable) -> TargetTable:
    """The target's table with this shape; TargetRelationError if it does not exist."""
    table = target.shapes.reflect(connection, shape.schema, shape.name)
    if table is None:
        raise TargetRelationError(
            f'relation "{shape.qualified_name}" is not in the target any more',
            relation=shape.qualified_name,
            hint="Something else has dropped it; start again with an empty target.",
        )
    return table


def _decoded(target: Target, column: PublisherColumn, values: Sequence[str | None]) -> pa.Array:
    if target.capabilities.postgresql_text:
        return pa.array(values, pa.string())
    raw = pa.array([None if value is None else value.encode() for value in values], pa.binary())
    return decode_column(column.type_oid, raw, binary=False, column=1)


# Text -------------------------------------------------------------------------------------------


def _as_texts(rows: Iterable[Sequence[Any]], columns: Sequence[PublisherColumn]) -> Iterator[Row]:
    oids = [column.type_oid for column in columns]
    floats = [at for at, oid in enumerate(oids) if pa.types.is_floating(family_of(oid).arrow_type)]
    for row in rows:
        texts = [text_of(oid, value) for oid, value in zip(oids, row, strict=True)]
        for at in floats:
            texts[at] = _FLOATS.get(texts[at] or "", texts[at])
        yield tuple(texts)


Parents = Mapping[int, int]
"""Partition → the table that it is a partition of, by oid."""

Columns = Mapping[int, Sequence[PublisherColumn]]
"""The columns of every table in the order of its rows; a partition may have another order."""


def ancestors(table: int, parents: Parents) -> Iterator[int]:
    """The ancestors of a partition, from its parent to its root."""
    while (parent := parents.get(table)) is not None:
        yield parent
        table = parent


def families(parents: Parents) -> list[frozenset[int]]:
    """The trees of partitioned tables: each is a root with all its partitions."""
    members: dict[int, set[int]] = {}
    for table in parents:
        *_, root = ancestors(table, parents)
        members.setdefault(root, {root}).add(table)
    return [frozenset(family) for family in members.values()]


def split(
    leaves: Mapping[int, Bag], above: Mapping[int, Bag], parents: Parents, columns: Columns, columns_above: Columns
) -> dict[int, Bag]:
    """The rows of a tree in the target: a root keeps what still exists, partitions get the rest."""
    rows = {leaf: Counter(bag) for leaf, bag in leaves.items()}
    kept: dict[int, Bag] = {table: Counter() for table in above}
    for leaf in leaves:
        for table in ancestors(leaf, parents):
            found = _take(rows[leaf], above[table], columns[leaf], columns_above[table])
            here, there = [_names(columns[one]) for one in (leaf, table)]
            kept[table].update(_in_order(row, here, there) for row in found.elements())
    return {**kept, **{leaf: +bag for leaf, bag in rows.items()}}


def in_columns(rows: Bag, given: Sequence[PublisherColumn], wanted: Sequence[PublisherColumn]) -> Bag:
    """The rows with their values in the order of other columns; none if a column is missing."""
    if not {*_names(wanted)} <= {*_names(given)}:
        return Counter()
    return Counter({_in_order(row, _names(given), _names(wanted)): number for row, number in rows.items()})


def _take(rows: Bag, wanted: Bag, columns: Sequence[PublisherColumn], columns_wanted: Sequence[PublisherColumn]) -> Bag:
    """Remove from ``rows`` those of ``wanted``, by the columns of both, and return them."""
    types = {column.name: column.type_name for column in columns}
    shared = [column.name for column in columns_wanted if types.get(column.name) == column.type_name]
    here, there = _names(columns), _names(columns_wanted)
    by_value: dict[Row, list[Row]] = {}
    for row in rows:
        by_value.setdefault(_in_order(row, here, shared), []).append(row)
    taken: Bag = Counter()
    for row, number in wanted.items():
        left = number
        for candidate in by_value.get(_in_order(row, there, shared), ()):
            found = min(left, rows[candidate])
            rows[candidate] -= found
            taken[candidate] += found
            left -= found
    return +taken


def _names(columns: Sequence[PublisherColumn]) -> list[str]:
    return [column.name for column in columns]


def _in_order(row: Row, given: Sequence[str], wanted: Sequence[str]) -> Row:
    by_name = dict(zip(given, row, strict=True))
    return tuple(by_name[name] for name in wanted)
