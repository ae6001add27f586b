"""Checks of the subscription's tables in the target, which must exist or be created (rule D13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from subscriber.apply.relations.target_relations import RelationMap, TargetRelation, check_required
from subscriber.apply.statements.identity import row_identity
from subscriber.base.errors import NotSupportedError, SubscriberError, TargetRelationError, UsageError
from subscriber.catalog.catalog_names import map_elsewhere, occupies
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.check_publications import SubscribedTables
from subscriber.commands.create_tables import MissingTable, Reshape, as_published, design_tables
from subscriber.commands.notices import Notify, warning
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.relation_names import SAME_NAMES, RelationNames, TableName
from subscriber.postgres.schema.transform_values import transformed_relation
from subscriber.postgres.types.oids import with_type_names
from subscriber.publisher.catalog import announced_relations, user_type_names
from subscriber.publisher.client import PublisherClient
from subscriber.targets import Connection, Target, TargetTable
from subscriber.targets.ddl import table_identity


def check_tables(
    target: Target,
    publisher: PublisherClient,
    tables: Sequence[PublishedTable],
    names: RelationNames = SAME_NAMES,
    *,
    create_tables: bool,
    version: int = 18,
    reshape: Reshape = as_published,
) -> list[MissingTable]:
    """Check the target's table of each published table; returns the tables that are to be created.
    Columns are checked by :func:`warn_of_shapes`. Errors have the words of a major version of
    PostgreSQL.

    UsageError: 42P01, a table does not exist and is not to be created; 42809, a relation is of a
    kind that cannot be replicated into; 42710, two tables have the same name.
    """
    relations = [table.key for table in tables]
    missing = set(check_relations(target, relations, names, create_tables=create_tables, version=version))
    return design_tables(target, publisher, tables, [table for table in tables if table.key in missing], names, reshape)


def warn_of_shapes(
    target: Target,
    publisher: PublisherClient,
    published: SubscribedTables,
    options: SubscriptionOptions,
    notify: Notify,
) -> None:
    """Compare the existing tables with the published ones, and warn of differences at which copying
    or applying would stop. A table that is still to be created is skipped.

    PostgreSQL's commands do not check columns, and its workers fail later, so nothing is refused
    here. The texts are those of the errors of :mod:`subscriber.apply.relations.target_relations`
    and :mod:`subscriber.apply.statements.identity`.
    """
    with target.reporting(), target.engine.connect() as connection:
        places = [options.map.in_target(*table.key) for table in published.tables]
        tables = target.shapes.reflect_all(connection, places)
        for _, error in misfits(target, connection, publisher, published, options, tables):
            warning(notify, error.message, detail=error.detail, hint=error.hint)


def misfits(
    target: Target,
    connection: Connection,
    publisher: PublisherClient,
    published: SubscribedTables,
    options: SubscriptionOptions,
    tables: Mapping[TableName, TargetTable],
) -> Iterator[tuple[TableName, SubscriberError]]:
    """The differences of :func:`warn_of_shapes`. ``tables`` has the target's names."""
    there = RelationMap(target, connection, options.map, add_columns=options.schema_changes == "add_columns")
    announced = announced_relations(publisher.connection, published.tables)
    type_names = user_type_names(publisher.connection, announced)
    for relation in announced:
        key = relation.namespace, relation.name
        table = tables.get(options.map.in_target(*key))
        if table is None:
            continue
        changes = key in published.changing
        for error in _misfits(there, relation, table, options, changes=changes):
            named = options.map.qualified(*key)
            message = error.message if f'"{named}"' in error.message else f'table "{named}": {error.message}'
            detail, hint = (
                None if text is None else with_type_names(text, type_names) for text in (error.detail, error.hint)
            )
            yield key, error.replace(message=with_type_names(message, type_names), detail=detail, hint=hint)


def _misfits(
    there: RelationMap, relation: Relation, table: TargetTable, options: SubscriptionOptions, *, changes: bool
) -> Iterator[SubscriberError]:
    try:
        relation = transformed_relation(options.transform, options.history_rules.relation(relation))
        local = there.compare(relation, table)
    except (NotSupportedError, TargetRelationError) as error:
        yield error
        return
    # The publisher itself refuses to change rows of a table without a replica identity.
    identified = relation.replica_identity == "f" or any(column.is_identity for column in relation.columns)
    checks: list[Callable[[TargetRelation], object]] = [check_required]
    if changes and identified:
        checks.append(row_identity)
    for check in checks:
        try:
            check(local)
        except TargetRelationError as error:
            yield error


def check_relations(
    target: Target,
    relations: Sequence[TableName],
    names: RelationNames,
    *,
    create_tables: bool | None = None,
    version: int = 18,
) -> list[TableName]:
    """As :func:`check_tables`; ``create_tables`` is None if the command cannot create any."""
    names.check_distinct(relations, partial(table_identity, target))
    with target.reporting(), target.engine.connect() as connection:
        tables = target.shapes.reflect_all(connection, [names.in_target(*relation) for relation in relations])
    check = partial(check_relation, target, names=names, create_tables=create_tables, version=version)
    return [relation for relation in relations if check(relation, tables.get(names.in_target(*relation)))]


def check_relation(
    target: Target,
    relation: TableName,
    found: TargetTable | None,
    names: RelationNames,
    *,
    create_tables: bool | None = None,
    version: int = 18,
) -> bool:
    """As :func:`check_relations`, for one relation; returns whether its table is to be created."""
    qualified = names.qualified(*relation)
    if occupies(target, *names.in_target(*relation), found):
        raise UsageError(
            f'cannot use relation "{qualified}" as logical replication target',
            sqlstate="42809",
            detail="The target has a table of subscriber's catalog in this place.",
            relation=qualified,
            hint=f"Replicate it into a table of another name: WITH ({map_elsewhere(names, *relation)}).",
        )
    if found is None and create_tables:
        return True
    if found is None:
        raise UsageError(
            f'relation "{qualified}" does not exist',
            sqlstate="42P01",
            detail=_mapped_from(relation, names),
            relation=qualified,
            hint="Create the table at the subscriber, with the publisher's column names"
            + ("." if create_tables is None else ", or use WITH (create_tables = true)."),
        )
    if found.kind == "sequence" and version >= 19:
        raise UsageError(
            f'relation "{qualified}" type mismatch: source "table", target "sequence"',
            sqlstate="42809",
            relation=qualified,
        )
    if found.kind not in ("table", "partitioned table"):
        raise UsageError(
            f'cannot use relation "{qualified}" as logical replication target',
            sqlstate="42809",
            detail=f"This operation is not supported for {found.kind}s." if found.kind != "other" else None,
            relation=qualified,
        )
    return False


def _mapped_from(relation: TableName, names: RelationNames) -> str | None:
    if names.in_target(*relation) == relation:
        return None
    return f'Option "map" replicates the publisher\'s table "{".".join(relation)}" into it.'
