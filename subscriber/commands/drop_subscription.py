"""DROP SUBSCRIPTION (rule C54): stop the worker, drop the slot, and then delete the subscription.

A slot that no catalog names would retain the publisher's WAL forever. If the slot cannot be
dropped, nothing has changed.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from subscriber import catalog
from subscriber.apply.prepared import forget_finished
from subscriber.catalog import RelationState, Subscription
from subscriber.catalog.cutovers import Cutover, find_cutover, held_cutover
from subscriber.catalog.dropped_tables import DroppedTable, remember_dropped_tables
from subscriber.commands import publisher_slots
from subscriber.commands.notices import Notify, first_names, notice, warning
from subscriber.commands.release_slot import delete_journal, remove_journal_of, tell_dropped
from subscriber.commands.subscription_statements import DropSubscription
from subscriber.errors import JournalError, PublisherError, UsageError
from subscriber.lsn import LSN
from subscriber.publisher.fence import lifting_statements
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.publisher.reverse_replication import dropping_statements
from subscriber.settings import Settings
from subscriber.targets import Target


def drop_subscription(target: Target, command: DropSubscription, settings: Settings, notify: Notify) -> None:
    """Execute DROP SUBSCRIPTION.

    Raises:
        UsageError: 42704, there is no subscription of that name; 55P03, another command carries out
            a cutover of it.
        PublisherError: the slot could not be dropped; the subscription is as it was before.
    """
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    with target.begin() as connection:
        subscription = catalog.find_subscription(connection, command.name)
        if subscription is None:
            if not command.if_exists:
                raise UsageError(f'subscription "{command.name}" does not exist', sqlstate="42704")
            notice(notify, f'subscription "{command.name}" does not exist, skipping')
            return
        cutover = find_cutover(connection, subscription.subid)
        if cutover is not None and cutover.is_held and not cutover.is_mine:
            raise held_cutover(command.name, cutover)
        catalog.set_enabled(connection, command.name, enabled=False)  # the worker reads this and ends
    _warn_unfinished(target, subscription, notify)
    if subscription.slot_name is not None:
        try:
            system_identifier = _drop_slot(subscription, subscription.slot_name)
        except BaseException:
            if subscription.enabled:
                with target.begin() as connection:
                    catalog.set_enabled(connection, command.name, enabled=True)
            raise
        notice(notify, f'dropped replication slot "{subscription.slot_name}" on publisher')
        # The slot has been dropped. If an error of the journal kept the subscription, it could only
        # be dropped in three steps.
        with contextlib.suppress(JournalError, UsageError):
            tell_dropped(subscription, _applied(target, subscription), settings, notify)
        remove_journal_of(system_identifier, subscription.slot_name, settings, notify)
    with target.begin() as connection:
        for released in catalog.released_slots(connection):
            if released.subscription == command.name:
                # A batch may have been committed while the slot was being released.
                applied = subscription.progress.read(connection)
                catalog.release_slot(connection, replace(released, applied=applied))
        remember_dropped_tables(connection, _tables(connection, subscription))
        catalog.delete_subscription(connection, command.name)
        if subscription.slot_name is not None:
            catalog.forget_released_slot(connection, system_identifier, subscription.slot_name)
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
    """The tables that the subscription has filled."""
    local = subscription.options.map.local
    return [
        DroppedTable(local(one.schema, one.name), (one.schema, one.name), subscription.name)
        for one in catalog.relations_of(connection, subscription.subid)
    ]


def _warn_of_cutover(cutover: Cutover, notify: Notify) -> None:
    """Say what a cutover leaves behind when its row is dropped."""
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
    """Warn of tables that do not have all rows of the publisher, before the slot is dropped that
    could still send them.
    """
    with target.reporting(), target.engine.connect() as connection:
        relations = catalog.relations_of(connection, subscription.subid)
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
    """Remove the journal of a slot that was dropped.

    If the worker is on another machine, there is nothing to remove.

    Raises:
        JournalError, UsageError: the journal cannot be accessed.
    """
    if subscription.system_identifier is not None and subscription.slot_name is not None:
        delete_journal(subscription.system_identifier, subscription.slot_name, settings)


def _drop_slot(subscription: Subscription, slot: str) -> str:
    """Drop the slot; returns the publisher's system identifier, which is part of the journal's
    name.
    """
    try:
        with connect_publisher(subscription.conninfo, subscription.name) as server:
            publisher = Publisher(server)
            system_identifier = subscription.system_identifier or publisher.system_identifier()
            publisher_slots.remove_slot(publisher, slot)
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
