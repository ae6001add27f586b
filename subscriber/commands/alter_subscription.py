"""ALTER SUBSCRIPTION, except the forms that change publications and tables (rules C39, C40, C48,
C52, C54).

Every form checks first and then changes the catalog in one transaction of the target. A change that
cannot be rolled back - an option of the slot - comes last in this transaction, as in PostgreSQL. A
running worker reads the catalog at least once a second.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from subscriber import catalog
from subscriber.apply.prepared import still_prepared
from subscriber.catalog import Subscription
from subscriber.catalog.cutovers import read_cutover
from subscriber.commands import publisher_slots, requirements
from subscriber.commands.check_target_tables import check_relations
from subscriber.commands.check_value_rules import check_value_rules, warn_unused_rules
from subscriber.commands.notices import Notify, warn_of_hosts, warn_unused_names
from subscriber.commands.publisher_connection import connected
from subscriber.commands.release_slot import leave_journal, release_slot, while_progress_stands
from subscriber.commands.subscription_options import ALTERABLE, SKIPPING, read_options
from subscriber.commands.subscription_statements import (
    AlterConnection,
    AlterEnabled,
    AlterOptions,
    AlterOwner,
    AlterSkip,
    RenameSubscription,
)
from subscriber.commands.upgraded_publisher import follow_upgrade
from subscriber.errors import NotSupportedError, PublisherNotReady, PublisherUnavailable, UsageError
from subscriber.journal.retention import undecided
from subscriber.journal.segment import journal_entries
from subscriber.journal.storage import Storage, journal_url, open_storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.publisher.conninfo import check_conninfo
from subscriber.schema.relation_names import RelationNames
from subscriber.settings import Settings
from subscriber.targets import Target

logger = logging.getLogger(__name__)

_STREAMED: Final = ("origin", "binary", "streaming")
"""The options that decide what the publisher sends, and how."""


def alter_connection(target: Target, subscription: Subscription, command: AlterConnection, notify: Notify) -> None:
    """ALTER SUBSCRIPTION … CONNECTION. The command does not connect to the publisher.

    Raises:
        UsageError: it is not a connection string.
    """
    check_conninfo(command.conninfo)
    warn_of_hosts(notify, command.conninfo)
    with target.begin() as connection:
        catalog.set_connection(connection, subscription.subid, command.conninfo)


def alter_enabled(target: Target, subscription: Subscription, command: AlterEnabled) -> None:
    """ALTER SUBSCRIPTION … ENABLE, DISABLE.

    Raises:
        UsageError: 55000, the subscription has no slot to stream from, or was switched over.
    """
    if command.enabled and subscription.slot_name is None:
        raise UsageError("cannot enable subscription that does not have a slot name", sqlstate="55000")
    with target.begin() as connection:
        if command.enabled:
            _check_not_switched(connection, subscription)
        catalog.set_enabled(connection, subscription.name, enabled=command.enabled)


def _check_not_switched(connection: sa.Connection, subscription: Subscription) -> None:
    """Refuse to apply the publisher's changes to tables that an application writes by now."""
    cutover = read_cutover(connection, subscription.subid)
    if cutover is not None and cutover.state == "switched":
        name = shlex.quote(subscription.name)
        raise UsageError(
            f'cannot enable subscription "{subscription.name}", which was switched over',
            sqlstate="55000",
            hint=f"To go back: subscriber cutover {name} --abandon. To stay: subscriber cutover {name} --finish.",
        )


def alter_skip(target: Target, subscription: Subscription, command: AlterSkip) -> None:
    """ALTER SUBSCRIPTION … SKIP (rules C40, C41).

    Raises:
        UsageError: the LSN is malformed, or before the applied position.
    """
    given = read_options(command.options.sql, command.options.given, SKIPPING)
    lsn = given["lsn"]
    with target.begin() as connection:
        applied = subscription.progress.read(connection)
        if INVALID_LSN != lsn < applied:
            raise UsageError(
                f"skip WAL location (LSN {format_lsn(lsn)}) must be greater than origin LSN {format_lsn(applied)}"
            )
        catalog.set_skip_lsn(connection, subscription.subid, lsn)


def refuse_owner(command: AlterOwner) -> None:
    """ALTER SUBSCRIPTION … OWNER TO, which is always refused: a subscriber has no roles.

    Raises:
        UsageError: 42704, there is no role of that name.
        NotSupportedError: the command names the current role.
    """
    detail = "subscriber has no roles: changes are applied as the user of the target URL."
    hint = "To apply changes as another user, start `subscriber run` with a target URL of that user."
    if command.owner is not None:
        raise UsageError(f'role "{command.owner}" does not exist', sqlstate="42704", detail=detail, hint=hint)
    raise NotSupportedError("ALTER SUBSCRIPTION … OWNER TO is not supported", detail=detail, hint=hint)


def rename_subscription(target: Target, subscription: Subscription, command: RenameSubscription) -> None:
    """ALTER SUBSCRIPTION … RENAME TO.

    Raises:
        UsageError: 42710, the name is taken.
    """
    with target.begin() as connection:
        catalog.rename_subscription(connection, subscription.subid, command.new_name)


# SET (…) -----------------------------------------------------------------------------------------


def alter_options(
    target: Target, subscription: Subscription, command: AlterOptions, settings: Settings, notify: Notify
) -> None:
    """ALTER SUBSCRIPTION … SET (…).

    Raises:
        UsageError: an option is malformed, or cannot be changed now; a table that ``map`` names
            does not exist.
        NotSupportedError: the publisher or the target cannot do it.
        PublisherError: the slot could not be changed; the subscription is as it was before.
    """
    changes = read_options(command.options.sql, command.options.given, ALTERABLE)
    if "system_identifier" in changes:
        if len(changes) > 1:
            raise UsageError('"system_identifier" cannot be altered together with another option', sqlstate="42601")
        follow_upgrade(target, subscription, changes["system_identifier"], settings)
        return
    _check_slot_name(subscription, changes)
    _check_two_phase(subscription, changes)
    if "failover" in changes:
        _check_slot_option(subscription, "failover", of_slot=True)
    requirements.check_target(target, changes)
    if "map" in changes:
        _check_map(target, subscription, changes["map"], notify)
    if "unrepresentable_values" in changes:
        _check_value_rules(target, subscription, changes, notify)
    slot_options = {name: changes[name] for name in ("failover",) if name in changes}
    if changes.get("two_phase") is False:
        slot_options["two_phase"] = False
    _check_publisher(subscription, changes, slot_options)
    if "two_phase" in slot_options:
        _check_all_decided(target, subscription, settings)
    if "slot_name" in changes and changes["slot_name"] != subscription.slot_name:
        _change_slot_name(target, subscription, changes, settings, notify)
        return
    with target.begin() as connection:
        catalog.set_options(connection, subscription.subid, changes)
        if slot_options:
            assert subscription.slot_name is not None
            publisher_slots.change_slot(
                subscription.conninfo, subscription.name, subscription.slot_name, **slot_options
            )
    if any(name in changes and changes[name] != getattr(subscription.options, name) for name in _STREAMED):
        publisher_slots.end_receiver(subscription, notify)


def _change_slot_name(
    target: Target, subscription: Subscription, changes: Mapping[str, Any], settings: Settings, notify: Notify
) -> None:
    """Detach the subscription from its slot, and attach it to another slot if the command names one
    (:mod:`subscriber.positions.slot_position`).
    """
    slot = changes["slot_name"]
    if slot is not None and subscription.system_identifier is not None:
        _check_slot_is_unused(target, subscription, slot, settings)

    def change(connection: sa.Connection, applied: LSN) -> LSN:
        if slot is not None:
            others = [other for other in catalog.list_subscriptions(connection) if other.subid != subscription.subid]
            requirements.check_slot_is_free(others, slot, subscription.conninfo, subscription.system_identifier)
        release_slot(connection, subscription, applied)
        catalog.set_options(connection, subscription.subid, changes)
        catalog.take_up_slot(connection, subscription.subid)
        return applied

    applied = while_progress_stands(target, subscription, change)
    leave_journal(target, subscription, applied, settings, notify)


def _check_slot_is_unused(target: Target, subscription: Subscription, slot: str, settings: Settings) -> None:
    """Check that nobody else uses the slot.

    PostgreSQL does not ask the publisher. If it cannot be asked now, the worker checks this when it
    starts.
    """
    try:
        with connected(subscription.conninfo, subscription.name) as publisher:
            requirements.check_slot_is_unused(target, publisher, settings, publisher.system_identifier(), slot)
    except (PublisherUnavailable, PublisherNotReady) as error:
        logger.debug('slot "%s" is not checked: %s', slot, error.message)


def _check_slot_name(subscription: Subscription, changes: Mapping[str, Any]) -> None:
    if "slot_name" in changes and changes["slot_name"] is None and subscription.enabled:
        raise UsageError("cannot set slot_name = NONE for enabled subscription", sqlstate="55000")


def _check_map(target: Target, subscription: Subscription, names: RelationNames, notify: Notify) -> None:
    """Check that every table of the subscription exists under its new name.

    Missing tables are not created, since they would lack the rows that were copied before.
    """
    with target.reporting(), target.engine.connect() as connection:
        found = [(one.schema, one.name) for one in catalog.relations_of(connection, subscription.subid)]
    check_relations(target, found, names)
    if found:
        warn_unused_names(notify, names, found)


def _check_value_rules(target: Target, subscription: Subscription, changes: Mapping[str, Any], notify: Notify) -> None:
    rules = changes["unrepresentable_values"]
    check_value_rules(target, rules, changes.get("map", subscription.options.map))
    with target.reporting(), target.engine.connect() as connection:
        found = [(one.schema, one.name) for one in catalog.relations_of(connection, subscription.subid)]
    if found:
        warn_unused_rules(notify, rules, found)


def _check_two_phase(subscription: Subscription, changes: Mapping[str, Any]) -> None:
    """Check a change of ``two_phase`` (rule C52).

    The command turns the slot's option off. The walsender turns it on when all tables are ready
    (E5).
    """
    if "two_phase" not in changes:
        return
    off = not changes["two_phase"]
    _check_slot_option(subscription, "two_phase", of_slot=off)
    if off and "slot_name" in changes:
        raise UsageError('"slot_name" and "two_phase" cannot be altered at the same time', sqlstate="42601")


def _check_all_decided(target: Target, subscription: Subscription, settings: Settings) -> None:
    """Check that every prepared transaction was committed or rolled back (rule C52).

    Otherwise the publisher would send a prepared transaction again, with its commit. The worker has
    ended before this check.
    """
    storage = _journal(subscription, settings)
    with target.reporting(), target.engine.connect() as connection:
        left = still_prepared(target, connection, subscription.subid)
    if left or (storage is not None and undecided(journal_entries(storage))):
        raise UsageError(
            'cannot disable "two_phase" when prepared transactions exist',
            sqlstate="55000",
            hint="Resolve these transactions and try again.",
        )


def _check_slot_option(subscription: Subscription, option: str, *, of_slot: bool) -> None:
    if subscription.enabled:
        raise UsageError(f'cannot set option "{option}" for enabled subscription', sqlstate="55000")
    if of_slot and subscription.slot_name is None:
        raise UsageError(
            f'cannot set option "{option}" for a subscription that does not have a slot name', sqlstate="55000"
        )


def _check_publisher(subscription: Subscription, changes: Mapping[str, Any], slot_options: Mapping[str, bool]) -> None:
    """Check that the publisher supports the options that are switched on, and that its slot can be
    changed now.

    The publisher is not asked about the options of a subscription that has never been connected;
    REFRESH PUBLICATION checks them.
    """
    switched_on = changes.get("binary") or changes.get("two_phase") or changes.get("origin") == "none"
    if not slot_options and (not switched_on or subscription.system_identifier is None):
        return
    with connected(subscription.conninfo, subscription.name) as publisher:
        requirements.check_publisher(publisher.version, changes)
        if slot_options and subscription.slot_name is not None:
            # Without this wait the server would wait for the slot while the target's transaction is
            # open.
            if publisher_slots.is_released(publisher, subscription.slot_name):
                return
            raise UsageError(
                f'cannot alter "{next(iter(slot_options))}" when logical replication worker is still running',
                sqlstate="55000",
                hint="Try again after some time.",
            )


def _journal(subscription: Subscription, settings: Settings) -> Storage | None:
    """The journal of the slot. It is empty if the worker is on another machine; None if there is no
    slot.
    """
    if subscription.system_identifier is None or subscription.slot_name is None:
        return None
    return open_storage(journal_url(settings.journal, subscription.system_identifier, subscription.slot_name))
