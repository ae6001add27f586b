"""The tables of the publisher in memory: how they are described, and what DDL makes of them.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from subscriber.errors import UsageError
from subscriber.output_plugin.historic_catalog import HistoricCatalog, Relation
from subscriber.output_plugin.publisher.values import collation_of, resolve_type
from subscriber.schema.publisher_tables import (
    Generated,
    Identity,
    Persistence,
    PublisherColumn,
    PublisherTable,
    PublisherTables,
)

Compute = Callable[[Mapping[str, Any]], Any]
"""Computes a generated column from the values of the row, by name, as the user gave them."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of CREATE TABLE or ALTER TABLE ADD COLUMN.

    Attributes:
        name: its name.
        type: its type, such as ``numeric(10,2)``.
        generated: whether it is generated, and how.
        expression: the expression of a generated column in SQL, for filters.
        compute: the same in Python; needed for a stored generated column.
    """

    name: str
    type: str
    generated: Generated = ""
    expression: str | None = None
    compute: Compute | None = None


Columns = Mapping[str, str] | Sequence[Column]
"""Columns by name, each with its type; or with more properties."""


def columns_of(columns: Columns) -> list[Column]:
    """The columns in one form."""
    if isinstance(columns, Mapping):
        return [Column(name, type_name) for name, type_name in columns.items()]
    return list(columns)


def split_name(name: str) -> tuple[str, str]:
    """Schema and name of a table; without a schema it is in ``public``.

    >>> split_name("t"), split_name("s.t")
    (('public', 't'), ('s', 't'))
    """
    schema, dot, bare = name.rpartition(".")
    return (schema if dot else "public"), bare


def find(catalog: HistoricCatalog, name: str) -> Relation:
    """The table of that name.

    Raises:
        UsageError: 42P01, there is none.
    """
    table = catalog.tables.find(*split_name(name))
    if table is None:
        raise UsageError(f'relation "{name}" does not exist', sqlstate="42P01", hint="Create the table first.")
    return catalog.relation(table.oid)


def new_relation(
    tables: PublisherTables,
    oid: int,
    name: str,
    columns: Columns,
    *,
    primary_key: Sequence[str] = (),
    persistence: Persistence = "permanent",
    partitioned: bool = False,
    parent: Relation | None = None,
) -> Relation:
    """The relation that CREATE TABLE makes.

    Raises:
        UsageError: a type does not exist; 42P07, the name is in use; 42703, the key has a column
            that the table does not have.
    """
    schema, bare = split_name(name)
    if (schema, bare) in tables.tables:
        raise UsageError(f'relation "{bare}" already exists', sqlstate="42P07", hint="Choose another name.")
    described = tuple(_described(tables, number, column) for number, column in enumerate(columns_of(columns), 1))
    table = PublisherTable(
        oid,
        schema,
        bare,
        "partitioned table" if partitioned else "table",
        described,
        identity_columns=tuple(primary_key),
        parents=() if parent is None else (parent.table.key,),
        is_partition=parent is not None,
        persistence=persistence,
    )
    _check_columns(table, primary_key)
    return Relation(table)


def _described(tables: PublisherTables, number: int, column: Column) -> PublisherColumn:
    oid, modifier, type_name = resolve_type(column.type, tables)
    return PublisherColumn(
        column.name,
        number,
        oid,
        modifier,
        type_name,
        collation_of(oid, tables),
        generated=column.generated,
        expression=column.expression,
    )


def _check_columns(table: PublisherTable, names: Sequence[str]) -> None:
    for name in names:
        if table.column(name) is None:
            raise UsageError(
                f'column "{name}" of relation "{table.name}" does not exist',
                sqlstate="42703",
                hint="Use the name of one of the table's columns.",
            )


def _check_free(relation: Relation, name: str) -> None:
    if relation.table.column(name) is not None:
        raise UsageError(
            f'column "{name}" of relation "{relation.name}" already exists',
            sqlstate="42701",
            hint="Choose another name.",
        )


def add_column(tables: PublisherTables, relation: Relation, column: Column) -> Relation:
    """ALTER TABLE … ADD COLUMN. The number is one that no column ever had.

    Raises:
        UsageError: 42701, there is a column of that name; 42704, there is no such type.
    """
    _check_free(relation, column.name)
    numbers = [*(one.number for one in relation.columns), *relation.dropped]
    added = _described(tables, max(numbers, default=0) + 1, column)
    return replace(relation, table=replace(relation.table, columns=(*relation.columns, added)))


def drop_column(relation: Relation, name: str) -> Relation:
    """ALTER TABLE … DROP COLUMN; a key with the column is dropped, too.

    Raises:
        UsageError: 42703, there is no such column.
    """
    _check_columns(relation.table, [name])
    dropped = next(column for column in relation.columns if column.name == name)
    identity = () if name in relation.table.identity_columns else relation.table.identity_columns
    left = tuple(column for column in relation.columns if column is not dropped)
    table = replace(relation.table, columns=left, identity_columns=identity)
    return replace(relation, table=table, dropped=(*relation.dropped, dropped.number))


def rename_column(relation: Relation, name: str, new_name: str) -> Relation:
    """ALTER TABLE … RENAME COLUMN.

    Raises:
        UsageError: 42703, there is no such column; 42701, there is one with the new name.
    """
    _check_columns(relation.table, [name])
    _check_free(relation, new_name)
    columns = tuple(replace(one, name=new_name) if one.name == name else one for one in relation.columns)
    identity = tuple(new_name if one == name else one for one in relation.table.identity_columns)
    return replace(relation, table=replace(relation.table, columns=columns, identity_columns=identity))


def replica_identity(
    relation: Relation, identity: Identity, columns: Sequence[str], primary_key: Sequence[str]
) -> Relation:
    """ALTER TABLE … REPLICA IDENTITY.

    Args:
        relation: the table.
        identity: the replica identity.
        columns: for ``index`` the columns of the index.
        primary_key: the columns of the primary key, for ``default``.

    Raises:
        UsageError: 42703, there is no such column.
    """
    _check_columns(relation.table, columns)
    names = {"default": primary_key, "index": columns, "nothing": (), "full": [one.name for one in relation.columns]}
    table = replace(relation.table, identity=identity, identity_columns=tuple(names[identity]))
    return replace(relation, table=table)


def renamed(relation: Relation, name: str) -> Relation:
    """ALTER TABLE … RENAME TO, or SET SCHEMA."""
    schema, bare = split_name(name)
    return replace(relation, table=replace(relation.table, schema=schema, name=bare))
