"""The option ``create_tables``: missing tables of the target are created with the shapes of the
published tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from subscriber.commands.notices import FIRST_NAMES, Notify, first_names, notice
from subscriber.errors import PublisherNotReady, SubscriberError
from subscriber.publisher.publisher import Publisher
from subscriber.publisher.shapes import read_published_shape
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.relation_names import RelationNames, TableName
from subscriber.schema.shape import TableShape
from subscriber.targets import Target
from subscriber.targets.ddl import NewTable, create_table


@dataclass(frozen=True, slots=True)
class MissingTable:
    """A table that the target does not have yet.

    Attributes:
        published: the publisher's table.
        relation: the target's name of the table, for messages.
        table: the DDL for the target.
    """

    published: PublishedTable
    relation: str
    table: NewTable


def design_tables(
    target: Target,
    publisher: Publisher,
    tables: Sequence[PublishedTable],
    chosen: Sequence[PublishedTable],
    names: RelationNames,
) -> list[MissingTable]:
    """The tables that ``create_tables`` would create; nothing is created here.

    Args:
        target: the database of the new tables.
        publisher: the publisher; it is queried for the properties of the tables.
        tables: all published tables, to which foreign keys may refer.
        chosen: the published tables that are to be created.
        names: maps the publisher's names to the target's.

    Raises:
        PublisherNotReady: a table was dropped at the publisher in the meantime.
    """
    shapes = [_named(_shape(publisher, table), names) for table in chosen]
    references: dict[TableName, frozenset[frozenset[str]] | None] = {names.local(*table.key): None for table in tables}
    references |= {(shape.schema, shape.name): _unique_keys(shape) for shape in shapes}
    with target.reporting(), target.engine.connect() as connection:
        for key in (key for shape in shapes for key in shape.foreign_keys):
            place = key.schema, key.table
            if place not in references and target.shapes.reflect(connection, *place) is not None:
                references[place] = None
    return [
        MissingTable(
            table,
            names.qualified(*table.key),
            create_table(target, shape, identity=True, references=references),
        )
        for table, shape in zip(chosen, shapes, strict=True)
    ]


def _unique_keys(shape: TableShape) -> frozenset[frozenset[str]]:
    """The sets of columns to which a foreign key can refer in a table with this shape."""
    others = (key.columns for key in shape.unique if not key.deferrable and key.nulls_distinct)
    return frozenset(frozenset(columns) for columns in (shape.key, *others) if columns)


def create_missing_tables(
    target: Target, connection: sa.Connection, missing: Sequence[MissingTable], notify: Notify
) -> None:
    """Create tables in the caller's transaction, and report it with a NOTICE.

    Raises:
        SubscriberError: the target refused; the error has the relation.
    """
    for one in missing:
        try:
            with target.reporting():
                one.table.create(connection)
        except SubscriberError as error:
            context = error.context or f'creating table "{one.relation}"'
            raise error.replace(relation=one.relation, context=context) from None
    names = [one.relation for one in missing]
    if len(names) <= FIRST_NAMES:
        for name in names:
            notice(notify, f'created table "{name}" at the subscriber')
    else:
        notice(notify, f"created {len(names):,} tables at the subscriber: {first_names(names)}")


def _named(shape: TableShape, names: RelationNames) -> TableShape:
    """The shape with the target's names of the table and of the tables to which it refers."""
    schema, name = names.local(shape.schema, shape.name)
    references = [(key, *names.local(key.schema, key.table)) for key in shape.foreign_keys]
    return replace(
        shape,
        schema=schema,
        name=name,
        foreign_keys=tuple(replace(key, schema=other, table=table) for key, other, table in references),
    )


def _shape(publisher: Publisher, table: PublishedTable) -> TableShape:
    shape = read_published_shape(publisher.connection, table)
    if shape is None:
        raise PublisherNotReady(
            f'table "{table.qualified_name}" not found on publisher', sqlstate="42P01", relation=table.qualified_name
        )
    return shape
