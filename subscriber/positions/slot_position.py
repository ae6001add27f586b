"""Where the changes of a slot begin for a subscription that takes it over.

PostgreSQL's procedure hands a slot on: DISABLE, SET (slot_name = NONE), DROP SUBSCRIPTION; then
CREATE SUBSCRIPTION … WITH (create_slot = false, slot_name = …). The new subscription goes on where
the old one had applied, and to PostgreSQL's own subscriber the slot says where that is. Ours
confirms a slot when the journal is durable::

    applied P ──────────── confirmed C ──── journal's end D          the slot says C; between P and C the journal has them
              └─ in the journal only ─┘

So a slot's position is adopted only with proof that publisher, journal and target agree (invariant
slot_after_disk). P is known from

1. the target's catalog, when a subscription of this target was taken off the slot
   (``subscriber_released_slot``), and the consumers of the journal, if it is here: the further of
   the two, since a consumer may be a moment behind, and another target may have had the slot
   meanwhile;
2. otherwise the journal's beginning, if it is here: nobody has applied anything of it;
3. otherwise nobody of ours has had the slot, as far as can be known: then P is C.

Where P lies before C the journal must be here and hold what lies between; otherwise the slot is
refused, with both positions.

A subscription that copies its tables again (``copy_data = true``) needs none of this: what is not
applied is in the copy.

One that had another slot before goes on at its own progress, if that is ahead. If it is behind, the
slot does not send what lies between. PostgreSQL goes on without a word; here it is logged as a
warning.

Rejected: writing P to the publisher, as a logical message or in a replication origin. A subscriber
must not need the right to write there.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.errors import JournalGap
from subscriber.journal.control import read_control
from subscriber.journal.reader import journal_positions
from subscriber.journal.retention import ConsumerPosition, list_consumers
from subscriber.journal.storage import journal_url, open_storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.publisher.history import check_system
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.settings import Settings
from subscriber.targets import Target

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JournalState:
    """What the journal of a slot holds, and who has applied how much of it.

    Attributes:
        begin: it has nothing before.
        durable: how far it has received.
        consumers: of apply workers; a table's synchronization is not among them.
    """

    begin: LSN
    durable: LSN
    consumers: tuple[ConsumerPosition, ...]


def read_journal(settings: Settings, system_identifier: str, slot: str) -> JournalState | None:
    """The journal of a slot; None where it is not on this machine.

    Raises:
        JournalError: it is here and cannot be read.
    """
    url = journal_url(settings.journal, system_identifier, slot)
    storage = open_storage(url)
    control = read_control(storage)
    if control is None:
        return None
    consumers = [one for one in list_consumers(storage) if one.consumer is None or one.consumer.purpose != "sync"]
    return JournalState(control.begin, journal_positions(url)[0], tuple(consumers))


def slot_position(slot: str, confirmed: LSN, released: LSN | None, journal: JournalState | None) -> LSN:
    """What was applied of a slot's changes, so that a new subscription gets those after it.

    Args:
        slot: its name.
        confirmed: its ``confirmed_flush_lsn``.
        released: what the target's catalog says was applied; None where it says nothing.
        journal: the slot's journal, if it is here.

    Raises:
        JournalGap: changes that were confirmed and not applied are not in a journal here.
    """
    if journal is not None and journal.consumers:
        applied = LSN(max(_applied(journal), released or INVALID_LSN))
    elif released is not None:
        applied = released
    elif journal is not None:
        applied = journal.begin
    else:
        return confirmed
    if applied >= confirmed:
        return applied
    if journal is None:
        raise _gap(slot, applied, confirmed, "no journal of this slot is here")
    if journal.begin > applied:
        raise _gap(slot, applied, confirmed, f"the journal begins at {format_lsn(journal.begin)}")
    if journal.durable < confirmed:
        raise _gap(slot, applied, confirmed, f"the journal ends at {format_lsn(journal.durable)}")
    return applied


def _applied(journal: JournalState) -> LSN:
    """What every consumer has applied that was taken off the slot; where none was, what every
    consumer has.
    """
    released = [one for one in journal.consumers if one.consumer is not None and one.consumer.purpose == "released"]
    return LSN(min(one.lsn for one in released or journal.consumers))


def _gap(slot: str, applied: LSN, confirmed: LSN, found: str) -> JournalGap:
    return JournalGap(
        f'replication slot "{slot}" is confirmed up to {format_lsn(confirmed)},'
        f" but its changes were applied up to {format_lsn(applied)} only",
        detail=f"The changes in between were received into a journal, and {found}.",
        hint="Give the command, and start `subscriber run`, where the journal is (SUBSCRIBER_JOURNAL)."
        " Or CREATE SUBSCRIPTION … WITH (create_slot = false, copy_data = true), which copies the tables again."
        " If the slot was dropped and created again since then, give it another name.",
        lsn=applied,
    )


def check_slot_position(
    target: Target, settings: Settings, publisher: Publisher, system_identifier: str, slot: str
) -> None:
    """Refuse a slot whose position cannot be adopted; see :func:`slot_position`.

    Raises:
        JournalGap: naming both positions.
    """
    found = publisher.slot(slot)
    if found is not None:
        with target.reporting(), target.engine.connect() as connection:
            released = catalog.released_position(connection, system_identifier, slot)
        journal = read_journal(settings, system_identifier, slot)
        slot_position(slot, found.confirmed_flush_lsn, released, journal)


def adopt_slot(target: Target, subscription: Subscription, settings: Settings) -> tuple[Subscription, LSN]:
    """The subscription with whom it replicates from, and the position that it has applied.

    What the catalog does not know yet is found out at the publisher and kept: after CREATE
    SUBSCRIPTION with a slot that was there before, or without a connection, and after SET
    (slot_name = …).

    Raises:
        PublisherError: the publisher cannot be asked, has no such slot, or is another system than
            before.
        JournalGap: see :func:`slot_position`.
        TargetUnavailable: try again.
    """
    with target.reporting(), target.engine.connect() as connection:
        applied = subscription.progress.read(connection)
    if subscription.slot_adopted and subscription.system_identifier is not None and applied != INVALID_LSN:
        return subscription, applied
    assert subscription.slot_name is not None
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        publisher = Publisher(server)
        identifier = publisher.system_identifier()
        confirmed = publisher.check_slot(subscription.slot_name).confirmed_flush_lsn
    check_system(identifier, subscription.system_identifier)
    journal = read_journal(settings, identifier, subscription.slot_name)
    with target.begin() as connection:
        released = catalog.released_position(connection, identifier, subscription.slot_name)
        position = slot_position(subscription.slot_name, confirmed, released, journal)
        applied = subscription.progress.read(connection)
        begin = LSN(max(applied, position))
        subscription.progress.advance(connection, applied, begin)
        catalog.adopt_slot(connection, subscription.subid, identifier)
        catalog.forget_released_slot(connection, identifier, subscription.slot_name)
    if INVALID_LSN != applied < position:
        logger.warning(
            'subscription "%s" has applied changes up to %s and goes on at %s: slot "%s" does not send the changes in between',
            subscription.name,
            format_lsn(applied),
            format_lsn(position),
            subscription.slot_name,
        )
    return replace(subscription, system_identifier=identifier, slot_adopted=True), begin
