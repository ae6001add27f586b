"""DROP SUBSCRIPTION (rule C54): stop the worker, drop the slot, and forget the subscription only after that.

A slot that nobody remembers would hold the publisher's WAL for ever. Where the slot cannot be dropped, nothing has changed.
"""

from __future__ import annotations

from subscriber.apply.prepared import forget_finished
from subscriber.errors import JournalError, PublisherError, UsageError
from subscriber.journal.storage import journal_url, open_storage
from subscriber.receive.connection import NOT_CONNECTED
from subscriber.receive.publisher import Publisher, connect_publisher
from subscriber.settings import Settings
from subscriber.subscription import catalog
from subscriber.subscription.catalog import Subscription
from subscriber.subscription.commands import remote
from subscriber.subscription.commands.notices import Notify, notice, warning
from subscriber.subscription.parsed import DropSubscription
from subscriber.target import Target


def drop_subscription(target: Target, command: DropSubscription, settings: Settings, notify: Notify) -> None:
    """Carry out DROP SUBSCRIPTION.

    Raises:
        UsageError: there is none of that name.
        PublisherError: the slot could not be dropped; the subscription is as it was.
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
        catalog.set_enabled(connection, command.name, enabled=False)  # its worker sees it, and ends
    if subscription.slot_name is not None:
        try:
            system_identifier = _drop_slot(subscription, subscription.slot_name)
        except BaseException:
            if subscription.enabled:
                with target.begin() as connection:
                    catalog.set_enabled(connection, command.name, enabled=True)
            raise
        notice(notify, f'dropped replication slot "{subscription.slot_name}" on publisher')
        try:
            _remove_journal(system_identifier, subscription.slot_name, settings)
        except (JournalError, UsageError) as error:
            # The slot is gone: a subscription that stays could only be dropped in three steps.
            warning(
                notify,
                f'the journal of slot "{subscription.slot_name}" is left: {error.message}',
                hint="Nobody needs it any more; remove it.",
            )
    with target.begin() as connection:
        catalog.delete_subscription(connection, command.name)
        target.drop_origin(connection, subscription.origin)
        left = forget_finished(target, connection, subscription.subid)
    for transaction in left:
        # PostgreSQL leaves it as well, and says nothing.
        warning(
            notify,
            f'prepared transaction "{transaction.gid}" is left in the target',
            hint="COMMIT PREPARED or ROLLBACK PREPARED it there: it holds its locks until then.",
        )


def remove_journal(subscription: Subscription, settings: Settings) -> None:
    """Remove the journal of a slot that is gone; on another machine than the worker's there is nothing to remove."""
    if subscription.system_identifier is not None and subscription.slot_name is not None:
        _remove_journal(subscription.system_identifier, subscription.slot_name, settings)


def _drop_slot(subscription: Subscription, slot: str) -> str:
    """Drop the slot; gives the publisher's system identifier, which names the journal."""
    try:
        with connect_publisher(subscription.conninfo, subscription.name) as server:
            publisher = Publisher(server)
            system_identifier = subscription.system_identifier or publisher.system_identifier()
            remote.remove_slot(publisher, slot)
            return system_identifier
    except PublisherError as error:
        if not error.message.startswith(NOT_CONNECTED):
            raise
        reason = error.message.removeprefix(f"{NOT_CONNECTED}: ")
        raise type(error)(
            f'could not connect to publisher when attempting to drop replication slot "{slot}": {reason}',
            sqlstate=error.sqlstate,
            hint="Use ALTER SUBSCRIPTION ... DISABLE to disable the subscription, and then use "
            "ALTER SUBSCRIPTION ... SET (slot_name = NONE) to disassociate it from the slot.",
        ) from error


def _remove_journal(system_identifier: str, slot: str, settings: Settings) -> None:
    storage = open_storage(journal_url(settings.journal, system_identifier, slot))
    storage.delete([name for name, _ in storage.names()])
