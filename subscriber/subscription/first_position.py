"""Whom a subscription replicates from, and the position it begins at, where its catalog does not know yet."""

from __future__ import annotations

from dataclasses import replace

from subscriber.apply import progress
from subscriber.journal.reader import journal_positions
from subscriber.journal.storage import journal_url
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.receive.publisher import Publisher, connect_publisher
from subscriber.settings import Settings
from subscriber.subscription import catalog
from subscriber.subscription.catalog import Subscription
from subscriber.target import Target


def know_publisher(target: Target, subscription: Subscription, settings: Settings) -> Subscription:
    """A subscription without a connection so far, or with another slot since, learns whom it replicates from.

    It begins where the slot does: what that has confirmed is somebody else's unless there is a journal of it.

    Returns:
        The subscription with the publisher's system identifier.

    Raises:
        PublisherError: the publisher cannot be asked, or has no such slot.
        TargetUnavailable: try again.
    """
    if subscription.system_identifier is not None:
        return subscription
    assert subscription.slot_name is not None
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        publisher = Publisher(server)
        identifier = publisher.system_identifier()
        confirmed = publisher.check_slot(subscription.slot_name).confirmed_flush_lsn
    journal = journal_url(settings.journal, identifier, subscription.slot_name)
    with target.begin() as connection:
        applied = progress.read_progress(connection, subscription.origin)
        if confirmed > applied and journal_positions(journal)[0] == INVALID_LSN:
            progress.advance_progress(connection, subscription.origin, applied, confirmed)
        catalog.set_system_identifier(connection, subscription.subid, identifier)
    return replace(subscription, system_identifier=identifier)


def first_position(target: Target, subscription: Subscription) -> LSN:
    """The target's progress; a subscription that never ran begins where its slot does.

    Raises:
        PublisherError: the publisher cannot be asked, or has no such slot.
        TargetUnavailable: try again.
    """
    with target.reporting(), target.engine.connect() as connection:
        applied = progress.read_progress(connection, subscription.origin)
    if applied != INVALID_LSN:
        return applied
    assert subscription.slot_name is not None
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        confirmed = Publisher(server).check_slot(subscription.slot_name).confirmed_flush_lsn
    with target.begin() as connection:
        progress.advance_progress(connection, subscription.origin, INVALID_LSN, confirmed)
    return confirmed
