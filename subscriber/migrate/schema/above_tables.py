"""Partitioned tables of which only the partitions are published: above the tables of the target, in
which the partitions are tables of their own.

::

    PostgreSQL      CREATE TABLE root (LIKE leaf) PARTITION BY …, ATTACH PARTITION for each partition
    other targets   CREATE VIEW root AS SELECT … FROM leaf UNION ALL SELECT …

Both come after the copy. Columns which partitions get later do not change a view.

*Rejected:* triggers that make such a view writable. They would have to find the partition of a row,
for which other databases have no expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from subscriber.catalog.subscriptions import Subscription
from subscriber.migrate.schema import schema_object
from subscriber.migrate.schema.compare_table import compare_table, planned_objects
from subscriber.migrate.schema.missed_objects import Functions
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.relation_names import RelationNames, TableName
from subscriber.targets import Connection, Target, TargetTable, table_changes

Tables = Mapping[TableName, TargetTable]
"""The target's tables by the publisher's names."""
_OF_PARTITIONS: Final = frozenset(
    {"column type", "generated column", "missing column", "check of enum", "check of domain"}
)
"""Kinds that a partitioned table has from its partitions."""


def levels_of(roots: Sequence[PublisherTable]) -> dict[TableName, int]:
    below = {one.key: one.partitions for one in roots}

    def levels(place: TableName) -> int:
        inner = (levels((one.schema, one.name)) for one in below[place] if one.key and one.parent == place)
        return 1 + max(inner, default=0)

    return {place: levels(place) for place in below}


def belongs_to(root: PublisherTable, kind: str, roots: Sequence[PublisherTable]) -> bool:
    """Whether a partitioned table itself needs an object of this kind, and not its partitions."""
    place = root.schema, root.name
    is_partition = any(place == (one.schema, one.name) for other in roots for one in other.partitions)
    return kind not in _OF_PARTITIONS and not (is_partition and kind == "identity")


def planned_table(root: PublisherTable, names: RelationNames, tables: Tables) -> TargetTable | None:
    """The partitioned table to build, with the columns of a partition; None if none is there."""
    model = next(iter(leaves_of(root, tables)), None)
    if model is None:
        return None
    schema, name = names.in_target(*root.key)
    columns = (model.column(column.name) for column in root.columns)
    return TargetTable(schema, name, tuple(one for one in columns if one is not None), None, "partitioned table")


def leaves_of(root: PublisherTable, tables: Tables) -> list[TargetTable]:
    places = ((one.schema, one.name) for one in root.partitions if not one.key)
    return [tables[place] for place in places if place in tables and tables[place].kind == "table"]


def new_table(root: PublisherTable, planned: TargetTable, tables: Tables) -> table_changes.NewPartitionedTable:
    model = leaves_of(root, tables)[0]
    is_nullable = {column.name: column.nullable for column in root.columns}
    nullable = tuple(one.name for one in model.columns if is_nullable.get(one.name) and not one.nullable)
    return table_changes.NewPartitionedTable(planned, root.partition_key, model, nullable)


def new_partitions(
    root: PublisherTable, table: TargetTable, tables: Tables, found: Mapping[TargetTable, table_changes.FoundObjects]
) -> Iterator[tuple[TableName, table_changes.NewPartition]]:
    counted = tuple(column.name for column in root.columns if column.identity or column.serial)
    for one in root.partitions:
        place = one.schema, one.name
        child = tables.get(place)
        if one.parent != root.key or child is None:
            continue
        if (table.schema, table.name) not in found.get(child, table_changes.FoundObjects()).parents:
            own = counted if child.kind == "table" else ()
            yield place, table_changes.NewPartition(child, table, one.bound, own)


def without_brought(
    differing: Sequence[schema_object.Missing], brought: table_changes.FoundObjects | None
) -> list[schema_object.Missing]:
    """What a table lacks, without the foreign keys that it gets when it becomes a partition."""
    keys = set() if brought is None else {frozenset(one.columns) for one in brought.foreign_keys}
    return [
        one
        for one in differing
        if not (isinstance(one.change, table_changes.NewForeignKey) and frozenset(one.change.key.columns) in keys)
    ]


def new_view(
    target: Target, root: PublisherTable, names: RelationNames, tables: Tables
) -> table_changes.NewView | None:
    """The view in place of a partitioned table; None if the target has none of its partitions."""
    leaves = leaves_of(root, tables)
    if not leaves:
        return None
    columns = tuple(
        column.name for column in root.columns if all(leaf.column(column.name) is not None for leaf in leaves)
    )
    return table_changes.NewView(*target.ddl.qualified(*names.in_target(*root.key)), columns, tuple(leaves))


def view_lacks(target: Target, connection: Connection, view: TargetTable, wanted: table_changes.NewView) -> str:
    """What a view of the target lacks of the one that would be built; empty for nothing."""
    columns = [name for name in wanted.columns if view.column(name) is None]
    if columns:
        return f"the target's view lacks column {columns[0]}"
    text = target.objects.view_text(connection, view)
    lacking = [one.name for one in wanted.tables if one.name not in text]
    return f"the target's view lacks partition {lacking[0]}" if lacking else ""


def objects_above(
    target: Target,
    connection: Connection,
    published: schema_object.PublisherSchema,
    subscription: Subscription,
    functions: Functions,
    there: schema_object.TargetSchema,
    tables: dict[TableName, TargetTable],
    brought: dict[TableName, table_changes.FoundObjects],
) -> Iterator[schema_object.SchemaObject]:
    """Those that PostgreSQL can have are added to ``tables``; what a table gets as a partition of
    one that is there, to ``brought``.
    """
    names = subscription.options.map
    for root in published.roots:
        place = root.schema, root.name
        planned = tables.get(place) or planned_table(root, names, tables)
        if target.capabilities.postgresql_types and planned is not None:
            tables[place] = planned
    levels = levels_of(published.roots)
    for root in published.roots:
        place, name = (root.schema, root.name), root.qualified_name
        made = schema_object.SchemaObject(
            kind="partitioned table",
            name=name,
            phase="manual",
            relation=name,
            publisher_ddl=f"CREATE TABLE {name} (…) PARTITION BY {root.partition_key}",
            above=levels[place],
        )
        present, table = there.tables.get(place), tables.get(place)
        if target.capabilities.postgresql_types and table is not None and table.kind == "partitioned table":
            if present is None:
                change: table_changes.TableChange = new_table(root, table, tables)
                yield functions.waiting(
                    _planned(target, connection, made, change), root.calls.get(("partitions", ""), ())
                )
            itself = there.found.get(table, table_changes.FoundObjects(partitioned=True))
            for child, attached in new_partitions(root, table, tables, there.found):
                brought[child] = itself
                one = replace(made, kind="partition", name=".".join(child), relation=".".join(child), publisher_ddl="")
                yield _planned(target, connection, one, attached)
            both = schema_object.TablePair(
                target=target,
                connection=connection,
                objects=root,
                table=table,
                found=itself,
                names=names,
                subscription=subscription.name,
                references={place: one for place, one in tables.items() if one.kind in schema_object.REPLICABLE},
            )
            differing = [one for one in compare_table(both) if belongs_to(root, one.kind, published.roots)]
            for one in planned_objects(both, functions, differing):
                yield replace(one, above=levels[place], phase="after" if one.phase == "before" else one.phase)
            continue
        view = None if target.capabilities.postgresql_types else new_view(target, root, names, tables)
        if present is not None and (view is None or present.kind != "view"):
            yield replace(made, reason=f"the target has a {present.kind} of this name")
        elif view is None:
            yield replace(made, reason="the target has none of its partitions")
        elif present is None:
            yield _planned(target, connection, made, view)
        elif lacking := view_lacks(target, connection, present, view):
            again = _planned(target, connection, made, view)
            drop = f"DROP VIEW {target.objects.qualified(present)}"
            yield replace(again, phase="manual", ddl=f"{drop};\n{again.ddl}", reason=lacking, change=None)


def _planned(
    target: Target, connection: Connection, one: schema_object.SchemaObject, change: table_changes.TableChange
) -> schema_object.SchemaObject:
    try:
        planned = target.objects.statements(connection, table_changes.NO_TABLE, change)
    except table_changes.CannotBuild as error:
        return replace(one, reason=error.reason)
    return replace(one, phase="after", ddl=";\n".join(planned.sql), reason=planned.note, change=change)
