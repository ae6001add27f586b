"""Checks the target's table of each published table: whether it exists and fits, what its
constraints refuse, and what a table that is to be created will not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from subscriber.apply.writing.unrepresentable import refusal, refused_column
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.check_publications import SubscribedTables
from subscriber.commands.check_target_tables import check_relations, warn_of_shapes
from subscriber.commands.check_value_rules import check_value_rules, warn_unused_rules
from subscriber.commands.create_tables import design_tables
from subscriber.commands.create_tables_differences import count_differences, find_differences
from subscriber.commands.notices import warn_unused_names
from subscriber.errors import SubscriberError
from subscriber.migration import check_target
from subscriber.migration.findings import Finding, finding_of_error, finding_of_notice
from subscriber.migration.schema.compared import Compared
from subscriber.migration.schema.surplus_constraints import surplus_constraints
from subscriber.publisher.publisher import Publisher
from subscriber.publisher.shapes import read_published_shape
from subscriber.publisher.table_objects import read_table_objects
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.table_objects import TableObjects
from subscriber.targets import Target
from subscriber.targets.ddl import new_columns, table_identity

_LISTED_APART: Final = frozenset({"view", "materialized view", "trigger", "rule", "policy"})
"""Kinds that are listed for the whole database (:func:`check_tables.list_unreplicated`)."""
_SURPLUS: Final = {
    "surplus not null": "only the target's column is NOT NULL",
    "surplus unique key": "only the target has this unique key",
    "inexact unique key": "the target's unique key takes texts that differ at the publisher for equal ones",
    "surplus check": "only the target has this CHECK constraint",
}
"""The message for each kind of :func:`surplus_constraints`."""


def check_target_tables(
    target: Target,
    publisher: Publisher,
    published: SubscribedTables,
    options: SubscriptionOptions,
    subscription: str | None,
) -> Iterator[Finding]:
    """The findings about the target's table of each published table.

    Args:
        target: the target.
        publisher: the publisher.
        published: the published tables.
        options: the options of the subscription.
        subscription: the subscription's name, if it exists already. Then its tables may have rows,
            and none is created any more.
    """
    yield from _value_rules(target, published, options)
    try:
        options.map.check_distinct([table.key for table in published.tables], partial(table_identity, target))
    except SubscriberError as error:
        yield finding_of_error(error, "target", "map")
        return
    objects = {
        (one.shape.schema, one.shape.name): one for one in read_table_objects(publisher.connection, published.tables)
    }
    missing = []
    for table in published.tables:
        try:
            absent = check_relations(target, [table.key], options.map, create_tables=options.create_tables)
        except SubscriberError as error:
            yield finding_of_error(error, "target", table.qualified_name)
            continue
        if absent and subscription is not None:
            yield check_target.missing_table(subscription, *table.key)
        if absent:
            missing.append(table)
            continue
        warnings: list[str] = []
        warn_of_shapes(target, publisher, SubscribedTables([table], published.changing), options, warnings.append)
        for text in warnings:
            yield replace(finding_of_notice(text, "target", table.qualified_name), severity="FAIL")
        if table.key in objects:
            yield from _surplus(target, objects[table.key], options)
        if options.copy_data and subscription is None:
            yield from _rows(target, table, options)
    if subscription is None:
        yield from _new_tables(target, publisher, published.tables, missing, options)


def _surplus(target: Target, objects: TableObjects, options: SubscriptionOptions) -> Iterator[Finding]:
    """The constraints that only the target's table has."""
    shape = objects.shape
    with target.reporting(), target.engine.connect() as connection:
        table = target.shapes.reflect(connection, *options.map.local(shape.schema, shape.name))
        if table is None:
            return
        found = target.objects.find(connection, table)
        both = Compared(
            target=target, connection=connection, objects=objects, table=table, found=found, names=options.map
        )
        for one in surplus_constraints(both):
            yield Finding(
                severity="WARN",
                area="target",
                object=f"{options.map.qualified(shape.schema, shape.name)}.{one.name}",
                message=_SURPLUS[one.kind],
                reason="A row of the publisher that violates it stops the copy or the apply.",
                remedy=" ".join(f"{statement};" for statement in one.by_hand) or None,
            )


def _value_rules(target: Target, published: SubscribedTables, options: SubscriptionOptions) -> Iterator[Finding]:
    """Names in the options that the command refuses, or that match no table."""
    try:
        check_value_rules(target, options.unrepresentable_values, options.map)
    except SubscriberError as error:
        yield finding_of_error(error, "target", "unrepresentable_values")
    keys = [table.key for table in published.tables]
    warnings: list[str] = []
    warn_unused_names(warnings.append, options.map, keys)
    warn_unused_rules(warnings.append, options.unrepresentable_values, keys)
    for text in warnings:
        yield finding_of_notice(text, "target", "options")


def _new_value_rules(
    target: Target, publisher: Publisher, table: PublishedTable, options: SubscriptionOptions
) -> Iterator[Finding]:
    """Columns of a table that is to be created in which NULL cannot take the place of values. The
    copy would stop there.
    """
    named = [column for place, column in options.unrepresentable_values.named() if place == table.key]
    shape = read_published_shape(publisher.connection, table) if named else None
    if shape is None:
        return
    columns = {column.name: column for column in new_columns(target, shape)}
    for name in named:
        reason = "the table has no such column"
        if name in columns:
            reason = refusal(shape.key, columns[name]) or ""
        if reason:
            error = refused_column(options.map.qualified(*table.key), name, reason)
            yield finding_of_error(error, "target", "unrepresentable_values")


def _rows(target: Target, table: PublishedTable, options: SubscriptionOptions) -> Iterator[Finding]:
    with target.reporting(), target.engine.connect() as connection:
        local = target.shapes.reflect(connection, *options.map.local(*table.key))
        if local is not None and local.has_rows(connection):
            name = options.map.qualified(*table.key)
            yield Finding(
                severity="WARN",
                area="target",
                object=name,
                message="the target's table has rows",
                reason="They stay. A copied row with the key of one of them stops the copy.",
                remedy="Delete them, or use WITH (copy_data = false).",
            )


def _new_tables(
    target: Target,
    publisher: Publisher,
    tables: Sequence[PublishedTable],
    missing: Sequence[PublishedTable],
    options: SubscriptionOptions,
) -> Iterator[Finding]:
    """What the tables that are to be created will not have."""
    if not missing:
        return
    designed = []
    for table in missing:
        try:
            designed += design_tables(target, publisher, tables, [table], options.map)
            yield from _new_value_rules(target, publisher, table, options)
        except SubscriberError as error:
            yield finding_of_error(error, "target", table.qualified_name)
    yield Finding(
        severity="INFO",
        area="target",
        object="create_tables",
        message=f"{len(designed):,} {'table' if len(designed) == 1 else 'tables'} will be created",
    )
    left_out = [one for one in find_differences(publisher, designed) if one.difference.kind not in _LISTED_APART]
    for line in count_differences(left_out):
        yield Finding(severity="INFO", area="target", object="create_tables", message=line)
