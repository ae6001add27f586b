"""CREATE SUBSCRIPTION (rules C53, C54, C55, D1, D9, D13).

The command changes two databases, and no transaction covers both. So the slot is created last but
one: if storing the subscription then fails, the slot is dropped again. The tables are stored with
state i (to be copied), and ``subscriber run`` copies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from subscriber.base.errors import UsageError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.deleted_rows import record_relations
from subscriber.catalog.foreign_servers import server_conninfo
from subscriber.catalog.released import forget_released_slot
from subscriber.catalog.schema_changes import set_schema_differences, store_published_shapes
from subscriber.catalog.stored_publishing import store_publishing
from subscriber.catalog.subscription_options import option_values
from subscriber.catalog.subscriptions import (
    Subscription,
    TwoPhaseState,
    insert_subscription,
    list_subscriptions,
    set_connection,
)
from subscriber.catalog.table_states import RelationState, set_relation_states
from subscriber.commands import create_tables, requirements, subscription_slots
from subscriber.commands.check_publications import SubscribedTables, check_publications, read_uncopied, warn_of_origins
from subscriber.commands.check_target_tables import check_tables, warn_of_shapes
from subscriber.commands.check_transforms import check_transforms
from subscriber.commands.notices import (
    Notify,
    RetentionOptions,
    notice,
    tell_of_retention,
    warn_of_hosts,
    warn_unused_names,
    warning,
)
from subscriber.commands.requirements import check_value_rules, warn_unused_tables
from subscriber.commands.sequence_rows import follow_sequences
from subscriber.commands.server_commands import find_server, warn_without_mapping
from subscriber.commands.slot_position import check_slot_position
from subscriber.commands.subscription_grammar import CreateSubscription
from subscriber.commands.subscription_slots import connected, remove_journal_of
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import TableAttributes
from subscriber.postgres.schema.shape import RelatedDifference
from subscriber.postgres.schema.transform_values import with_fingerprint
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.conninfo import check_conninfo
from subscriber.targets import Target

_NOTHING: Final = SubscribedTables([])
"""The published tables when there is no connection to the publisher: none are known."""


_REFRESH: Final = "refresh the subscription"
"""The last step of a subscription without connection, in the words of versions before 19."""


def create_subscription(target: Target, command: CreateSubscription, settings: Settings, notify: Notify) -> None:
    requirements.check_target(target, option_values(command.options))
    requirements.check_resolvers(target, command.options.conflict_resolvers, settings)
    check_value_rules(target, command.options.unrepresentable_values, command.options.map)
    transform = with_fingerprint(command.options.transform)
    command = replace(command, options=replace(command.options, transform=transform))
    with target.reporting():
        ensure_catalog(target.engine)
        with target.engine.connect() as connection:
            others = list_subscriptions(connection)
    if any(other.name == command.name for other in others):
        raise UsageError(
            f'subscription "{command.name}" already exists',
            sqlstate="42710",
            hint="Choose another name, or DROP SUBSCRIPTION it first.",
        )
    if not target.is_throwaway:
        for lost in target.transactions.durability_warnings():
            warning(notify, lost.message, hint=lost.hint)
    options = command.options
    retains = RetentionOptions(options.retain_dead_tuples, options.retain_dead_tuples)
    limited = options.max_retention_duration > 0
    tell_of_retention(notify, retains, enabled=options.enabled, warns=True, limited=limited)
    server = 0
    if command.server is not None:
        with target.reporting(), target.engine.connect() as connection:
            found = find_server(target, connection, command.server)
            mapped = warn_without_mapping(connection, found, notify)
            connection_string = server_conninfo(connection, found) if mapped or options.connect else ""
            server = found.oid
        command = replace(command, conninfo=connection_string)
    check_conninfo(command.conninfo)
    warn_of_hosts(notify, command.conninfo)
    check_named_once(command.publications)
    if not command.options.connect:
        if command.options.slot_name is not None:
            requirements.check_slot_is_free(others, command.options.slot_name, command.conninfo, None)
        _store(target, command, notify, _Beginning(server=server))
        refresh = "alter the subscription to refresh publications" if settings.postgresql_version >= 19 else _REFRESH
        warning(
            notify,
            "subscription was created, but is not connected",
            hint="To initiate replication, you must manually create the replication slot, enable the subscription, "
            f"and {refresh}.",
        )
        return
    with connected(command.conninfo, command.name) as publisher:
        _create_connected(target, command, server, publisher, others, settings, notify)


def check_named_once(publications: Sequence[str]) -> None:
    """Refuse (42710) a list that names a publication twice (C54)."""
    for place, publication in enumerate(publications):
        if publication in publications[:place]:
            raise UsageError(f'publication name "{publication}" used more than once', sqlstate="42710")


def _create_connected(
    target: Target,
    command: CreateSubscription,
    server: int,
    publisher: PublisherClient,
    others: Sequence[Subscription],
    settings: Settings,
    notify: Notify,
) -> None:
    options = command.options
    publisher.check_server()
    requirements.check_publisher(publisher.version, option_values(options))
    if options.retain_dead_tuples:
        requirements.check_retention(publisher)
    system_identifier = publisher.system_identifier()
    with target.reporting(), target.engine.connect() as connection:
        requirements.check_other_database(target, connection, system_identifier, publisher.database)
    if options.slot_name is not None and not options.create_slot:
        requirements.check_slot_is_free(others, options.slot_name, command.conninfo, system_identifier)
        requirements.check_slot_is_unused(target, publisher, settings, system_identifier, options.slot_name)
    if options.slot_name is not None and not options.create_slot and not options.copy_data:
        check_slot_position(target, settings, publisher, system_identifier, options.slot_name)
    published = check_publications(target, publisher, command.publications, options, notify)
    warn_of_origins(publisher, command.name, command.publications, options, notify, settings.postgresql_version)
    version = settings.postgresql_version
    missing = check_tables(
        target,
        publisher,
        published.tables,
        options.map,
        create_tables=options.create_tables,
        version=version,
        reshape=options.shape,
    )
    differences = create_tables.find_differences(publisher, missing)
    warn_of_shapes(target, publisher, published, options, notify)
    uncopied = []
    if not options.copy_data:
        publications = published.publications(publisher, command.publications)
        uncopied = read_uncopied(publisher, publications, published.tables)
    check_transforms(target, publisher, published.tables, options, notify)
    warn_unused_names(notify, options.map, [table.key for table in published.tables])
    warn_unused_tables(notify, options, [table.key for table in published.tables])
    # Until all tables are ready, prepared transactions are sent as ordinary transactions: a copy
    # could miss a part of a prepared transaction (C48).
    ready = options.two_phase and options.create_slot and not options.copy_data and bool(published.tables)
    start = _make_slot(command, publisher, two_phase=ready, notify=notify)
    if options.create_slot and options.slot_name is not None:
        # The journal of an earlier slot of this name. If the publisher was restored since, the
        # journal's positions may be after the new slot's.
        remove_journal_of(system_identifier, options.slot_name, settings, notify)
    try:
        _store(
            target,
            command,
            notify,
            _Beginning(
                system_identifier, start, "e" if ready else None, slot_adopted=start != INVALID_LSN, server=server
            ),
            published,
            missing,
            differences,
            uncopied,
        )
    except BaseException:
        if options.create_slot and options.slot_name:
            publisher.drop_slot(options.slot_name)
        raise


def _make_slot(command: CreateSubscription, publisher: PublisherClient, *, two_phase: bool, notify: Notify) -> LSN:
    """Create the slot, or look up the one that the command names; returns the LSN at which the
    changes begin, or 0/0 if it is determined later. Copies contain all changes of the slot that
    another subscription has not applied.
    """
    options = command.options
    if options.slot_name is None:
        return INVALID_LSN
    if not options.create_slot:
        slot = publisher.slot(options.slot_name)
        return slot.confirmed_flush_lsn if slot and options.copy_data else INVALID_LSN
    created = subscription_slots.make_slot(
        command.conninfo, command.name, options.slot_name, two_phase=two_phase, failover=options.failover
    )
    notice(notify, f'created replication slot "{options.slot_name}" on publisher')
    return created.consistent_point


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Where a subscription begins. ``start`` is 0/0 and not adopted if it is determined later;
    ``two_phase_state`` is None for PostgreSQL's (C48), ``system_identifier`` None without a
    connection, ``server`` 0 without SERVER.
    """

    system_identifier: str | None = None
    start: LSN = INVALID_LSN
    two_phase_state: TwoPhaseState | None = None
    slot_adopted: bool = False
    server: int = 0


def _store(
    target: Target,
    command: CreateSubscription,
    notify: Notify,
    beginning: _Beginning,
    published: SubscribedTables = _NOTHING,
    missing: Sequence[create_tables.MissingTable] = (),
    differences: Sequence[RelatedDifference] = (),
    uncopied: Sequence[tuple[PublishedTable, TableAttributes]] = (),
) -> None:
    state = RelationState.INIT if command.options.copy_data else RelationState.READY
    with target.begin() as connection:
        create_tables.create_missing_tables(target, connection, missing, notify)
        create_tables.notify_of_differences(differences, notify)
        subscription = insert_subscription(
            connection,
            command.name,
            command.conninfo,
            command.publications,
            command.options,
            beginning.system_identifier,
            beginning.two_phase_state,
            slot_adopted=beginning.slot_adopted,
        )
        if beginning.server:
            set_connection(connection, subscription.subid, "", beginning.server)
        if beginning.slot_adopted and beginning.system_identifier and command.options.slot_name:
            forget_released_slot(connection, beginning.system_identifier, command.options.slot_name)
        set_schema_differences(connection, subscription.subid, differences)
        if published.publishing is not None:
            store_publishing(connection, subscription.subid, published.publishing)
        tables = [table.key for table in published.tables]
        set_relation_states(connection, subscription.subid, tables, state)
        followed = follow_sequences(target, connection, subscription, published.sequences, notify)
        set_relation_states(connection, subscription.subid, followed, state, are_sequences=True)
        store_published_shapes(connection, subscription.subid, uncopied)
        subscription.progress.create(connection, beginning.start)
        if command.options.retain_dead_tuples:
            record_relations(connection, target, subscription)
