"""The tables of a subscription at the target: what must be there, and what is made (rule D13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from subscriber import catalog
from subscriber.apply.identity import row_identity
from subscriber.apply.local_relations import LocalRelation, RelationMap, check_required
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.notices import FIRST_NAMES, Notify, first_names, notice, warning
from subscriber.commands.subscribed_tables import Published
from subscriber.errors import PublisherNotReady, SubscriberError, TargetRelationError, UsageError
from subscriber.protocol.messages import Relation
from subscriber.publisher.announced import announced_relations
from subscriber.publisher.published_tables import PublishedTable
from subscriber.publisher.publisher import Publisher
from subscriber.publisher.read_attributes import read_attributes
from subscriber.publisher.shapes import read_published_shape
from subscriber.schema.attributes import TableAttributes
from subscriber.schema.relation_names import SAME_NAMES, RelationNames, TableName
from subscriber.schema.shape import TableShape
from subscriber.targets import Target
from subscriber.targets.ddl import NewTable, create_table


@dataclass(frozen=True, slots=True)
class MissingTable:
    """A table that ``create_tables`` makes.

    Attributes:
        published: the publisher's.
        relation: the target's name, for messages.
        table: the target's DDL.
    """

    published: PublishedTable
    relation: str
    table: NewTable


def check_tables(
    target: Target,
    publisher: Publisher,
    tables: Sequence[PublishedTable],
    names: RelationNames = SAME_NAMES,
    *,
    create_tables: bool,
) -> list[MissingTable]:
    """Look at the target's table of each published one; gives those that are to be made.

    Columns are not looked at: :func:`warn_of_shapes` does.

    Args:
        target: where they are to be.
        publisher: is asked what a table that is to be made is like.
        tables: those that are published.
        names: the target's names of them.
        create_tables: those that do not exist are to be made.

    Raises:
        UsageError: 42P01, a table does not exist and is not to be made; 42809, it is of a kind that cannot be replicated into;
            42710, two have one name.
        PublisherNotReady: a table was dropped at the publisher meanwhile.
    """
    relations = [(table.schema, table.name) for table in tables]
    missing = set(check_relations(target, relations, names, create_tables=create_tables))
    return design_tables(
        target, publisher, tables, [table for table in tables if (table.schema, table.name) in missing], names
    )


def design_tables(
    target: Target,
    publisher: Publisher,
    tables: Sequence[PublishedTable],
    chosen: Sequence[PublishedTable],
    names: RelationNames,
) -> list[MissingTable]:
    """What ``create_tables`` makes of tables; nothing is made.

    Args:
        target: where they are to be.
        publisher: is asked what they are like.
        tables: all that are published, which foreign keys may refer to.
        chosen: those of them that are wanted.
        names: the target's names of them.

    Raises:
        PublisherNotReady: a table was dropped at the publisher meanwhile.
    """
    shapes = [_named(_shape(publisher, table), names) for table in chosen]
    references: dict[TableName, frozenset[frozenset[str]] | None] = {
        names.local(table.schema, table.name): None for table in tables
    }
    references |= {(shape.schema, shape.name): _unique_keys(shape) for shape in shapes}
    with target.reporting(), target.engine.connect() as connection:
        for key in (key for shape in shapes for key in shape.foreign_keys):
            place = key.schema, key.table
            if place not in references and target.shapes.reflect(connection, *place) is not None:
                references[place] = None
    return [
        MissingTable(
            table,
            names.qualified(table.schema, table.name),
            create_table(target, shape, identity=True, references=references),
        )
        for table, shape in zip(chosen, shapes, strict=True)
    ]


def _unique_keys(shape: TableShape) -> frozenset[frozenset[str]]:
    """What a foreign key can refer to in a table that is made of a shape."""
    others = (key.columns for key in shape.unique if not key.deferrable and key.nulls_distinct)
    return frozenset(frozenset(columns) for columns in (shape.key, *others) if columns)


def warn_of_shapes(
    target: Target, publisher: Publisher, published: Published, options: SubscriptionOptions, notify: Notify
) -> None:
    """Compare the tables that are there with the published ones, and tell what copying or applying would stop at.

    PostgreSQL's commands do not look at columns, and its workers fail later. So nothing is refused here: the errors are those of
    :mod:`subscriber.apply.local_relations` and :mod:`subscriber.apply.identity`, as warnings. A table that is still to be made is passed over.
    """
    with target.reporting(), target.engine.connect() as connection:
        there = RelationMap(target, connection, options.map, add_columns=options.schema_changes == "add_columns")
        for relation in announced_relations(publisher.connection, published.tables):
            if target.shapes.reflect(connection, *options.map.local(relation.namespace, relation.name)) is None:
                continue
            for error in _misfits(there, relation, changes=(relation.namespace, relation.name) in published.changing):
                named = options.map.qualified(relation.namespace, relation.name)
                message = error.message if f'"{named}"' in error.message else f'table "{named}": {error.message}'
                warning(notify, message, detail=error.detail, hint=error.hint)


def _misfits(there: RelationMap, relation: Relation, *, changes: bool) -> Iterator[SubscriberError]:
    try:
        local = there.compare(relation)
    except TargetRelationError as error:
        yield error
        return
    # The publisher itself refuses to change rows that it cannot identify.
    identified = relation.replica_identity == "f" or any(column.is_identity for column in relation.columns)
    checks: list[Callable[[LocalRelation], object]] = [check_required]
    if changes and identified:
        checks.append(row_identity)
    for check in checks:
        try:
            check(local)
        except TargetRelationError as error:
            yield error


def make_tables(target: Target, connection: Any, missing: Sequence[MissingTable], notify: Notify) -> None:
    """Make tables in the caller's transaction, and tell of it.

    Raises:
        SubscriberError: the target refused, with the relation.
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


def read_uncopied(
    publisher: Publisher, publications: Sequence[str], tables: Sequence[PublishedTable], *, carried: bool
) -> list[tuple[PublishedTable, TableAttributes]]:
    """What tables are like that are not to be copied, for :func:`~subscriber.catalog.keep_published_shapes`.

    Args:
        publisher: is asked.
        publications: of the subscription.
        tables: those that are published.
        carried: the publications are the subscriber's own.

    Raises:
        PublisherError: it could not be asked.
    """
    found = []
    for table in tables:
        listed = table.columns is not None if carried else None
        attributes = read_attributes(publisher.connection, publications, table.schema, table.name, listed=listed)
        if attributes is not None:
            found.append((table, attributes))
    return found


def check_relations(
    target: Target, relations: Sequence[TableName], names: RelationNames, *, create_tables: bool | None = None
) -> list[TableName]:
    """Look at the target's table of each relation; gives the relations whose table does not exist, where it is to be made.

    Args:
        target: where they are to be.
        relations: by the publisher's names.
        names: the target's names of them.
        create_tables: those that do not exist are to be made; None: the command makes none.

    Raises:
        UsageError: as :func:`check_tables`.
    """
    names.check_distinct(relations, target.ddl.place)
    missing = []
    with target.reporting(), target.engine.connect() as connection:
        for relation in relations:
            qualified = names.qualified(*relation)
            if catalog.is_own_table(names, *relation):
                raise UsageError(
                    f'cannot use relation "{qualified}" as logical replication target',
                    sqlstate="42809",
                    detail="Subscribers keep their state in tables of this name.",
                    relation=qualified,
                )
            found = target.shapes.reflect(connection, *names.local(*relation))
            if found is None and create_tables:
                missing.append(relation)
            elif found is None:
                raise UsageError(
                    f'relation "{qualified}" does not exist',
                    sqlstate="42P01",
                    detail=_mapped_from(relation, names),
                    relation=qualified,
                    hint="Create the table at the subscriber, with the publisher's column names"
                    + ("." if create_tables is None else ", or use WITH (create_tables = true)."),
                )
            elif found.kind not in ("table", "partitioned table"):
                raise UsageError(
                    f'cannot use relation "{qualified}" as logical replication target',
                    sqlstate="42809",
                    detail=f"This operation is not supported for {found.kind}s." if found.kind != "other" else None,
                    relation=qualified,
                )
    return missing


def _mapped_from(relation: TableName, names: RelationNames) -> str | None:
    if names.local(*relation) == relation:
        return None
    return f"The subscription's map has it for the publisher's \"{'.'.join(relation)}\"."


def _named(shape: TableShape, names: RelationNames) -> TableShape:
    """The shape under the target's name, with those of the tables that it refers to."""
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
