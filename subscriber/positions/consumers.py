"""The consumers of a subscription in its journal. They keep entries from being trimmed
(:mod:`subscriber.journal.retention`).

::

    apply    moves after each commit of the target; may be written late, because an older position only keeps more entries
    sync     exists while tables are copied or in catch-up; is durable, because without it the changes of these tables would be
             trimmed at the position of apply
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

from subscriber.catalog import Subscription
from subscriber.errors import JournalUnavailable, SubscriberError, UsageError
from subscriber.journal.control import Control, read_control
from subscriber.journal.retention import (
    Consumer,
    earlier_files,
    list_consumers,
    read_consumer,
    read_consumer_file,
    remove_consumer,
    write_consumer,
)
from subscriber.journal.storage import Storage, journal_folders, open_storage
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.targets import Target

logger = logging.getLogger(__name__)


def apply_consumer(target_identifier: str, subid: int) -> Consumer:
    """The consumer whose position is the applied LSN of a subscription."""
    return Consumer(target_identifier, subid)


def sync_consumer(target_identifier: str, subid: int) -> Consumer:
    """The consumer that keeps the changes that a subscription's tables still need for their
    catch-up.
    """
    return Consumer(target_identifier, subid, "sync")


def check_other_targets(storage: Storage, target_identifier: str, slot: str) -> None:
    """Refuse a slot whose journal has a consumer of another target. A slot sends each change to one
    receiver only, so two targets would each lose what the other one has received.

    A subscription that has released the slot does not count: the slot is handed on.

    Args:
        storage: the journal of the slot; it has no files where it is on another machine.
        target_identifier: the identifier of the target that wants to use the slot.
        slot: the slot's name.

    Raises:
        UsageError: 55006, a subscription of another target uses the slot; the message names it.
        JournalUnavailable: the journal cannot be read now.
    """
    known = list_consumers(storage)
    released = {
        (one.consumer.target, one.consumer.subid) for one in known if one.consumer and one.purpose == "released"
    }
    for one in known:
        if one.consumer is None or one.consumer.target == target_identifier:
            continue
        if (one.consumer.target, one.consumer.subid) in released:
            continue  # its worker may have written its position once more while it ended
        raise UsageError(
            f'replication slot "{slot}" is used by subscription "{one.subscription}" of {one.place}',
            sqlstate="55006",
            detail=f'The journal at "{storage.url}" keeps changes for it.',
            hint="Use another slot_name: a slot sends each change to one subscription only. To take the slot over, first detach that"
            " subscription with ALTER SUBSCRIPTION ... DISABLE and SET (slot_name = NONE). If its target no longer exists:"
            f" subscriber journal forget --journal {storage.url} {one.file} --yes",
        )


def place_of(target: Target) -> str:
    """The target's address for messages: its URL without password and options."""
    return target.url.set(query={}).render_as_string()


def collect_consumers(
    base: str,
    target_identifier: str,
    subscriptions: Collection[Subscription],
    keep: Collection[tuple[str, str]] = (),
) -> tuple[list[str], bool]:
    """Remove consumers of a target whose subscription was dropped, or now streams from another
    slot.

    A command may be executed on another machine, where the journals cannot be accessed. Therefore
    the processes that work for the target remove the consumers that the command has left. Consumers
    of other targets are never removed. The entries that a released consumer keeps are for the
    subscription that takes the slot over; that subscription removes the consumer
    (:meth:`JournalConsumers.take_over`).

    Args:
        base: the folder or URL that contains the journals.
        target_identifier: the target's identifier.
        subscriptions: all subscriptions of the target, including disabled ones.
        keep: (system identifier, slot) of released slots that are to be taken over: their journals
            are still needed.

    Returns:
        The names of the files that were removed, and whether every journal could be read.

    Raises:
        JournalUnavailable: the journals cannot be listed now.
    """
    removed: list[str] = []
    complete = True
    for url in journal_folders(base):
        try:
            removed += _collect(open_storage(url), target_identifier, subscriptions, keep)
        except SubscriberError as error:
            logger.debug(
                'consumers of the dropped subscription could not be removed from the journal at "%s": %s',
                url,
                error.message,
            )
            complete = False
    return removed, complete


def _collect(
    storage: Storage,
    target_identifier: str,
    subscriptions: Collection[Subscription],
    keep: Collection[tuple[str, str]],
) -> list[str]:
    ours = [
        one for one in list_consumers(storage) if one.consumer and _may_be_forgotten(one.consumer, target_identifier)
    ]
    control = read_control(storage) if ours else None
    if control is None or (control.system_identifier, control.slot) in keep:
        return []
    streaming = {one.subid for one in subscriptions if _streams(one, control)}
    left = [one.file for one in ours if one.consumer and one.consumer.subid not in streaming]
    storage.delete(left)
    return left


def _may_be_forgotten(consumer: Consumer, target_identifier: str) -> bool:
    return consumer.target == target_identifier and consumer.purpose != "released"


def _streams(subscription: Subscription, control: Control) -> bool:
    """Whether a journal belongs to the subscription. While the subscription does not know its
    publisher, the slot's name alone decides.
    """
    return subscription.slot_name == control.slot and subscription.system_identifier in (
        None,
        control.system_identifier,
    )


class JournalConsumers:
    """The consumers of one subscription in its journal. The subscription's worker moves them.

    Args:
        journal: URL of the journal.
        target_identifier: the target's identifier.
        subid: the subscription's number.
        subscription: the subscription's name.
        place: the target's address without password.

    Attributes:
        journal: URL of the journal.
        target_identifier: the target's identifier.
    """

    def __init__(self, journal: str, target_identifier: str, subid: int, *, subscription: str, place: str) -> None:
        self.journal = journal
        self.target_identifier = target_identifier
        self._storage = open_storage(journal)
        self._apply = apply_consumer(target_identifier, subid)
        self._sync = sync_consumer(target_identifier, subid)
        self._subscription = subscription
        self._place = place
        self._lock = threading.Lock()
        self._late = INVALID_LSN

    def replace_earlier(self) -> None:
        """Replace the consumer files that an earlier version has written under the subscription's
        name.

        Raises:
            JournalError: the journal cannot be read or written now.
        """
        listed = {name for name, _ in self._storage.names()}
        earlier = zip(earlier_files(self._subscription), (self._apply, self._sync), strict=True)
        for file, consumer in earlier:
            found = read_consumer_file(self._storage, file) if file in listed else None
            if found is None or found.consumer is not None:
                continue
            if read_consumer(self._storage, consumer) == INVALID_LSN:
                self._write(consumer, found.lsn, durable=True)
            self._storage.delete([file])

    def take_over(self) -> None:
        """Remove the released consumers of the slot, because this subscription continues with it.

        Call it after the position of this subscription was written.

        Raises:
            JournalError: the journal cannot be read or written now.
        """
        known = {one.file: one.consumer for one in list_consumers(self._storage) if one.consumer is not None}
        before = {(one.target, one.subid) for one in known.values() if one.purpose == "released"}
        if before and self._apply in known.values():
            ours = (self._apply, self._sync)
            left = [file for file, one in known.items() if (one.target, one.subid) in before and one not in ours]
            self._storage.delete(left)

    def note_applied(self, lsn: LSN) -> None:
        """Write that everything up to ``lsn`` is committed in the target. If it cannot be written
        now, :meth:`write_late` writes it later.
        """
        with self._lock:
            self._try_to_write(lsn)

    def write_late(self) -> None:
        """Write the position that could not be written when it was noted."""
        with self._lock:
            if self._late != INVALID_LSN:
                self._try_to_write(self._late)

    def _try_to_write(self, lsn: LSN) -> None:
        was_late, self._late = self._late != INVALID_LSN, INVALID_LSN
        try:
            self._write(self._apply, lsn)
        except JournalUnavailable as error:
            self._late = lsn
            if not was_late:
                logger.warning(
                    'subscription "%s": its position in the journal is written later: %s',
                    self._subscription,
                    error.message,
                )

    def keep(self, lsn: LSN) -> None:
        """Keep all entries after ``lsn`` for the tables; the position is durable, even after a
        power failure.

        Raises:
            JournalUnavailable: the position could not be written.
        """
        self._write(self._sync, lsn, durable=True)

    def release(self) -> None:
        """Remove the sync consumer, because no table needs the journal any more.

        Raises:
            JournalUnavailable: the journal cannot be written now.
        """
        remove_consumer(self._storage, self._sync)

    def _write(self, consumer: Consumer, lsn: LSN, *, durable: bool = False) -> None:
        write_consumer(
            self._storage, consumer, lsn, subscription=self._subscription, place=self._place, durable=durable
        )
