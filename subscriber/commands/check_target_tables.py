"""Checks of a subscription's tables in the target. They must exist, or ``create_tables`` creates
them (rule D13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from subscriber import catalog
from subscriber.apply.relations.local_relations import LocalRelation, RelationMap
from subscriber.apply.relations.relation_checks import check_required
from subscriber.apply.statements.identity import row_identity
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.check_publications import SubscribedTables
from subscriber.commands.create_tables import MissingTable, design_tables
from subscriber.commands.notices import Notify, warning
from subscriber.errors import SubscriberError, TargetRelationError, UsageError
from subscriber.protocol.messages import Relation
from subscriber.publisher.announced import announced_relations
from subscriber.publisher.publisher import Publisher
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.relation_names import SAME_NAMES, RelationNames, TableName
from subscriber.targets import Target
from subscriber.targets.ddl import table_identity


def check_tables(
    target: Target,
    publisher: Publisher,
    tables: Sequence[PublishedTable],
    names: RelationNames = SAME_NAMES,
    *,
    create_tables: bool,
) -> list[MissingTable]:
    """Check the target's table of each published table; returns the tables that are to be created.

    Columns are not checked here; :func:`warn_of_shapes` checks them.

    Args:
        target: the database of the tables.
        publisher: the publisher; it is queried for the columns of tables that are to be created.
        tables: the published tables.
        names: maps the publisher's names to the target's.
        create_tables: whether missing tables are to be created.

    Raises:
        UsageError: 42P01, a table does not exist and is not to be created; 42809, a relation is of
            a kind that cannot be replicated into; 42710, two tables have the same name.
        PublisherNotReady: a table was dropped at the publisher in the meantime.
    """
    missing = set(check_relations(target, [table.key for table in tables], names, create_tables=create_tables))
    return design_tables(target, publisher, tables, [table for table in tables if table.key in missing], names)


def warn_of_shapes(
    target: Target, publisher: Publisher, published: SubscribedTables, options: SubscriptionOptions, notify: Notify
) -> None:
    """Compare the existing tables with the published ones, and warn of differences at which copying
    or applying would stop.

    PostgreSQL's commands do not check columns, and its workers fail later. Therefore nothing is
    refused here. The warnings have the texts of the errors of
    :mod:`subscriber.apply.relations.local_relations` and
    :mod:`subscriber.apply.statements.identity`. A table that is still to be created is skipped.

    Raises:
        PublisherError: the publisher could not be queried.
        TargetError: the target could not be read.
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
    # The publisher itself refuses to change rows of a table without a replica identity.
    identified = relation.replica_identity == "f" or any(column.is_identity for column in relation.columns)
    checks: list[Callable[[LocalRelation], object]] = [check_required]
    if changes and identified:
        checks.append(row_identity)
    for check in checks:
        try:
            check(local)
        except TargetRelationError as error:
            yield error


def check_relations(
    target: Target, relations: Sequence[TableName], names: RelationNames, *, create_tables: bool | None = None
) -> list[TableName]:
    """Check the target's table of each relation; returns the relations whose table is to be
    created.

    Args:
        target: the database of the tables.
        relations: the relations, by the publisher's names.
        names: maps the publisher's names to the target's.
        create_tables: whether missing tables are to be created; None if the command cannot create
            tables.

    Raises:
        UsageError: as :func:`check_tables`.
    """
    names.check_distinct(relations, partial(table_identity, target))
    missing = []
    with target.reporting(), target.engine.connect() as connection:
        for relation in relations:
            qualified = names.qualified(*relation)
            if catalog.is_own_table(names, *relation):
                raise UsageError(
                    f'cannot use relation "{qualified}" as logical replication target',
                    sqlstate="42809",
                    detail="The table has the name of one of subscriber's catalog tables.",
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
    return f'Option "map" replicates the publisher\'s table "{".".join(relation)}" into it.'
