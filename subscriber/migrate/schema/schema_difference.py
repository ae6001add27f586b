"""What the target lacks of the publisher's schema, and the constraints that only it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from subscriber.base.progress_lines import progress
from subscriber.catalog.existing_catalog import existing_subscription
from subscriber.catalog.subscriptions import Subscription
from subscriber.commands.check_publications import find_published_tables, refresh_command
from subscriber.migrate.schema import schema_object
from subscriber.migrate.schema.above_tables import objects_above, without_brought
from subscriber.migrate.schema.compare_constraints import surplus_constraints
from subscriber.migrate.schema.compare_table import compare_table, planned_objects
from subscriber.migrate.schema.missed_objects import Functions, add_type, objects_without_tables, view_place
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.relation_names import RelationNames, TableName
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.omitted_objects import schema_objects, view_depths
from subscriber.publisher.table_checks import read_parents
from subscriber.publisher.table_objects import read_functions, read_lone_sequences, read_table_objects, read_types
from subscriber.targets import Connection, Target
from subscriber.targets.table_changes import FoundObjects

_NAME: Final = "subscriber schema"
"""The application name of the connection to the publisher."""
_LEFT_OUT: Final = frozenset(
    {
        "view",
        "materialized view",
        "trigger",
        "rule",
        "policy",
        "shared sequence",
        "column",
        "collation",
    }
)
"""Kinds that are left out for every target; the others are compared here."""


def schema_difference(target: Target, name: str) -> schema_object.SchemaComparison:
    """Compare the publisher's schema with that of a subscription's target. Nothing is changed."""
    subscription = existing_subscription(target, name)
    # The publisher is read first: a target that is a file is open for a short time only.
    progress("reading the publisher's schema")
    published = _read_publisher(target, subscription)
    progress("reading the target's schema")
    names = subscription.options.map
    with target.reporting(), target.engine.connect() as connection:
        functions = Functions(
            published=published.functions,
            types=published.types,
            present=target.objects.functions(connection),
            present_types={
                f"{made.schema}.{made.name}"
                for made in published.types.values()
                if target.objects.exists(connection, made.schema, made.name)
            },
            are_called=target.capabilities.postgresql_expressions,
        )
        there = _read_target(target, connection, published, names)
        found = [*objects_without_tables(target, connection, published, names, functions, there)]
        found += _of_tables(target, connection, published, subscription, functions, there)
        found += list(functions.left_out(found))
    return schema_object.SchemaComparison(name, target.capabilities.database, schema_object.sort_objects(found))


def _read_publisher(target: Target, subscription: Subscription) -> schema_object.PublisherSchema:
    with connect_publisher(subscription.conninfo, _NAME) as connection:
        publisher = PublisherClient(connection)
        published = find_published_tables(
            target, publisher, subscription.publications, subscription.options, lambda _text: None
        )
        # A table with a history has no keys and no constraints of the publisher's.
        history = subscription.options.history_rules
        tables = [table for table in published.tables if history.of(*table.key) == "off"]
        parents = read_parents(connection, tables)
        roots = [PublishedTable(one.schema, one.name) for one in parents if one.partitioned]
        read = [*map(subscription.options.transform.shape, read_table_objects(connection, [*tables, *roots]))]
        above = {root.key for root in roots}
        objects = [one for one in read if one.key not in above]
        functions = read_functions(connection)
        types = read_types(connection, {oid for one in functions for oid in one.types})
        for one in read:
            for made, _ in one.types.values():
                add_type(made, types)
        return schema_object.PublisherSchema(
            tables,
            objects,
            [one for one in schema_objects(connection, tables) if one.difference.kind in _LEFT_OUT],
            parents,
            [one for one in read if one.key in above],
            read_lone_sequences(connection),
            functions,
            types,
            view_depths(connection),
        )


def _read_target(
    target: Target, connection: Connection, published: schema_object.PublisherSchema, names: RelationNames
) -> schema_object.TargetSchema:
    every = [*published.objects, *published.roots]
    places: dict[TableName, None] = {(objects.schema, objects.name): None for objects in every}
    places |= {(key.schema, key.table): None for objects in every for key in objects.foreign_keys}
    places |= {
        view_place(one.difference): None for one in published.others if one.difference.kind in schema_object.VIEWS
    }
    there = target.shapes.reflect_all(connection, [names.in_target(*place) for place in places])
    tables = {place: table for place in places if (table := there.get(names.in_target(*place))) is not None}
    replicable = [
        table
        for objects in every
        if (table := tables.get((objects.schema, objects.name))) is not None and table.kind in schema_object.REPLICABLE
    ]
    return schema_object.TargetSchema(
        tables, dict(zip(replicable, target.objects.find(connection, replicable), strict=True))
    )


def _of_tables(
    target: Target,
    connection: Connection,
    published: schema_object.PublisherSchema,
    subscription: Subscription,
    functions: Functions,
    there: schema_object.TargetSchema,
) -> Iterator[schema_object.SchemaObject]:
    names, tables = subscription.options.map, dict(there.tables)
    columns = {table.key: table.columns for table in published.tables}
    brought: dict[TableName, FoundObjects] = {}
    yield from objects_above(target, connection, published, subscription, functions, there, tables, brought)
    references = {place: one for place, one in tables.items() if one.kind in schema_object.REPLICABLE}
    counted = Counter(key.name for objects in published.objects for key in objects.foreign_keys)
    shared = frozenset(name for name, number in counted.items() if number > 1)
    for number, objects in enumerate(published.objects):
        progress("comparing the schemas of tables", number, len(published.objects))
        shape = objects
        table = tables.get((shape.schema, shape.name))
        if table is None or table not in there.found:
            reason = (
                _no_table(subscription.name, shape) if table is None else f"the target has a {table.kind} of this name"
            )
            yield schema_object.SchemaObject(
                kind="table", name=shape.qualified_name, phase="manual", reason=reason, relation=shape.qualified_name
            )
            continue
        both = schema_object.TablePair(
            target=target,
            connection=connection,
            objects=objects,
            table=table,
            found=there.found[table],
            names=names,
            subscription=subscription.name,
            published=columns[shape.schema, shape.name],
            references=references,
            shared_names=shared,
        )
        differing = [*compare_table(both), *surplus_constraints(both)]
        yield from planned_objects(both, functions, without_brought(differing, brought.get((shape.schema, shape.name))))


def _no_table(subscription: str, shape: PublisherTable) -> str:
    command = f"ALTER SUBSCRIPTION {quote_identifier(subscription)}"
    name = f"{quote_identifier(shape.schema)}.{quote_identifier(shape.name)}"
    return (
        f"the target has no such table. Run in `subscriber sql`: {command} SET (create_tables = true);"
        f" {refresh_command(subscription)} {command} REFRESH TABLE {name};"
    )
