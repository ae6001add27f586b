"""CREATE SUBSCRIPTION (rules C53, C54, C55, D1, D9, D13).

It touches two databases without a transaction over both, so the slot is made last but one: when
storing the subscription then fails, the slot is dropped again. No data is copied here: the tables
are written down as to be copied (state i), and ``subscriber run`` copies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from subscriber import catalog
from subscriber.catalog import RelationState, TwoPhaseState
from subscriber.catalog.kept_publishing import keep_publishing
from subscriber.commands import publisher_slots, requirements
from subscriber.commands.check_publications import SubscribedTables, check_publications, read_uncopied
from subscriber.commands.check_target_tables import check_tables, warn_of_shapes
from subscriber.commands.create_tables import MissingTable, create_missing_tables
from subscriber.commands.create_tables_differences import find_differences, tell_differences
from subscriber.commands.notices import Notify, notice, warn_unused_names, warning
from subscriber.commands.publisher_connection import connected
from subscriber.commands.release_slot import remove_journal_of
from subscriber.commands.subscription_statements import CreateSubscription
from subscriber.errors import UsageError
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.positions.slot_position import check_slot_position
from subscriber.publisher.connection import check_conninfo
from subscriber.publisher.publisher import Publisher
from subscriber.schema.attributes import TableAttributes
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.shape import RelatedDifference
from subscriber.settings import Settings
from subscriber.targets import Target

_NOTHING: Final = SubscribedTables([])
"""What is known without a connection."""


def create_subscription(target: Target, command: CreateSubscription, settings: Settings, notify: Notify) -> None:
    """Carry out CREATE SUBSCRIPTION.

    Raises:
        UsageError: the name is taken, a target table is missing, …
        PublisherError: the publisher is not ready, in its own words.
    """
    requirements.check_target(target, asdict(command.options))
    with target.reporting():
        catalog.ensure_catalog(target.engine)
        with target.engine.connect() as connection:
            others = catalog.list_subscriptions(connection)
    if any(other.name == command.name for other in others):
        raise UsageError(
            f'subscription "{command.name}" already exists',
            sqlstate="42710",
            hint="Choose another name, or DROP SUBSCRIPTION it first.",
        )
    if not target.is_throwaway:
        for lost in target.transactions.durability_warnings():
            warning(notify, lost.message, hint=lost.hint)
    check_conninfo(command.conninfo)
    check_named_once(command.publications)
    if not command.options.connect:
        if command.options.slot_name is not None:
            requirements.check_slot_is_free(others, command.options.slot_name, command.conninfo, None)
        _store(target, command, notify, _Beginning())
        warning(
            notify,
            "subscription was created, but is not connected",
            hint="To initiate replication, you must manually create the replication slot, enable the subscription, "
            "and refresh the subscription.",
        )
        return
    with connected(command.conninfo, command.name) as publisher:
        _create_connected(target, command, publisher, others, settings, notify)


def check_named_once(publications: Sequence[str]) -> None:
    """Refuse a list that names a publication twice (C54).

    Raises:
        UsageError: 42710.
    """
    for place, publication in enumerate(publications):
        if publication in publications[:place]:
            raise UsageError(f'publication name "{publication}" used more than once', sqlstate="42710")


def _create_connected(
    target: Target,
    command: CreateSubscription,
    publisher: Publisher,
    others: Sequence[catalog.Subscription],
    settings: Settings,
    notify: Notify,
) -> None:
    options = command.options
    publisher.check_server()
    requirements.check_publisher(publisher.version, asdict(options))
    system_identifier = publisher.system_identifier()
    with target.reporting(), target.engine.connect() as connection:
        requirements.check_other_database(target, connection, system_identifier, publisher.database)
    if options.slot_name is not None and not options.create_slot:
        requirements.check_slot_is_free(others, options.slot_name, command.conninfo, system_identifier)
    if options.slot_name is not None and not options.create_slot and not options.copy_data:
        check_slot_position(target, settings, publisher, system_identifier, options.slot_name)
    published = check_publications(target, publisher, command.name, command.publications, options, notify)
    missing = check_tables(target, publisher, published.tables, options.map, create_tables=options.create_tables)
    differences = find_differences(publisher, missing)
    warn_of_shapes(target, publisher, published, options, notify)
    uncopied = []
    if not options.copy_data:
        uncopied = read_uncopied(
            publisher, command.publications, published.tables, emulated=options.carrier is not None
        )
    warn_unused_names(notify, options.map, [table.key for table in published.tables])
    # Until all tables are ready, prepared transactions come as ordinary ones: a copy could miss a
    # part of them (C48).
    ready = options.two_phase and options.create_slot and not options.copy_data and bool(published.tables)
    start = _make_slot(command, publisher, two_phase=ready, notify=notify)
    if options.create_slot and options.slot_name is not None:
        # Of an earlier slot of this name. On a publisher that was restored since, its positions may
        # lie beyond the new slot's.
        remove_journal_of(system_identifier, options.slot_name, settings, notify)
    try:
        _store(
            target,
            command,
            notify,
            _Beginning(system_identifier, start, "e" if ready else None, slot_adopted=start != INVALID_LSN),
            published,
            missing,
            differences,
            uncopied,
        )
    except BaseException:
        if options.create_slot and options.slot_name:
            publisher.drop_slot(options.slot_name)
        raise


def _make_slot(command: CreateSubscription, publisher: Publisher, *, two_phase: bool, notify: Notify) -> LSN:
    """Make the slot, or look at the one that is to be used; gives where changes begin, and 0/0
    where that is to be found out.

    Whatever another subscription has not applied of the slot is in the copies of the tables, if
    they are made.
    """
    options = command.options
    if options.slot_name is None:
        return INVALID_LSN
    if not options.create_slot:
        slot = publisher.slot(options.slot_name)
        return slot.confirmed_flush_lsn if slot and options.copy_data else INVALID_LSN
    created = publisher_slots.make_slot(
        command.conninfo, command.name, options.slot_name, two_phase=two_phase, failover=options.failover
    )
    notice(notify, f'created replication slot "{options.slot_name}" on publisher')
    return created.consistent_point


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Whom a subscription replicates from, and where it begins.

    Attributes:
        system_identifier: of the publisher; None when it was not asked.
        start: where the slot's changes begin; 0/0 where that is still to be found out.
        two_phase_state: None is where PostgreSQL begins (C48).
        slot_adopted: whether ``start`` is known.
    """

    system_identifier: str | None = None
    start: LSN = INVALID_LSN
    two_phase_state: TwoPhaseState | None = None
    slot_adopted: bool = False


def _store(
    target: Target,
    command: CreateSubscription,
    notify: Notify,
    beginning: _Beginning,
    published: SubscribedTables = _NOTHING,
    missing: Sequence[MissingTable] = (),
    differences: Sequence[RelatedDifference] = (),
    uncopied: Sequence[tuple[PublishedTable, TableAttributes]] = (),
) -> None:
    state = RelationState.INIT if command.options.copy_data else RelationState.READY
    with target.begin() as connection:
        create_missing_tables(target, connection, missing, notify)
        tell_differences(differences, notify)
        subscription = catalog.insert_subscription(
            connection,
            command.name,
            command.conninfo,
            command.publications,
            command.options,
            beginning.system_identifier,
            beginning.two_phase_state,
            slot_adopted=beginning.slot_adopted,
        )
        if beginning.slot_adopted and beginning.system_identifier and command.options.slot_name:
            catalog.forget_released_slot(connection, beginning.system_identifier, command.options.slot_name)
        catalog.set_schema_differences(connection, subscription.subid, differences)
        if published.publishing is not None:
            keep_publishing(connection, subscription.subid, published.publishing)
        tables = [table.key for table in published.tables]
        catalog.set_relation_states(connection, subscription.subid, tables, state)
        catalog.keep_published_shapes(connection, subscription.subid, uncopied)
        subscription.progress.create(connection, beginning.start)
