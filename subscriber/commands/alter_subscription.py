"""ALTER SUBSCRIPTION, except the forms that change publications and tables (rules C39, C40, C48,
C52, C54).

Every form checks first and then changes the catalog in one transaction of the target. A change that
cannot be rolled back - an option of the slot - comes last in it, as in PostgreSQL.

SET (system_identifier = '…') follows pg_upgrade (17 and later), which keeps logical slots, and
refuses to begin while a slot has not been sent all WAL. So all changes of the old cluster have been
received, and the WAL of the new one begins after that of the old. Only the user can know that a
server is the upgraded cluster. Everything else is checked::

    old system 7301   ──────────── D │                 D: the journal's end, after all changes of the old WAL
    new system 7644                  │ ──── C ─────▶   C: what the upgraded slot has confirmed; there are no changes between D and C

The journal gets the new name and identifier first, the catalog last. After a crash the user repeats
the command, which does the remaining steps.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from subscriber.apply.prepared import still_prepared
from subscriber.base import errors
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.catalog import subscriptions
from subscriber.catalog.cutovers import read_cutover
from subscriber.catalog.deleted_rows import delete_passed, record_relations
from subscriber.catalog.foreign_servers import server_conninfo
from subscriber.catalog.schema_changes import forget_oids
from subscriber.catalog.subscription_options import OPTIONS, SubscriptionOptions, check_combinations, read_options
from subscriber.catalog.subscriptions import (
    Subscription,
    adopt_slot,
    list_subscriptions,
    set_connection,
    set_enabled,
    set_options,
    set_skip_lsn,
    take_up_slot,
)
from subscriber.catalog.table_states import RelationState, relations_of
from subscriber.commands import requirements, subscription_grammar, subscription_slots
from subscriber.commands.check_publications import find_published_tables, warn_of_retention
from subscriber.commands.check_target_tables import check_relations
from subscriber.commands.check_transforms import check_transforms
from subscriber.commands.notices import (
    Notify,
    RetentionOptions,
    tell_of_retention,
    warn_of_hosts,
    warn_unused_names,
    warning,
)
from subscriber.commands.requirements import check_value_rules, warn_unused_tables
from subscriber.commands.server_commands import find_server, warn_without_mapping
from subscriber.commands.subscription_slots import connected, detach_journal, release_slot, while_progress_stands
from subscriber.postgres.schema.conflict_resolvers import NO_RESOLVERS, read_conflict_type, read_resolvers
from subscriber.postgres.schema.relation_names import RelationNames
from subscriber.postgres.schema.transform_values import with_fingerprint
from subscriber.postgres.sql.quoting import quote_identifier, quote_qualified_name
from subscriber.publisher.client import Slot
from subscriber.publisher.conninfo import check_conninfo
from subscriber.publisher.history import UNKNOWN_TIMELINE
from subscriber.stream.journal.control import JournalControl, read_control, write_control
from subscriber.stream.journal.positions import journal_positions
from subscriber.stream.journal.retention import undecided
from subscriber.stream.journal.segment import journal_entries
from subscriber.stream.journal.storage import Storage, journal_url, move_journal, open_storage
from subscriber.targets import Target

logger = logging.getLogger(__name__)


def alter_connection(
    target: Target, subscription: Subscription, command: subscription_grammar.AlterConnection, notify: Notify
) -> None:
    """The command connects to the publisher only for ``retain_dead_tuples``."""
    server, conninfo = 0, command.conninfo
    if command.server is not None:
        with target.reporting(), target.engine.connect() as connection:
            found = find_server(target, connection, command.server)
            warn_without_mapping(connection, found, notify)
            server, conninfo = found.oid, server_conninfo(connection, found)
    check_conninfo(conninfo)
    warn_of_hosts(notify, conninfo)
    if subscription.options.retain_dead_tuples:
        _check_retention(subscription, conninfo, subscription.options.origin, notify)
    with target.begin() as connection:
        set_connection(connection, subscription.subid, conninfo, server)


def _check_retention(subscription: Subscription, conninfo: str, origin: str, notify: Notify) -> None:
    """Refuse a publisher that cannot be asked for ``retain_dead_tuples``, and warn of changes of
    other origins (rules C18a, C55).
    """
    with connected(conninfo, subscription.name) as publisher:
        requirements.check_retention(publisher)
        if origin != "none":
            warn_of_retention(publisher, subscription.name, subscription.streamed_publications, notify)


def alter_enabled(
    target: Target, subscription: Subscription, command: subscription_grammar.AlterEnabled, notify: Notify
) -> None:
    """55000: there is no slot to stream from, the subscription was switched over, or a standby
    cannot be asked for ``retain_dead_tuples``. The worker asks a publisher that does not answer.
    """
    if command.enabled and subscription.slot_name is None:
        raise errors.UsageError("cannot enable subscription that does not have a slot name", sqlstate="55000")
    if command.enabled and subscription.options.retain_dead_tuples:
        try:
            _check_retention(subscription, subscription.conninfo, subscription.options.origin, notify)
        except errors.PublisherError as error:
            logger.debug("retain_dead_tuples is not checked: %s", error.message)
    with target.begin() as connection:
        if command.enabled:
            _check_not_switched(connection, subscription)
        set_enabled(connection, subscription.name, enabled=command.enabled)
    tell_of_retention(notify, _retention(subscription, {}), enabled=command.enabled, warns=True)


def _retention(subscription: Subscription, changes: Mapping[str, Any]) -> RetentionOptions:
    """The retention when the options have changed: with the option it begins, and ends, anew."""
    retain = changes.get("retain_dead_tuples", subscription.options.retain_dead_tuples)
    return RetentionOptions(retain, retain if "retain_dead_tuples" in changes else subscription.retention_active)


def _check_not_switched(connection: sa.Connection, subscription: Subscription) -> None:
    """Refuse to apply the publisher's changes to tables that an application writes by now."""
    cutover = read_cutover(connection, subscription.subid)
    if cutover is not None and cutover.state == "switched":
        name = shlex.quote(subscription.name)
        raise errors.UsageError(
            f'cannot enable subscription "{subscription.name}", which was switched over',
            sqlstate="55000",
            hint=f"To go back: subscriber cutover {name} --abandon. To stay: subscriber cutover {name} --finish.",
        )


def alter_skip(
    target: Target, subscription: Subscription, command: subscription_grammar.AlterSkip, version: int = 18
) -> None:
    """Rules C40, C41. Errors have the words of a major version of PostgreSQL."""
    given = read_options(command.options, "SKIP")
    lsn = given["lsn"]
    with target.begin() as connection:
        applied = subscription.progress.read(connection)
        if INVALID_LSN != lsn < applied:
            raise errors.UsageError(
                f"skip WAL location (LSN {format_lsn(lsn, version)}) must be greater than origin LSN"
                f" {format_lsn(applied, version)}"
            )
        set_skip_lsn(connection, subscription.subid, lsn)


def refuse_owner(command: subscription_grammar.AlterOwner) -> None:
    """Always refused: a subscriber has no roles."""
    detail = "subscriber has no roles: changes are applied as the user of the target URL."
    hint = "To apply changes as another user, start `subscriber run` with a target URL of that user."
    if command.owner is not None:
        raise errors.UsageError(f'role "{command.owner}" does not exist', sqlstate="42704", detail=detail, hint=hint)
    raise errors.NotSupportedError("ALTER SUBSCRIPTION … OWNER TO is not supported", detail=detail, hint=hint)


def rename_subscription(
    target: Target, subscription: Subscription, command: subscription_grammar.RenameSubscription
) -> None:
    with target.begin() as connection:
        subscriptions.rename_subscription(connection, subscription.subid, command.new_name)


# SET (…) -----------------------------------------------------------------------------------------


def alter_options(
    target: Target,
    subscription: Subscription,
    command: subscription_grammar.AlterOptions,
    settings: Settings,
    notify: Notify,
) -> None:
    """If the slot cannot be changed, the subscription is as it was before."""
    changes = read_options(command.options, "SET")
    if "system_identifier" in changes:
        if len(changes) > 1:
            raise errors.UsageError(
                '"system_identifier" cannot be altered together with another option', sqlstate="42601"
            )
        follow_upgrade(target, subscription, changes["system_identifier"], settings)
        return
    _check_slot_name(subscription, changes)
    _check_two_phase(subscription, changes)
    if "failover" in changes:
        _check_slot_option(subscription, "failover", of_slot=True)
    if "retain_dead_tuples" in changes:
        _check_slot_option(subscription, "retain_dead_tuples", of_slot=False)
    requirements.check_target(target, changes)
    check_combinations(replace(subscription.options, **changes))
    if changes.keys() & {"retain_dead_tuples", "max_retention_duration"}:
        limited = changes.get("max_retention_duration", subscription.options.max_retention_duration) > 0
        tell_of_retention(
            notify, _retention(subscription, changes), enabled=subscription.enabled, warns=False, limited=limited
        )
    if "map" in changes:
        _check_map(target, subscription, changes["map"], notify)
    if "unrepresentable_values" in changes:
        _check_value_rules(target, subscription, changes, notify)
    if "transform" in changes:
        changes["transform"] = with_fingerprint(changes["transform"])
        _check_transforms(target, subscription, changes, notify)
    slot_options = {name: changes[name] for name in ("failover",) if name in changes}
    if changes.get("two_phase") is False:
        slot_options["two_phase"] = False
    _check_publisher(subscription, changes, slot_options)
    retain = changes.get("retain_dead_tuples", subscription.options.retain_dead_tuples)
    if retain and ("retain_dead_tuples" in changes or changes.get("origin") == "any"):
        origin = changes.get("origin", subscription.options.origin)
        _check_retention(subscription, subscription.conninfo, origin, notify)
    if "retain_dead_tuples" in changes:
        _check_worker_has_ended(subscription)
    if "two_phase" in slot_options:
        _check_all_decided(target, subscription, settings)
    if "slot_name" in changes and changes["slot_name"] != subscription.slot_name:
        _change_slot_name(target, subscription, changes, settings, notify)
        return
    with target.begin() as connection:
        set_options(connection, subscription.subid, changes)
        if "retain_dead_tuples" in changes:
            record_relations(connection, target, subscription)
            delete_passed(connection, target)
        if slot_options:
            assert subscription.slot_name is not None
            subscription_slots.change_slot(
                subscription.conninfo, subscription.name, subscription.slot_name, **slot_options
            )
    if any(OPTIONS[name].streamed and value != getattr(subscription.options, name) for name, value in changes.items()):
        subscription_slots.end_receiver(subscription, notify)


def alter_resolvers(
    target: Target,
    subscription: Subscription,
    command: subscription_grammar.SetResolvers | subscription_grammar.ResetResolvers,
    settings: Settings,
) -> None:
    """The next batch obeys them."""
    resolvers = subscription.options.conflict_resolvers
    match command:
        case subscription_grammar.SetResolvers():
            resolvers = resolvers.altered(read_resolvers(command.resolvers))
        case subscription_grammar.ResetResolvers(conflict_type=None):
            resolvers = NO_RESOLVERS
        case subscription_grammar.ResetResolvers(conflict_type=str(name)):
            resolvers = resolvers.reset(read_conflict_type(name))
    check_combinations(replace(subscription.options, conflict_resolvers=resolvers))
    requirements.check_resolvers(target, resolvers, settings)
    with target.begin() as connection:
        set_options(connection, subscription.subid, {"conflict_resolvers": resolvers})


def _change_slot_name(
    target: Target, subscription: Subscription, changes: Mapping[str, Any], settings: Settings, notify: Notify
) -> None:
    """Detach the slot, and attach the named one (:mod:`subscriber.commands.slot_position`)."""
    slot = changes["slot_name"]
    if slot is not None and subscription.system_identifier is not None:
        _check_slot_is_unused(target, subscription, slot, settings)

    def change(connection: sa.Connection, applied: LSN) -> LSN:
        if slot is not None:
            others = [other for other in list_subscriptions(connection) if other.subid != subscription.subid]
            requirements.check_slot_is_free(others, slot, subscription.conninfo, subscription.system_identifier)
        release_slot(connection, subscription, applied)
        set_options(connection, subscription.subid, changes)
        take_up_slot(connection, subscription.subid)
        return applied

    applied = while_progress_stands(target, subscription, change)
    detach_journal(target, subscription, applied, settings, notify)


def _check_slot_is_unused(target: Target, subscription: Subscription, slot: str, settings: Settings) -> None:
    """Nobody else may use the slot. If the publisher cannot be asked, the worker checks it."""
    try:
        with connected(subscription.conninfo, subscription.name) as publisher:
            requirements.check_slot_is_unused(target, publisher, settings, publisher.system_identifier(), slot)
    except (errors.PublisherUnavailable, errors.PublisherNotReady) as error:
        logger.debug('slot "%s" is not checked: %s', slot, error.message)


def _check_slot_name(subscription: Subscription, changes: Mapping[str, Any]) -> None:
    if "slot_name" in changes and changes["slot_name"] is None and subscription.enabled:
        raise errors.UsageError("cannot set slot_name = NONE for enabled subscription", sqlstate="55000")


def _check_map(target: Target, subscription: Subscription, names: RelationNames, notify: Notify) -> None:
    """Every table must exist under its new name: a new one would lack the rows that were copied."""
    with target.reporting(), target.engine.connect() as connection:
        found = [(one.schema, one.name) for one in relations_of(connection, subscription.subid)]
    check_relations(target, found, names)
    if found:
        warn_unused_names(notify, names, found)


def _check_value_rules(target: Target, subscription: Subscription, changes: Mapping[str, Any], notify: Notify) -> None:
    rules = changes["unrepresentable_values"]
    check_value_rules(target, rules, changes.get("map", subscription.options.map))
    with target.reporting(), target.engine.connect() as connection:
        found = [(one.schema, one.name) for one in relations_of(connection, subscription.subid)]
    if found:
        warn_unused_tables(notify, SubscriptionOptions(unrepresentable_values=rules), found)


def _check_transforms(target: Target, subscription: Subscription, changes: Mapping[str, Any], notify: Notify) -> None:
    """Rows that are there keep their values until they are copied again: 55000 if the subscription
    is enabled.
    """
    rules, before = changes["transform"], subscription.options.transform
    with target.reporting(), target.engine.connect() as connection:
        relations = relations_of(connection, subscription.subid)
    found = {(one.schema, one.name): one.state for one in relations}
    changed = [
        key for key, state in found.items() if state is not RelationState.INIT and rules.of(*key) != before.of(*key)
    ]
    names = ", ".join(quote_qualified_name(*key) for key in changed)
    refresh = f"ALTER SUBSCRIPTION {quote_identifier(subscription.name)} REFRESH TABLE {names};"
    if changed and subscription.enabled:
        raise errors.UsageError(
            'cannot set option "transform" for enabled subscription',
            sqlstate="55000",
            detail=f"The rows of {names} have other values, and changes would not find them.",
            hint=f"First ALTER SUBSCRIPTION ... DISABLE. After this command: {refresh} and ALTER SUBSCRIPTION ... ENABLE.",
        )
    named = set(rules.tables)
    if named & found.keys():
        options = replace(subscription.options, **changes)
        with connected(subscription.conninfo, subscription.name) as publisher:
            tables = [
                table
                for table in find_published_tables(
                    target, publisher, subscription.publications, options, lambda _text: None
                ).tables
                if table.key in named
            ]
            check_transforms(target, publisher, tables, options, notify, expected=())
    if found:
        warn_unused_tables(notify, SubscriptionOptions(transform=rules), found.keys())
    if changed:
        warning(
            notify,
            "rows that are in the target keep the values that they have",
            detail=f"Their tables are {names}. Until they are copied again, UPDATE and DELETE may not find their rows.",
            hint=refresh,
        )


def _check_two_phase(subscription: Subscription, changes: Mapping[str, Any]) -> None:
    """Rule C52. The command turns the slot's option off; the walsender turns it on (E5)."""
    if "two_phase" not in changes:
        return
    off = not changes["two_phase"]
    _check_slot_option(subscription, "two_phase", of_slot=off)
    if off and "slot_name" in changes:
        raise errors.UsageError('"slot_name" and "two_phase" cannot be altered at the same time', sqlstate="42601")


def _check_all_decided(target: Target, subscription: Subscription, settings: Settings) -> None:
    """Rule C52: the publisher would send a prepared transaction again, with its commit."""
    storage = _journal(subscription, settings)
    with target.reporting(), target.engine.connect() as connection:
        left = still_prepared(target, connection, subscription.subid)
    if left or (storage is not None and undecided(journal_entries(storage))):
        raise errors.UsageError(
            'cannot disable "two_phase" when prepared transactions exist',
            sqlstate="55000",
            hint="Resolve these transactions and try again.",
        )


def _check_slot_option(subscription: Subscription, option: str, *, of_slot: bool) -> None:
    if subscription.enabled:
        raise errors.UsageError(f'cannot set option "{option}" for enabled subscription', sqlstate="55000")
    if of_slot and subscription.slot_name is None:
        raise errors.UsageError(
            f'cannot set option "{option}" for a subscription that does not have a slot name', sqlstate="55000"
        )


def _check_publisher(subscription: Subscription, changes: Mapping[str, Any], slot_options: Mapping[str, bool]) -> None:
    """Refuse what the publisher cannot do; REFRESH PUBLICATION checks it if it is unknown."""
    if not slot_options and (not requirements.needed_versions(changes) or subscription.system_identifier is None):
        return
    with connected(subscription.conninfo, subscription.name) as publisher:
        requirements.check_publisher(publisher.version, changes)
        if slot_options and subscription.slot_name is not None:
            # Without this wait the server would wait for the slot while the target's transaction is
            # open.
            if subscription_slots.is_released(publisher, subscription.slot_name):
                return
            raise errors.UsageError(
                f'cannot alter "{next(iter(slot_options))}" when logical replication worker is still running',
                sqlstate="55000",
                hint="Try again after some time.",
            )


def _check_worker_has_ended(subscription: Subscription) -> None:
    """55000: a batch that began before the option was altered would end after it."""
    if subscription.slot_name is None:
        return
    try:
        with connected(subscription.conninfo, subscription.name) as publisher:
            ended = subscription_slots.is_released(publisher, subscription.slot_name)
    except errors.PublisherError as error:
        logger.debug('slot "%s" is not checked: %s', subscription.slot_name, error.message)
        return
    if not ended:
        raise errors.UsageError(
            "cannot alter retain_dead_tuples when logical replication worker is still running",
            sqlstate="55000",
            hint="Try again after some time.",
        )


def _journal(subscription: Subscription, settings: Settings) -> Storage | None:
    """The journal of the slot; empty if the worker is on another machine."""
    if subscription.system_identifier is None or subscription.slot_name is None:
        return None
    return open_storage(journal_url(settings.journal, subscription.system_identifier, subscription.slot_name))


# SET (system_identifier = …) ----------------------------------------------------------------------


def follow_upgrade(target: Target, subscription: Subscription, identifier: str, settings: Settings) -> None:
    """Continue with the slot of an upgraded publisher. The subscription must be disabled."""
    if subscription.enabled:
        raise errors.UsageError('cannot set option "system_identifier" for enabled subscription', sqlstate="55000")
    old, slot_name = subscription.system_identifier, subscription.slot_name
    if old is None or slot_name is None:
        raise errors.UsageError(
            'cannot set option "system_identifier" for a subscription that has not replicated yet',
            sqlstate="55000",
            hint="The identifier is stored at the first connection to the publisher.",
        )
    if old == identifier:
        return
    slot = _upgraded_slot(subscription, slot_name, identifier)
    with _locked_journal(settings, old, identifier, slot_name) as (storage, control):
        received = journal_positions(storage.url)[0]
        if slot.confirmed_flush_lsn < received:
            raise errors.JournalGap(
                f"the slot is confirmed up to {format_lsn(slot.confirmed_flush_lsn)}, but changes up to {format_lsn(received)} were received",
                detail="The WAL of an upgraded cluster begins after that of the old one.",
                hint=f"This is not the publisher after pg_upgrade. {errors.COPY_FROM_SCRATCH}",
                lsn=received,
            )
        moved = control.moved(received=LSN(slot.confirmed_flush_lsn))
        write_control(storage, replace(moved, system_identifier=identifier, timeline=UNKNOWN_TIMELINE))
    here = journal_url(settings.journal, identifier, slot_name)
    if storage.url != here:
        move_journal(storage.url, here)
    with target.begin() as connection:
        adopt_slot(connection, subscription.subid, identifier)
        forget_oids(connection, subscription.subid)


def _upgraded_slot(subscription: Subscription, slot: str, identifier: str) -> Slot:
    with connected(subscription.conninfo, subscription.name) as publisher:
        found = publisher.system_identifier()
        if found != identifier:
            raise errors.UsageError(
                f"the publisher is system {found}, not {identifier}",
                hint="Give the identifier of the server that CONNECTION names, if that is the upgraded publisher.",
            )
        if not publisher.features.slots_survive_upgrade:
            raise errors.NotSupportedError(
                "pg_upgrade does not keep logical replication slots before PostgreSQL 17",
                detail=f"The publisher is PostgreSQL {publisher.version // 10000}.",
                hint=errors.COPY_FROM_SCRATCH,
            )
        publisher.check_server()
        return publisher.check_slot(slot)


@contextmanager
def _locked_journal(settings: Settings, old: str, new: str, slot: str) -> Iterator[tuple[Storage, JournalControl]]:
    """The slot's journal under its old or its new name, locked, with its control file."""
    for identifier in (old, new):
        storage = open_storage(journal_url(settings.journal, identifier, slot))
        control = read_control(storage)
        if control is not None:
            with storage.lock() as locked:
                if not locked:
                    raise errors.SlotInUse(
                        f'a receiver writes the journal at "{storage.url}"',
                        hint="The subscription was disabled a moment ago. Try again.",
                    )
                yield storage, control
            return
    raise errors.JournalGap(
        f'there is no journal of slot "{slot}" here',
        hint=f"Run the command on the machine of `subscriber run`, with the same SUBSCRIBER_JOURNAL (it is {settings.journal} here).",
    )
