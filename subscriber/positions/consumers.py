"""The consumers of a subscription in its journal: who keeps entries from being trimmed
(:mod:`subscriber.journal.retention`).

::

    apply    moves on after each commit of the target; may be written late, since an older position only keeps more
    sync     is there while tables are copied or catch up; is durable, since without it apply's position lets their changes go
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

from subscriber.catalog import Subscription
from subscriber.errors import JournalUnavailable, SubscriberError
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
    """The consumer that passes what a subscription has applied."""
    return Consumer(target_identifier, subid)


def sync_consumer(target_identifier: str, subid: int) -> Consumer:
    """The consumer that keeps what a subscription's tables still have to catch up."""
    return Consumer(target_identifier, subid, "sync")


def place_of(target: Target) -> str:
    """Where a target is, for people: its URL without password and options."""
    return target.url.set(query={}).render_as_string()


def collect_consumers(
    base: str,
    target_identifier: str,
    subscriptions: Collection[Subscription],
    keep: Collection[tuple[str, str]] = (),
) -> tuple[list[str], bool]:
    """Remove a target's consumers whose subscription is gone, or streams from another slot now.

    A command may be given on another machine, which does not see the journals; so whoever works for
    the target removes what it left. Consumers of other targets are not ours to judge. What a
    released consumer keeps is for the subscription that goes on with the slot, which removes it
    (:meth:`JournalConsumers.take_over`).

    Args:
        base: the folder or URL below which journals live.
        target_identifier: the target's.
        subscriptions: all of the target, also those that are disabled.
        keep: (system identifier, slot) of slots that wait to be handed on: what their journals hold
            is still wanted.

    Returns:
        The names of the files that were removed, and whether every journal could be looked into.

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
    """Whether a journal is the subscription's; as long as it does not know its publisher, the
    slot's name decides.
    """
    return subscription.slot_name == control.slot and subscription.system_identifier in (
        None,
        control.system_identifier,
    )


class JournalConsumers:
    """The consumers of one subscription in its journal, as its worker moves them.

    Args:
        journal: URL of the journal.
        target_identifier: the target's.
        subid: the subscription's number.
        subscription: its name.
        place: where the target is, without its password.

    Attributes:
        journal: as given.
        target_identifier: as given.
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
        """Take the place of what an earlier version has kept under the subscription's name.

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
        """This subscription goes on with the slot: nobody else keeps what it has applied.

        Call it when its own position has been noted.

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
        """Everything up to ``lsn`` is committed in the target. What cannot be written now
        :meth:`write_late` will write.
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
        """Let the journal keep everything after ``lsn`` for the tables, also after a power failure.

        Raises:
            JournalUnavailable: it could not be written.
        """
        self._write(self._sync, lsn, durable=True)

    def release(self) -> None:
        """No table needs anything of the journal any more.

        Raises:
            JournalUnavailable: the journal cannot be written now.
        """
        remove_consumer(self._storage, self._sync)

    def _write(self, consumer: Consumer, lsn: LSN, *, durable: bool = False) -> None:
        write_consumer(
            self._storage, consumer, lsn, subscription=self._subscription, place=self._place, durable=durable
        )
