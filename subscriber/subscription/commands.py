"""CREATE SUBSCRIPTION and DROP SUBSCRIPTION, carried out (rules C53, C54, D1, D13).

Both touch two databases, and neither has a transaction over both. CREATE makes the slot last but one: when storing the
subscription then fails, the slot is dropped again. DROP stops the worker, drops the slot, and forgets the subscription
only after that: a slot that nobody remembers would hold the publisher's WAL for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from subscriber.apply import progress
from subscriber.errors import PublisherError, SlotInUse, UsageError
from subscriber.journal.storage import journal_url, open_storage
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.receive.connection import ReplicationConnection
from subscriber.receive.publisher import PublishedTable, Publisher, connect_publisher
from subscriber.receive.slots import create_slot
from subscriber.settings import Settings
from subscriber.subscription import catalog
from subscriber.subscription.catalog import RelationState, Subscription
from subscriber.subscription.grammar import CreateSubscription, DropSubscription
from subscriber.target import Target

Notify = Callable[[str], None]
"""Told notices and warnings, each with its severity in front as psql prints it."""

_WORKER_STOP_SECONDS: Final = 15.0
"""How long DROP waits for a running worker to let go of the slot: it looks at the catalog about once a second."""


def create_subscription(target: Target, command: CreateSubscription, notify: Notify) -> None:
    """Carry out CREATE SUBSCRIPTION.

    Raises:
        UsageError: the name is taken, a target table is missing, …
        PublisherError: the publisher is not ready, in its own words.
    """
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    with target.begin() as connection:
        if catalog.find_subscription(connection, command.name) is not None:
            raise UsageError(
                f'subscription "{command.name}" already exists',
                sqlstate="42710",
                hint="Choose another name, or DROP SUBSCRIPTION it first.",
            )
    with connect_publisher(command.conninfo, command.name) as server:
        publisher = Publisher(server)
        publisher.check_server()
        _warn_missing(publisher.missing_publications(command.publications), notify)
        tables = publisher.published_tables(command.publications)
        _check_tables(target, tables)
        system_identifier = publisher.system_identifier()
        start = _make_slot(command, publisher, two_phase=command.options.two_phase and bool(tables), notify=notify)
        try:
            _store(target, command, tables=tables, system_identifier=system_identifier, start=start)
        except BaseException:
            if command.options.create_slot and command.options.slot_name:
                publisher.drop_slot(command.options.slot_name)
            raise


def drop_subscription(target: Target, command: DropSubscription, settings: Settings, notify: Notify) -> None:
    """Carry out DROP SUBSCRIPTION.

    Raises:
        UsageError: there is none of that name.
        PublisherError: the slot could not be dropped; the subscription is still there, disabled.
    """
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    with target.begin() as connection:
        subscription = catalog.find_subscription(connection, command.name)
        if subscription is None:
            if not command.if_exists:
                raise UsageError(f'subscription "{command.name}" does not exist', sqlstate="42704")
            notify(f'NOTICE:  subscription "{command.name}" does not exist, skipping')
            return
        catalog.set_enabled(connection, command.name, enabled=False)
    if subscription.slot_name is not None:
        _drop_slot(subscription, subscription.slot_name, notify)
        remove_journal(subscription, settings)
    with target.begin() as connection:
        catalog.delete_subscription(connection, command.name)


def _make_slot(command: CreateSubscription, publisher: Publisher, *, two_phase: bool, notify: Notify) -> LSN:
    """Make the slot, or look at the one that is to be used; gives where changes begin."""
    options = command.options
    if options.slot_name is None:
        return INVALID_LSN
    if not options.create_slot:
        slot = publisher.slot(options.slot_name)
        return slot.confirmed_flush_lsn if slot else INVALID_LSN
    with ReplicationConnection(command.conninfo, command.name) as replication:
        created = create_slot(
            replication, options.slot_name, snapshot="nothing", two_phase=two_phase, failover=options.failover
        )
    notify(f'NOTICE:  created replication slot "{options.slot_name}" on publisher')
    return created.consistent_point


def _store(
    target: Target,
    command: CreateSubscription,
    *,
    tables: Sequence[PublishedTable],
    system_identifier: str,
    start: LSN,
) -> None:
    with target.begin() as connection:
        subscription = catalog.insert_subscription(
            connection, command.name, command.conninfo, command.publications, command.options, system_identifier
        )
        for table in tables:
            # copy_data = false: there is nothing to wait for (rule D1).
            catalog.set_relation_state(connection, subscription.subid, table.schema, table.name, RelationState.READY)
        progress.create_progress(connection, subscription.origin, start)


def _warn_missing(missing: Sequence[str], notify: Notify) -> None:
    """Rule C54."""
    if len(missing) == 1:
        notify(f'WARNING:  publication "{missing[0]}" does not exist on the publisher')
    elif missing:
        names = ", ".join(f'"{name}"' for name in missing)
        notify(f"WARNING:  publications {names} do not exist on the publisher")


def _check_tables(target: Target, tables: Sequence[PublishedTable]) -> None:
    """Rule D13: every published table must be there."""
    with target.reporting(), target.engine.connect() as connection:
        for table in tables:
            if target.reflect(connection, table.schema, table.name) is None:
                raise UsageError(
                    f'relation "{table.schema}.{table.name}" does not exist',
                    sqlstate="42P01",
                    relation=f"{table.schema}.{table.name}",
                    hint="Create the table at the target, with the publisher's column names, then try again.",
                )


def _drop_slot(subscription: Subscription, slot: str, notify: Notify) -> None:
    try:
        with connect_publisher(subscription.conninfo, subscription.name) as server:
            deadline = time.monotonic() + _WORKER_STOP_SECONDS
            while True:
                try:
                    existed = Publisher(server).drop_slot(slot)
                    break
                except SlotInUse:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.2)
    except SlotInUse as error:
        raise SlotInUse(
            f'could not drop replication slot "{slot}" on publisher: {error.message}',
            hint="Stop the `subscriber run` that uses it, then try again; the subscription is disabled meanwhile.",
        ) from error
    except PublisherError as error:
        raise type(error)(
            f'could not connect to publisher when attempting to drop replication slot "{slot}": {error.message}',
            sqlstate=error.sqlstate,
            hint="Start the publisher and try again; the subscription is disabled meanwhile. "
            "If the publisher is gone for good, delete the subscription's rows from the subscriber_* tables of the target.",
        ) from error
    if existed:
        notify(f'NOTICE:  dropped replication slot "{slot}" on publisher')


def remove_journal(subscription: Subscription, settings: Settings) -> None:
    """Remove the journal of a slot that is gone; on another machine than the worker's there is nothing to remove."""
    if subscription.system_identifier is None or subscription.slot_name is None:
        return
    storage = open_storage(journal_url(settings.journal, subscription.system_identifier, subscription.slot_name))
    storage.delete([name for name, _ in storage.names()])
