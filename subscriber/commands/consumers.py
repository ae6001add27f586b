"""The consumers of a subscription in its journal. They keep entries from being trimmed
(:mod:`subscriber.stream.journal.retention`).

``apply`` moves after each commit of the target, perhaps late: an older position only keeps more
entries. ``sync`` exists while tables are copied or in catch-up; it is durable, because without it
the changes of these tables would be trimmed at the position of ``apply``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

from subscriber.base.errors import JournalUnavailable, SubscriberError, UsageError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog.subscriptions import Subscription
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.decode.publication_history import PUBLICATIONS_FILE, record_publishing
from subscriber.stream.journal import retention
from subscriber.stream.journal.control import JournalControl, read_control
from subscriber.stream.journal.storage import Storage, journal_folders, open_storage
from subscriber.targets import Target

logger = logging.getLogger(__name__)


def apply_consumer(target_identifier: str, subid: int) -> retention.Consumer:
    """The consumer whose position is the applied LSN of a subscription."""
    return retention.Consumer(target_identifier, subid)


def sync_consumer(target_identifier: str, subid: int) -> retention.Consumer:
    """The consumer that keeps the changes that tables still need for their catch-up."""
    return retention.Consumer(target_identifier, subid, "sync")


def check_other_targets(storage: Storage, target_identifier: str, slot: str) -> None:
    """Refuse (55006) a slot whose journal has a consumer of another target. A slot sends each
    change to one receiver only, so each target would lose what the other has received. A
    subscription that has released the slot does not count: the slot is handed on.
    """
    known = retention.list_consumers(storage)
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


def display_url(target: Target) -> str:
    """The target's URL without password and options, for messages."""
    return target.url.set(query={}).render_as_string()


def collect_consumers(
    base: str,
    target_identifier: str,
    subscriptions: Collection[Subscription],
    keep: Collection[tuple[str, str]] = (),
) -> tuple[list[str], bool]:
    """Remove consumers of a target whose subscription was dropped, or now streams from another
    slot; returns the removed files, and whether every journal could be read.

    Commands may run where the journals cannot be accessed, so the processes that work for the
    target remove what they have left. Consumers of other targets stay. Released consumers stay too,
    in the journals of the slots in ``keep`` (system identifier, name): the subscription that takes
    the slot over needs their entries, and removes them (:meth:`JournalConsumers.take_over`).
    ``subscriptions`` includes the disabled ones.
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
        one
        for one in retention.list_consumers(storage)
        if one.consumer and _may_be_forgotten(one.consumer, target_identifier)
    ]
    control = read_control(storage) if ours else None
    if control is None or (control.system_identifier, control.slot) in keep:
        return []
    streaming = {one.subid for one in subscriptions if _streams(one, control)}
    left = [one.file for one in ours if one.consumer and one.consumer.subid not in streaming]
    storage.delete(left)
    return left


def _may_be_forgotten(consumer: retention.Consumer, target_identifier: str) -> bool:
    return consumer.target == target_identifier and consumer.purpose != "released"


def _streams(subscription: Subscription, control: JournalControl) -> bool:
    """Whether a journal is the subscription's; by the slot's name until the publisher is known."""
    return subscription.slot_name == control.slot and subscription.system_identifier in (
        None,
        control.system_identifier,
    )


class JournalConsumers:
    """The consumers of one subscription in its journal. ``place`` is the target's address,
    ``carrier`` that of emulated publications.
    """

    def __init__(
        self,
        journal: str,
        target_identifier: str,
        subid: int,
        *,
        subscription: str,
        place: str,
        carrier: str | None = None,
    ) -> None:
        self.journal = journal
        self.target_identifier = target_identifier
        self._storage = open_storage(journal)
        self._apply = apply_consumer(target_identifier, subid)
        self._sync = sync_consumer(target_identifier, subid)
        self._subscription = subscription
        self._place = place
        self._carrier = carrier
        self._lock = threading.Lock()
        self._late = INVALID_LSN

    def replace_earlier(self) -> None:
        """Replace the files that an earlier version has written under the subscription's name."""
        listed = {name for name, _ in self._storage.names()}
        earlier = zip(retention.earlier_files(self._subscription), (self._apply, self._sync), strict=True)
        for file, consumer in earlier:
            found = retention.read_consumer_file(self._storage, file) if file in listed else None
            if found is None or found.consumer is not None:
                continue
            if retention.read_consumer(self._storage, consumer) == INVALID_LSN:
                self._write(consumer, found.lsn, durable=True)
            self._storage.delete([file])

    def take_over(self) -> None:
        """Remove the slot's released consumers, after this subscription's position was written."""
        known = {one.file: one.consumer for one in retention.list_consumers(self._storage) if one.consumer is not None}
        before = {(one.target, one.subid) for one in known.values() if one.purpose == "released"}
        if before and self._apply in known.values():
            ours = (self._apply, self._sync)
            left = [file for file, one in known.items() if (one.target, one.subid) in before and one not in ours]
            self._storage.delete(left)

    def record_publishing(self, publishing: Publishing | None, since: LSN) -> None:
        """What comes after ``since`` is applied as ``publishing`` says, for other readers of the
        journal; None: as the server sends it. It must be recorded before it is applied.
        """
        try:
            record_publishing(self._storage, publishing, since)
        except JournalUnavailable as error:
            # Readers are refused without the file, and would read wrongly with an older one.
            self._storage.delete([PUBLICATIONS_FILE])
            logger.warning(
                'subscription "%s": change feeds cannot be read, because its publications cannot be recorded in the journal: %s',
                self._subscription,
                error.message,
            )

    def record_applied(self, lsn: LSN) -> None:
        """``lsn`` is committed in the target; :meth:`write_late` repeats a failed write."""
        with self._lock:
            self._try_to_write(lsn)

    def write_late(self) -> None:
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
        """Keep all entries after ``lsn`` for the tables, durably, even after a power failure."""
        self._write(self._sync, lsn, durable=True)

    def release(self) -> None:
        """Remove the sync consumer, because no table needs the journal any more."""
        retention.remove_consumer(self._storage, self._sync)

    def _write(self, consumer: retention.Consumer, lsn: LSN, *, durable: bool = False) -> None:
        retention.write_consumer(
            self._storage,
            consumer,
            lsn,
            subscription=self._subscription,
            place=self._place,
            carrier=self._carrier,
            durable=durable,
        )
