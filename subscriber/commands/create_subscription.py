"""CREATE SUBSCRIPTION (rules C53, C54, C55, D1, D9, D13).

The command changes two databases, and no transaction covers both. Therefore the slot is created
last but one: if storing the subscription then fails, the slot is dropped again. No data is copied
here. The tables are stored in the catalog with state i (to be copied), and ``subscriber run``
copies them.
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
from subscriber.commands.check_value_rules import check_value_rules, warn_unused_rules
from subscriber.commands.create_tables import MissingTable, create_missing_tables
from subscriber.commands.create_tables_differences import find_differences, tell_differences
from subscriber.commands.notices import Notify, notice, warn_of_hosts, warn_unused_names, warning
from subscriber.commands.publisher_connection import connected
from subscriber.commands.release_slot import remove_journal_of
from subscriber.commands.subscription_statements import CreateSubscription
from subscriber.errors import UsageError
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.positions.slot_position import check_slot_position
from subscriber.publisher.conninfo import check_conninfo
from subscriber.publisher.publisher import Publisher
from subscriber.schema.attributes import TableAttributes
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.shape import RelatedDifference
from subscriber.settings import Settings
from subscriber.targets import Target

_NOTHING: Final = SubscribedTables([])
"""The published tables when there is no connection to the publisher: none are known."""


def create_subscription(target: Target, command: CreateSubscription, settings: Settings, notify: Notify) -> None:
    """Execute CREATE SUBSCRIPTION.

    Raises:
        UsageError: the name is taken, a target table is missing, …
        PublisherError: the publisher is not ready; the message is the server's.
    """
    requirements.check_target(target, asdict(command.options))
    check_value_rules(target, command.options.unrepresentable_values, command.options.map)
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
    warn_of_hosts(notify, command.conninfo)
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
        requirements.check_slot_is_unused(target, publisher, settings, system_identifier, options.slot_name)
    if options.slot_name is not None and not options.create_slot and not options.copy_data:
        check_slot_position(target, settings, publisher, system_identifier, options.slot_name)
    published = check_publications(target, publisher, command.name, command.publications, options, notify)
    missing = check_tables(target, publisher, published.tables, options.map, create_tables=options.create_tables)
    differences = find_differences(publisher, missing)
    warn_of_shapes(target, publisher, published, options, notify)
    uncopied = []
    if not options.copy_data:
        publications = published.publications(publisher, command.publications)
        uncopied = read_uncopied(publisher, publications, published.tables)
    warn_unused_names(notify, options.map, [table.key for table in published.tables])
    warn_unused_rules(notify, options.unrepresentable_values, [table.key for table in published.tables])
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
    """Create the slot, or look up the existing slot that the command names.

    Returns the LSN at which the changes begin, or 0/0 if it is determined later. If tables are
    copied, the copies contain all changes of the slot that another subscription has not applied.
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
    """The publisher of a subscription, and the position at which the subscription begins.

    Attributes:
        system_identifier: the publisher's system identifier; None if the publisher was not
            connected to.
        start: the LSN at which the slot's changes begin; 0/0 if it is determined later.
        two_phase_state: the initial ``subtwophasestate``; None for the state with which PostgreSQL
            begins (C48).
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
