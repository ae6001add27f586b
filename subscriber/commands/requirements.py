"""The third check of options (:mod:`subscriber.catalog.subscription_options`): is it supported?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from subscriber.apply.writing.unrepresentable import refusal, refused_column
from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.base.imported_functions import catalog_function
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import target_identifier
from subscriber.catalog.subscription_options import OPTIONS, SubscriptionOptions
from subscriber.catalog.subscriptions import Subscription
from subscriber.commands import subscription_slots
from subscriber.commands.consumers import check_other_targets
from subscriber.commands.notices import Notify, warning
from subscriber.postgres.schema.conflict_resolvers import LAST_UPDATE_WINS, OF_ORIGINS, ConflictResolvers
from subscriber.postgres.schema.relation_names import RelationNames, TableName
from subscriber.postgres.schema.server_features import check_option_versions
from subscriber.postgres.schema.value_rules import ValueRules
from subscriber.publisher.client import PublisherClient
from subscriber.stream.journal.storage import journal_url, open_storage
from subscriber.targets import Target


def check_target(target: Target, options: Mapping[str, Any]) -> None:
    """``synchronous_commit`` waits for standbys, which a target may not have;
    ``retain_dead_tuples`` needs triggers, and ``parallel_apply`` a target with several writers.
    """
    value = options.get("synchronous_commit")
    if value in ("remote_write", "remote_apply") and not target.capabilities.standbys:
        raise NotSupportedError(
            f"synchronous_commit = {value} is not supported",
            detail=f"{target.capabilities.database} cannot wait for a standby: a commit waits only for the database's own disk.",
            hint="Use synchronous_commit = on.",
        )
    if options.get("retain_dead_tuples") and target.deleted_rows is None:
        raise NotSupportedError(
            "retain_dead_tuples = true is not supported",
            detail="Rows that other programs delete are known only by triggers, which this program does not create in"
            f" {target.capabilities.database}.",
            hint="Leave retain_dead_tuples out.",
        )
    if options.get("parallel_apply", 1) > 1 and not target.capabilities.row_locks:
        raise NotSupportedError(
            f"parallel_apply = {options['parallel_apply']} is not supported",
            detail=f"{target.capabilities.database} is not known to let several transactions write at a time, each of which locks only"
            " the rows that it changes.",
            hint="Leave parallel_apply out.",
        )


def check_resolvers(target: Target, resolvers: ConflictResolvers, settings: Settings) -> None:
    """Refuse resolvers that the target cannot obey, and functions that cannot be imported."""
    for function in resolvers.functions:
        catalog_function(function, "conflict resolver", settings)
    if not resolvers.compares_times and not resolvers.of_origins:
        return
    named = LAST_UPDATE_WINS if resolvers.compares_times else next(filter(resolvers.decides, OF_ORIGINS))
    if target.origins is None:
        raise NotSupportedError(
            f"a conflict resolver with {named} is not supported",
            detail=f"{target.capabilities.database} does not record when and by which origin a row was written last.",
            hint="Use apply_remote, keep_local, or a function that compares columns of the rows.",
        )
    with target.reporting(), target.engine.connect() as connection:
        tracked = target.origins.are_tracked(connection)
    if not tracked:
        raise NotSupportedError(
            f"{named} needs track_commit_timestamp in the target",
            sqlstate="55000",
            hint="Run ALTER SYSTEM SET track_commit_timestamp = on there, and start the server again.",
        )


def check_publisher(version: int, options: Mapping[str, Any]) -> None:
    """Refuse options for which the server is too old."""
    versions = needed_versions(options)
    check_option_versions(version, {name: options[name] for name in versions}, versions)


def check_retention(publisher: PublisherClient) -> None:
    """A standby cannot say which of the primary's transactions are still in progress."""
    if publisher.is_standby():
        raise UsageError(
            "cannot enable retain_dead_tuples if the publisher is in recovery",
            sqlstate="55000",
            hint="Let CONNECTION lead to the primary.",
        )


def needed_versions(options: Mapping[str, Any]) -> dict[str, int]:
    """The options that not every publisher supports, and the first version that does (F)."""
    return {
        name: option.since
        for name, option in OPTIONS.items()
        if option.since and options.get(name, option.default) != option.default
    }


def check_other_database(target: Target, connection: sa.Connection, system_identifier: str, database: str) -> None:
    """Refuse a subscription of a database to itself."""
    if target.cluster is not None and target.cluster.has_database(connection, system_identifier, database):
        raise NotSupportedError(
            "the publisher is the target itself",
            detail=f'CONNECTION names database "{database}", which is the target: every change would be applied to the table that it comes from.',
            hint="Replicate into another database.",
        )


def check_slot_is_free(others: Sequence[Subscription], slot: str, conninfo: str, system_identifier: str | None) -> None:
    """Refuse a slot of another subscription: each change would reach only one of them."""
    for other in others:
        known = other.system_identifier is not None and system_identifier is not None
        same = other.system_identifier == system_identifier if known else other.connection == conninfo
        if same and other.slot_name == slot:
            raise UsageError(
                f'replication slot "{slot}" is used by subscription "{other.name}"',
                sqlstate="55006",
                hint="Use another slot_name: a slot sends each change to one subscription only.",
            )


def check_slot_is_unused(
    target: Target, publisher: PublisherClient, settings: Settings, system_identifier: str, slot: str
) -> None:
    """Refuse a slot of another target's subscription (55006), or one that a session streams from,
    after waiting for a worker that was told to end (SlotInUse).
    """
    with target.reporting(), target.engine.connect() as connection:
        identifier = target_identifier(connection)
    check_other_targets(open_storage(journal_url(settings.journal, system_identifier, slot)), identifier, slot)
    if not subscription_slots.is_released(publisher, slot):
        raise subscription_slots.in_use(
            publisher,
            slot,
            "Use another slot_name: a slot sends each change to one subscription only. To take the slot over, first stop its receiver.",
        )


# unrepresentable_values ---------------------------------------------------------------------------


def check_value_rules(target: Target, rules: ValueRules, names: RelationNames) -> None:
    """Refuse named columns that the target lacks (42703), or where NULL cannot stand (42P16)."""
    named = list(rules.named())
    if not named:
        return
    with target.reporting(), target.engine.connect() as connection:
        for place, name in named:
            table = target.shapes.reflect(connection, *names.in_target(*place))
            if table is None:
                continue
            column, relation = table.column(name), names.qualified(*place)
            if column is None:
                raise UsageError(
                    f'column "{name}" of relation "{relation}" does not exist',
                    sqlstate="42703",
                    relation=relation,
                    hint="The option unrepresentable_values names columns as the target has them.",
                )
            reason = refusal(table.key or (), column)
            if reason is not None:
                raise refused_column(relation, name, reason)


# Tables that options name -------------------------------------------------------------------------


def warn_unused_tables(notify: Notify, options: SubscriptionOptions, relations: Collection[TableName]) -> None:
    """Warn of tables in options that are not published: the option may have an error."""
    named = {
        "unrepresentable_values": [table for table, *_ in options.unrepresentable_values.columns],
        "history_tables": [table for table, _ in options.history_tables],
        "transform": [*options.transform.tables],
    }
    for option, tables in named.items():
        for table in dict.fromkeys(tables):
            if table not in relations:
                name = ".".join(table)
                warning(notify, f'relation "{name}" of option "{option}" matches no table of the subscription')
