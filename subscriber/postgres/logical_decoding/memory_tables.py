"""The tables, types and values of the publisher in memory: what DDL makes of a table, and what a
value that a user writes is in the WAL. All functions are pure.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, Final

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.postgres.expressions.analyze.typeinfo import type_modifier
from subscriber.postgres.expressions.parse import syntax
from subscriber.postgres.expressions.parse.parser import parse
from subscriber.postgres.logical_decoding.heap_tuples import ColumnDatum, Datum
from subscriber.postgres.logical_decoding.historic_catalog import HistoricCatalog, RelationData, types_in
from subscriber.postgres.protocol.messages import NULL
from subscriber.postgres.schema import publisher_tables
from subscriber.postgres.types.arrays import array_send
from subscriber.postgres.types.byte_strings import byteaout
from subscriber.postgres.types.family import Send
from subscriber.postgres.types.float_text import double_text, real_text
from subscriber.postgres.types.integers import boolout
from subscriber.postgres.types.oids import FIRST_NORMAL_OID
from subscriber.postgres.types.registry import send_of
from subscriber.postgres.types.text import text_send

Compute = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of CREATE TABLE. A generated column has its ``expression`` in SQL, for filters, and
    if it is stored, ``compute``: the same in Python.
    """

    name: str
    type: str
    generated: publisher_tables.Generated = ""
    expression: str | None = None
    compute: Compute | None = None


Columns = Mapping[str, str] | Sequence[Column]


def columns_of(columns: Columns) -> list[Column]:
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


def find(catalog: HistoricCatalog, name: str) -> RelationData:
    table = catalog.tables.find(*split_name(name))
    if table is None:
        raise UsageError(f'relation "{name}" does not exist', sqlstate="42P01", hint="Create the table first.")
    return catalog.relation(table.oid)


def new_relation(
    tables: publisher_tables.PublisherTables,
    oid: int,
    name: str,
    columns: Columns,
    *,
    primary_key: Sequence[str] = (),
    persistence: publisher_tables.Persistence = "permanent",
    partitioned: bool = False,
    parent: RelationData | None = None,
) -> RelationData:
    schema, bare = split_name(name)
    if (schema, bare) in tables.tables:
        raise UsageError(f'relation "{bare}" already exists', sqlstate="42P07", hint="Choose another name.")
    described = tuple(_described(tables, number, column) for number, column in enumerate(columns_of(columns), 1))
    table = publisher_tables.PublisherTable(
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
    return RelationData(table)


def _described(
    tables: publisher_tables.PublisherTables, number: int, column: Column
) -> publisher_tables.PublisherColumn:
    oid, modifier, type_name = resolve_type(column.type, tables)
    return publisher_tables.PublisherColumn(
        column.name,
        number,
        oid,
        modifier,
        type_name,
        collation_of(oid, tables),
        generated=column.generated,
        expression=column.expression,
    )


def _check_columns(table: publisher_tables.PublisherTable, names: Sequence[str]) -> None:
    for name in names:
        if table.column(name) is None:
            raise UsageError(
                f'column "{name}" of relation "{table.name}" does not exist',
                sqlstate="42703",
                hint="Use the name of one of the table's columns.",
            )


def _check_free(relation: RelationData, name: str) -> None:
    if relation.table.column(name) is not None:
        raise UsageError(
            f'column "{name}" of relation "{relation.name}" already exists',
            sqlstate="42701",
            hint="Choose another name.",
        )


def add_column(tables: publisher_tables.PublisherTables, relation: RelationData, column: Column) -> RelationData:
    """ALTER TABLE … ADD COLUMN. The number is one that no column ever had."""
    _check_free(relation, column.name)
    numbers = [*(one.number for one in relation.columns), *relation.dropped]
    added = _described(tables, max(numbers, default=0) + 1, column)
    return replace(relation, table=replace(relation.table, columns=(*relation.columns, added)))


def drop_column(relation: RelationData, name: str) -> RelationData:
    """ALTER TABLE … DROP COLUMN; a key with the column is dropped, too."""
    _check_columns(relation.table, [name])
    dropped = next(column for column in relation.columns if column.name == name)
    identity = () if name in relation.table.identity_columns else relation.table.identity_columns
    left = tuple(column for column in relation.columns if column is not dropped)
    table = replace(relation.table, columns=left, identity_columns=identity)
    return replace(relation, table=table, dropped=(*relation.dropped, dropped.number))


def rename_column(relation: RelationData, name: str, new_name: str) -> RelationData:
    _check_columns(relation.table, [name])
    _check_free(relation, new_name)
    columns = tuple(replace(one, name=new_name) if one.name == name else one for one in relation.columns)
    identity = tuple(new_name if one == name else one for one in relation.table.identity_columns)
    return replace(relation, table=replace(relation.table, columns=columns, identity_columns=identity))


def replica_identity(
    relation: RelationData, identity: publisher_tables.Identity, columns: Sequence[str], primary_key: Sequence[str]
) -> RelationData:
    _check_columns(relation.table, columns)
    names = {"default": primary_key, "index": columns, "nothing": (), "full": [one.name for one in relation.columns]}
    table = replace(relation.table, identity=identity, identity_columns=tuple(names[identity]))
    return replace(relation, table=table)


def renamed(relation: RelationData, name: str) -> RelationData:
    schema, bare = split_name(name)
    return replace(relation, table=replace(relation.table, schema=schema, name=bare))


_REAL: Final = 700


@dataclass(frozen=True, slots=True)
class Toasted:
    """An out-of-line value. PostgreSQL decides that by the row's size; here the user says it."""

    value: Any


def resolve_type(text: str, tables: publisher_tables.PublisherTables) -> tuple[int, int, str]:
    types = types_in(tables)
    cast = parse(f"CAST(NULL AS {text})", tables.server_version // 10000)
    assert isinstance(cast, syntax.TypeCast)
    name = cast.type
    found = types.catalog.find_type(name.names[0] if len(name.names) > 1 else None, name.names[-1])
    if found is None or (name.array and not found.array):
        raise UsageError(
            f'type "{text}" does not exist',
            sqlstate="42704",
            hint="Create it with MemoryDatabase.create_enum or create_domain.",
        )
    values = tuple(node.value for node in name.modifiers if isinstance(node, syntax.AConst))
    modifier = type_modifier(found, ".".join(name.names), values) if values else -1
    oid = found.array if name.array else found.oid
    return oid, modifier, types.name_with_modifier(oid, modifier)


def collation_of(oid: int, tables: publisher_tables.PublisherTables) -> int:
    """The OID of the collation that a column of a type has; 0 for none."""
    return types_in(tables).collation(oid)


def base_type(oid: int, tables: publisher_tables.PublisherTables) -> int:
    return types_in(tables).base(oid)


def datum(value: Any, base_oid: int, tables: publisher_tables.PublisherTables | None = None) -> ColumnDatum:
    """The value of a column. A text is what the type's output function writes (DataException if it
    is no value of the type); UsageError (42804) for another Python type.

    ``base_oid`` of a domain is its base type. Without ``tables`` a value of a user-defined type has
    no binary format.
    """
    external = isinstance(value, Toasted)
    if isinstance(value, Toasted):
        value = value.value
    if value is None:
        return NULL
    text = _text(value, base_oid)
    send = send_of(base_oid) if tables is None else send_function(base_oid, tables)
    return Datum(text.encode(), _sent(text, send), external)


def _text(value: Any, base_oid: int) -> str:
    match value:
        case str():
            return value
        case bool():
            return boolout(value)
        case int() | Decimal() | uuid.UUID():
            return str(value)
        case float():
            return real_text(_single(value)) if base_oid == _REAL else double_text(value)
        case bytes():
            return byteaout(value)
        case _:
            raise UsageError(
                f"cannot write a value of type {type(value).__name__}",
                sqlstate="42804",
                hint="Give the text that PostgreSQL prints for the value.",
            )


def _single(value: float) -> float:
    single: float = struct.unpack(">f", struct.pack(">f", value))[0]
    return single


def _sent(text: str, send: Send | None) -> bytes | None:
    """What a send function writes; None if it is not known here, or cannot read the text."""
    try:
        return None if send is None else send(text)
    except NotSupportedError:
        return None


def send_function(base_oid: int, tables: publisher_tables.PublisherTables) -> Send | None:
    """The send function of a type; None if unknown: the value is sent as text (rule A12)."""
    send = send_of(base_oid)
    if send is not None or base_oid < FIRST_NORMAL_OID:
        return send
    types = types_in(tables)
    found = types.get(base_oid)
    if found.kind == "e":
        return text_send
    element = send_function(types.base(found.element), tables) if found.element else None
    return None if element is None else partial(array_send, found.element, element)
