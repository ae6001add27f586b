"""DROP SUBSCRIPTION (rule C54): stop the worker, drop the slot, and then delete the subscription. A
slot that no catalog names would retain the publisher's WAL forever, so nothing changes if it cannot
be dropped.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from subscriber.apply.prepared import forget_finished
from subscriber.base.errors import JournalError, PublisherError, UsageError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.cutovers import Cutover, held_cutover, read_cutover
from subscriber.catalog.deleted_rows import delete_passed, record_relations
from subscriber.catalog.released import (
    DroppedTable,
    forget_released_slot,
    release_slot,
    released_slots,
    store_dropped_tables,
)
from subscriber.catalog.subscriptions import (
    Subscription,
    delete_subscription,
    find_subscription,
    set_enabled,
    set_options,
)
from subscriber.catalog.table_states import RelationState, relations_of
from subscriber.commands import subscription_slots
from subscriber.commands.notices import Notify, first_names, notice, warning
from subscriber.commands.subscription_grammar import DropSubscription
from subscriber.commands.subscription_slots import delete_journal, remove_journal_of, warn_dropped
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.fence.read_only import lifting_statements
from subscriber.publisher.fence.reverse_replication import dropping_statements
from subscriber.targets import Target


def drop_subscription(target: Target, command: DropSubscription, settings: Settings, notify: Notify) -> None:
    """55P03: another command carries out a cutover of it."""
    with target.reporting():
        ensure_catalog(target.engine)
    with target.begin() as connection:
        subscription = find_subscription(connection, command.name)
        if subscription is None:
            if not command.if_exists:
                raise UsageError(f'subscription "{command.name}" does not exist', sqlstate="42704")
            notice(notify, f'subscription "{command.name}" does not exist, skipping')
            return
        cutover = read_cutover(connection, subscription.subid)
        if cutover is not None and cutover.is_held and not cutover.is_mine:
            raise held_cutover(command.name, cutover, cutover.lease)
        set_enabled(connection, command.name, enabled=False)  # the worker reads this and ends
    _warn_unfinished(target, subscription, notify)
    if subscription.slot_name is not None:
        try:
            system_identifier = _drop_slot(subscription, subscription.slot_name)
        except BaseException:
            if subscription.enabled:
                with target.begin() as connection:
                    set_enabled(connection, command.name, enabled=True)
            raise
        notice(notify, f'dropped replication slot "{subscription.slot_name}" on publisher')
        # The slot has been dropped. If an error of the journal kept the subscription, it could only
        # be dropped in three steps.
        with contextlib.suppress(JournalError, UsageError):
            warn_dropped(subscription, _applied(target, subscription), settings, notify)
        remove_journal_of(system_identifier, subscription.slot_name, settings, notify)
    with target.begin() as connection:
        for released in released_slots(connection):
            if released.subscription == command.name:
                # A batch may have been committed while the slot was being released.
                applied = subscription.progress.read(connection)
                release_slot(connection, replace(released, applied=applied))
        store_dropped_tables(connection, _tables(connection, subscription))
        if subscription.options.retain_dead_tuples:
            set_options(connection, subscription.subid, {"retain_dead_tuples": False})
            record_relations(connection, target, subscription)
            delete_passed(connection, target)
        delete_subscription(connection, command.name)
        if subscription.slot_name is not None:
            forget_released_slot(connection, system_identifier, subscription.slot_name)
        if target.origins is not None:
            target.origins.drop(connection, subscription.origin)
        left = forget_finished(target, connection, subscription.subid)
    if cutover is not None and not cutover.is_mine:
        _warn_of_cutover(cutover, notify)
    for transaction in left:
        # PostgreSQL leaves the prepared transaction in place, too, but does not report it.
        warning(
            notify,
            f'prepared transaction "{transaction.gid}" is left in the target',
            hint="Run COMMIT PREPARED or ROLLBACK PREPARED there: the transaction holds its locks until then.",
        )


def _tables(connection: sa.Connection, subscription: Subscription) -> list[DroppedTable]:
    local = subscription.options.map.in_target
    return [
        DroppedTable(local(one.schema, one.name), (one.schema, one.name), subscription.name)
        for one in relations_of(connection, subscription.subid)
    ]


def _warn_of_cutover(cutover: Cutover, notify: Notify) -> None:
    fence, reverse = cutover.options.get("fence"), cutover.options.get("reverse")
    if fence is not None:
        warning(
            notify,
            f'the fence around database "{fence["database"]}" of the publisher stays',
            hint=f"To lift it, run at the publisher: {lifting_statements(fence['database'], fence['former'])}",
        )
    if reverse is not None:
        old, new = dropping_statements(reverse["name"])
        warning(
            notify,
            f'the way back "{reverse["name"]}" stays',
            hint=f"To end it, run at the old publisher: {old} and then at the target: {new}",
        )


def _warn_unfinished(target: Target, subscription: Subscription, notify: Notify) -> None:
    """Warn of tables that lack rows, before the slot is dropped that could send them."""
    with target.reporting(), target.engine.connect() as connection:
        relations = relations_of(connection, subscription.subid)
    for states, what, detail in _UNFINISHED:
        names = [one.qualified_name for one in relations if one.state in states]
        if names:
            count = "1 table" if len(names) == 1 else f"{len(names):,} tables"
            were = "was" if len(names) == 1 else "were"
            message = f'{count} of subscription "{subscription.name}" {were} {what}: {first_names(names)}'
            warning(notify, message, detail=detail)


_UNFINISHED: Final = (
    (
        {RelationState.INIT, RelationState.DATASYNC},
        "never copied",
        "Rows that the publisher had before the subscription was created are not in the target.",
    ),
    (
        {RelationState.FINISHEDCOPY},
        "copied but not caught up",
        "Changes that were made at the publisher during the copy are not in the target.",
    ),
)


def _applied(target: Target, subscription: Subscription) -> LSN:
    with target.reporting(), target.engine.connect() as connection:
        return subscription.progress.read(connection)


def remove_journal(subscription: Subscription, settings: Settings) -> None:
    """Remove the journal of a slot that was dropped, if it is on this machine."""
    if subscription.system_identifier is not None and subscription.slot_name is not None:
        delete_journal(subscription.system_identifier, subscription.slot_name, settings)


def _drop_slot(subscription: Subscription, slot: str) -> str:
    """Drop the slot; returns the system identifier, a part of the journal's name."""
    try:
        with connect_publisher(subscription.conninfo, subscription.name) as server:
            publisher = PublisherClient(server)
            system_identifier = subscription.system_identifier or publisher.system_identifier()
            subscription_slots.remove_slot(publisher, slot)
            return system_identifier
    except PublisherError as error:
        if not error.refused:
            raise
        raise type(error)(
            f'could not connect to publisher when attempting to drop replication slot "{slot}": {error.refused}',
            sqlstate=error.sqlstate,
            hint="Use ALTER SUBSCRIPTION ... DISABLE to disable the subscription, and then use "
            "ALTER SUBSCRIPTION ... SET (slot_name = NONE) to disassociate it from the slot.",
        ) from error
