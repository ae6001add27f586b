"""The position where the changes of a slot begin for a subscription that takes it over.

PostgreSQL documents how to hand a slot to another subscription: DISABLE, SET (slot_name = NONE),
DROP SUBSCRIPTION; then CREATE SUBSCRIPTION … WITH (create_slot = false, slot_name = …).
PostgreSQL's subscriber continues at the slot's confirmed position. This program, however, confirms
a slot when the changes are durable in the journal::

    applied P ──────────── confirmed C ──── journal's end D          the slot has C; the changes between P and C are in the journal
              └─ in the journal only ─┘

So a slot's position is adopted only with proof that publisher, journal and target agree (invariant
slot_after_disk). P is determined as follows:

1. If a subscription of this target has released the slot, P is in the catalog
(``subscriber_released_slot``), and in the consumers of a journal on this machine. The greater one
counts: a consumer may be a moment behind, and another target may have used the slot meanwhile.
2. Otherwise, if the journal is on this machine, P is its beginning: nothing of it was applied.
3. Otherwise, as far as can be known, this program has not used the slot, so P is C.

If P is before C, the journal must be on this machine and contain the changes between them;
otherwise the slot is refused. A subscription that copies its tables again does not need this: the
copy contains the changes that were not applied.

A subscription that used another slot before continues at its own progress, if that is later. If it
is earlier, the slot lacks the changes in between, and a warning is logged. PostgreSQL says nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from subscriber.base.errors import JournalGap, PublisherNotReady, SlotLost
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.catalog import subscriptions
from subscriber.catalog.catalog_upgrade import target_identifier
from subscriber.catalog.released import forget_released_slot, released_position
from subscriber.catalog.subscriptions import Subscription
from subscriber.commands.consumers import check_other_targets
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.history import check_system
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.positions import journal_positions
from subscriber.stream.journal.retention import ConsumerPosition, list_consumers
from subscriber.stream.journal.storage import journal_url, open_storage
from subscriber.targets import Target

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JournalState:
    """Where a slot's journal begins and ends, and the positions of its apply consumers."""

    begin: LSN
    durable: LSN
    consumers: tuple[ConsumerPosition, ...]


def read_journal(settings: Settings, system_identifier: str, slot: str) -> JournalState | None:
    """The journal of a slot; None if it is not on this machine."""
    url = journal_url(settings.journal, system_identifier, slot)
    storage = open_storage(url)
    control = read_control(storage)
    if control is None:
        return None
    consumers = [one for one in list_consumers(storage) if one.consumer is None or one.consumer.purpose != "sync"]
    return JournalState(control.begin, journal_positions(url)[0], tuple(consumers))


def slot_position(slot: str, confirmed: LSN, released: LSN | None, journal: JournalState | None) -> LSN:
    """Up to where a slot's changes were applied; ``released`` is the catalog's position.
    JournalGap: changes that are confirmed and not applied are not in a journal on this machine.
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
        raise _gap(slot, applied, confirmed, "there is no journal of this slot here")
    if journal.begin > applied:
        raise _gap(slot, applied, confirmed, f"the journal begins at {format_lsn(journal.begin)}")
    if journal.durable < confirmed:
        raise _gap(slot, applied, confirmed, f"the journal ends at {format_lsn(journal.durable)}")
    return applied


def _applied(journal: JournalState) -> LSN:
    """The LSN that all consumers of released slots have applied, or else all consumers."""
    released = [one for one in journal.consumers if one.consumer is not None and one.consumer.purpose == "released"]
    return LSN(min(one.lsn for one in released or journal.consumers))


def _gap(slot: str, applied: LSN, confirmed: LSN, found: str) -> JournalGap:
    return JournalGap(
        f'replication slot "{slot}" is confirmed up to {format_lsn(confirmed)},'
        f" but its changes were applied up to {format_lsn(applied)} only",
        detail=f"The changes in between were received into a journal, and {found}.",
        hint="Run the command and `subscriber run` on the machine of the journal, with its SUBSCRIBER_JOURNAL."
        " Or use CREATE SUBSCRIPTION … WITH (create_slot = false, copy_data = true), which copies the tables again."
        " If the slot was dropped and created again since then, or another subscription uses it, give another slot_name.",
        lsn=applied,
    )


def check_slot_position(
    target: Target, settings: Settings, publisher: PublisherClient, system_identifier: str, slot: str
) -> None:
    """Refuse a slot whose position cannot be adopted; see :func:`slot_position`."""
    found = publisher.slot(slot)
    if found is not None:
        with target.reporting(), target.engine.connect() as connection:
            released = released_position(connection, system_identifier, slot)
        journal = read_journal(settings, system_identifier, slot)
        slot_position(slot, found.confirmed_flush_lsn, released, journal)


def adopt_slot(target: Target, subscription: Subscription, settings: Settings) -> tuple[Subscription, LSN]:
    """The subscription with the publisher's system identifier, and the LSN that it has applied.

    What the catalog does not contain yet is read from the publisher and stored: after CREATE
    SUBSCRIPTION with an existing slot or without a connection, and after SET (slot_name = …). A
    missing slot is a PublisherError but not lost, since nothing was received from it. UsageError
    55006: a subscription of another target uses the slot.
    """
    with target.reporting(), target.engine.connect() as connection:
        applied = subscription.progress.read(connection)
    if subscription.slot_adopted and subscription.system_identifier is not None and applied != INVALID_LSN:
        return subscription, applied
    assert subscription.slot_name is not None
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        publisher = PublisherClient(server)
        identifier = publisher.system_identifier()
        try:
            confirmed = publisher.check_slot(subscription.slot_name).confirmed_flush_lsn
        except SlotLost as error:
            raise PublisherNotReady(
                error.message,
                sqlstate=error.sqlstate,
                detail=error.detail,
                hint=f"Create it at the publisher: SELECT pg_create_logical_replication_slot('{subscription.slot_name}', 'pgoutput');",
            ) from None
    check_system(identifier, subscription.system_identifier)
    journal = read_journal(settings, identifier, subscription.slot_name)
    with target.reporting(), target.engine.connect() as connection:
        ours = target_identifier(connection)
    check_other_targets(
        open_storage(journal_url(settings.journal, identifier, subscription.slot_name)), ours, subscription.slot_name
    )
    with target.begin() as connection:
        released = released_position(connection, identifier, subscription.slot_name)
        position = slot_position(subscription.slot_name, confirmed, released, journal)
        applied = subscription.progress.read(connection)
        begin = LSN(max(applied, position))
        subscription.progress.advance(connection, applied, begin)
        subscriptions.adopt_slot(connection, subscription.subid, identifier)
        forget_released_slot(connection, identifier, subscription.slot_name)
    if INVALID_LSN != applied < position:
        logger.warning(
            'subscription "%s" has applied changes up to %s and continues at %s: slot "%s" does not send the changes in between',
            subscription.name,
            format_lsn(applied),
            format_lsn(position),
            subscription.slot_name,
        )
    return replace(subscription, system_identifier=identifier, slot_adopted=True), begin
