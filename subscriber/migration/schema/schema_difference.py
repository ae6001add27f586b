"""What the target of a subscription lacks of the publisher's schema, and which constraints only the
target has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from subscriber import catalog
from subscriber.commands.check_publications import find_published_tables
from subscriber.commands.unknown_tables import refresh_command
from subscriber.migration.schema.called_functions import Functions, calls_of, calls_of_type
from subscriber.migration.schema.compare_table import compare_table
from subscriber.migration.schema.compared import Compared, Missing
from subscriber.migration.schema.schema_object import AFTER, KINDS, Phase, SchemaDifference, SchemaObject, sort_objects
from subscriber.migration.schema.surplus_constraints import surplus_constraints
from subscriber.publisher.functions import read_functions
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.publisher.schema_objects import schema_objects, view_depths
from subscriber.publisher.table_objects import read_lone_sequences, read_table_objects
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.relation_names import RelationNames
from subscriber.schema.shape import RelatedDifference, TableShape
from subscriber.schema.table_objects import LoneSequence, TableObjects, UserFunction, UserType
from subscriber.settings import Settings
from subscriber.sql.keywords import quote_identifier
from subscriber.targets import Connection, Target, TargetTable
from subscriber.targets.table_changes import NO_TABLE, CannotBuild, NewSequence, NewUserType, TableChange

_NAME: Final = "subscriber schema"
"""The application name of the connection to the publisher."""
_LEFT_OUT: Final = frozenset(
    {
        "partitioned table",
        "inheritance",
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
"""The kinds of :mod:`subscriber.publisher.schema_objects` that are left out for every target. The
other kinds are compared here.
"""


@dataclass(frozen=True, slots=True)
class _Published:
    """What was read from the publisher."""

    tables: Sequence[PublishedTable]
    objects: Sequence[TableObjects]
    others: Sequence[RelatedDifference]
    sequences: Sequence[LoneSequence]
    functions: Sequence[UserFunction]
    view_depths: Mapping[str, int]


def schema_difference(target: Target, name: str, settings: Settings) -> SchemaDifference:
    """Compare the publisher's schema with the target's. Nothing is changed.

    Args:
        target: the target.
        name: the subscription.
        settings: the settings.

    Raises:
        UsageError: the subscription does not exist.
        PublisherError: the publisher could not be queried.
        SubscriberError: the target could not be read.
    """
    del settings  # a publisher and a target are all that is compared
    subscription = catalog.existing_subscription(target, name)
    # The publisher is read first: a target that is a file is open for a short time only.
    published = _read_publisher(target, subscription)
    names = subscription.options.map
    with target.reporting(), target.engine.connect() as connection:
        functions = Functions(
            published=published.functions,
            present=target.objects.functions(connection),
            are_called=target.capabilities.postgresql_expressions,
        )
        found = [*_without_tables(target, connection, published, names, functions)]
        found += _of_tables(target, connection, published, subscription, functions)
        found += list(functions.left_out(found))
    return SchemaDifference(name, target.capabilities.database, sort_objects(found))


def _read_publisher(target: Target, subscription: catalog.Subscription) -> _Published:
    with connect_publisher(subscription.conninfo, _NAME) as connection:
        publisher = Publisher(connection)
        tables = find_published_tables(
            target, publisher, subscription.publications, subscription.options, lambda _text: None
        ).tables
        objects = read_table_objects(connection, tables)
        called = {name for one in objects for names in one.calls.values() for name in names}
        called |= {name for one in objects for made, _ in one.types.values() for name in calls_of_type(made)}
        return _Published(
            tables,
            objects,
            [one for one in schema_objects(connection, tables) if one.difference.kind in _LEFT_OUT],
            read_lone_sequences(connection),
            read_functions(connection, called),
            view_depths(connection),
        )


# Objects without a table --------------------------------------------------------------------------


def _without_tables(
    target: Target, connection: Connection, published: _Published, names: RelationNames, functions: Functions
) -> Iterator[SchemaObject]:
    for one in published.others:
        difference = one.difference
        related = f"{one.relation}.{difference.object}"
        with_schema = difference.kind in ("partitioned table", "view", "materialized view", "shared sequence")
        yield SchemaObject(
            kind=difference.kind,
            name=difference.object if with_schema else related,
            phase="manual",
            reason=difference.reason,
            publisher_ddl=difference.ddl,
            relation=one.relation,
            order=published.view_depths.get(difference.object, 0) if with_schema else 0,
        )
    yield from _sequences(target, connection, published.sequences, names)
    if target.capabilities.postgresql_types:
        yield from _types(target, connection, published.objects, functions)


def _sequences(
    target: Target, connection: Connection, sequences: Sequence[LoneSequence], names: RelationNames
) -> Iterator[SchemaObject]:
    for one in sequences:
        schema, name = names.local(one.schema, one.name)
        shown = f"{one.schema}.{one.name}"
        if not target.capabilities.postgresql_types:
            reason = f"no column owns it; an application that uses it by name needs a sequence of {target.capabilities.database}"
            ddl = f"CREATE SEQUENCE {quote_identifier(one.schema)}.{quote_identifier(one.name)} {one.ddl}"
            yield SchemaObject(kind="sequence", name=shown, phase="manual", reason=reason, publisher_ddl=ddl)
        elif not target.objects.exists(connection, schema, name):
            yield _created(target, connection, "sequence", shown, NewSequence(schema, name, one.ddl))


def _types(
    target: Target, connection: Connection, tables: Sequence[TableObjects], functions: Functions
) -> Iterator[SchemaObject]:
    wanted: dict[int, UserType] = {}
    for objects in tables:
        for made, _ in objects.types.values():
            _add_type(made, wanted)
    # The number keeps a type behind those that it is made of.
    for number, made in enumerate(wanted.values(), 1):
        if target.objects.exists(connection, made.schema, made.name):
            continue
        name = f"{made.schema}.{made.name}"
        if made.ddl:
            one = _created(target, connection, "type", name, NewUserType(made.schema, made.ddl))
            yield functions.waiting(replace(one, order=number), calls_of_type(made))
        else:
            yield SchemaObject(kind="type", name=name, phase="manual", reason="its definition is not known")


def _add_type(made: UserType, wanted: dict[int, UserType]) -> None:
    for other in made.needs:
        _add_type(other, wanted)
    wanted[made.oid] = made


def _created(target: Target, connection: Connection, kind: str, name: str, change: TableChange) -> SchemaObject:
    sql = target.objects.statements(connection, NO_TABLE, change).sql
    return SchemaObject(kind=kind, name=name, phase="before", ddl=";\n".join(sql), change=change)


# Objects of tables --------------------------------------------------------------------------------


def _of_tables(
    target: Target,
    connection: Connection,
    published: _Published,
    subscription: catalog.Subscription,
    functions: Functions,
) -> Iterator[SchemaObject]:
    names = subscription.options.map
    columns = {table.key: table.columns for table in published.tables}
    tables: dict[tuple[str, str], TargetTable] = {}
    for objects in published.objects:
        places = {(objects.shape.schema, objects.shape.name)}
        places |= {(key.schema, key.table) for key in objects.shape.foreign_keys}
        for place in places - tables.keys():
            found = target.shapes.reflect(connection, *names.local(*place))
            if found is not None:
                tables[place] = found
    counted = Counter(key.name for objects in published.objects for key in objects.shape.foreign_keys)
    shared = frozenset(name for name, number in counted.items() if number > 1)
    for objects in published.objects:
        shape = objects.shape
        table = tables.get((shape.schema, shape.name))
        if table is None or table.kind not in ("table", "partitioned table"):
            reason = (
                _no_table(subscription.name, shape) if table is None else f"the target has a {table.kind} of this name"
            )
            yield SchemaObject(
                kind="table", name=shape.qualified_name, phase="manual", reason=reason, relation=shape.qualified_name
            )
            continue
        both = Compared(
            target=target,
            connection=connection,
            objects=objects,
            table=table,
            found=target.objects.find(connection, table),
            names=names,
            subscription=subscription.name,
            published=columns[shape.schema, shape.name],
            references=tables,
            shared_names=shared,
        )
        earlier: list[TableChange] = []
        differing = [*compare_table(both), *surplus_constraints(both)]
        for missing in sorted(differing, key=lambda one: KINDS.index(one.kind)):
            one = functions.waiting(_described(both, connection, missing, earlier), calls_of(objects, missing))
            if one.change is not None and not one.waits_for:
                earlier.append(one.change)
            yield one


def _no_table(subscription: str, shape: TableShape) -> str:
    command = f"ALTER SUBSCRIPTION {quote_identifier(subscription)}"
    name = f"{quote_identifier(shape.schema)}.{quote_identifier(shape.name)}"
    return (
        f"the target has no such table. Run in `subscriber sql`: {command} SET (create_tables = true);"
        f" {refresh_command(subscription)} {command} REFRESH TABLE {name};"
    )


def _described(
    both: Compared, connection: Connection, missing: Missing, earlier: Sequence[TableChange]
) -> SchemaObject:
    """An object with its phase, and its DDL after the changes of the objects before it."""
    relation = both.objects.shape.qualified_name
    one = SchemaObject(
        kind=missing.kind,
        name=f"{relation}.{missing.name}" if missing.name else relation,
        phase="manual",
        reason=missing.reason,
        ddl=";\n".join(missing.by_hand),
        publisher_ddl=missing.publisher_ddl,
        relation=relation,
        table=both.table,
        order=len(earlier),
    )
    if missing.change is None:
        return one
    phase: Phase = "after" if missing.kind in AFTER else "before"
    try:
        planned = both.target.objects.statements(connection, both.table, missing.change, earlier)
        if planned.rebuilds or planned.needs_empty:
            phase = _phase_of_rebuild(both, connection, phase, needs_empty=planned.needs_empty)
    except CannotBuild as error:
        return replace(one, reason=error.reason, needs_stop=isinstance(error, _RunMustStop))
    reason = "; ".join(text for text in (missing.reason, planned.note) if text)
    return replace(
        one,
        phase=phase,
        ddl=";\n".join(planned.sql),
        reason=reason,
        change=missing.change,
        atomic=planned.needs_empty,
    )


class _RunMustStop(CannotBuild):
    """The target can have this when `subscriber run` is stopped."""


def _phase_of_rebuild(both: Compared, connection: Connection, phase: Phase, *, needs_empty: bool) -> Phase:
    """When a table is made again: before the copy if it is empty.

    Raises:
        CannotBuild: the table has rows, and a run may write to it.
    """
    if not both.table.has_rows(connection):
        return "before"
    database = both.target.capabilities.database
    if needs_empty:
        raise CannotBuild("the table has rows, and would have to be replaced")
    lock = both.target.run_lock
    if lock is not None and lock.is_held(connection) is not False:
        raise _RunMustStop(f"{database} rebuilds a table with rows for this: stop `subscriber run` first")
    return phase
