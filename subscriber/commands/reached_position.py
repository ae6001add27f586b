"""How far a target is: the position that it has, and the last transaction that came."""

from __future__ import annotations

from dataclasses import dataclass

from subscriber.catalog import Subscription
from subscriber.errors import SubscriberError
from subscriber.journal.positions import journal_positions
from subscriber.journal.storage import journal_url
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.settings import Settings
from subscriber.targets import Target


@dataclass(frozen=True, slots=True)
class ReachedPosition:
    """How far a target is.

    Attributes:
        reached: the LSN up to which the target has all changes: the applied position, or the
            received position if no received change waits to be applied.
        applied: the applied position, which moves only with transactions that were sent.
        received: the received position; 0/0 if the journal is on another machine.
        last: the end of the last transaction that was applied or received.
    """

    reached: LSN
    applied: LSN
    received: LSN
    last: LSN


def reached_position(target: Target, subscription: Subscription, settings: Settings) -> ReachedPosition:
    """How far the target is, for one subscription.

    Raises:
        TargetUnavailable: the target cannot be queried.
    """
    with target.reporting(), target.engine.connect() as connection:
        applied = subscription.progress.read(connection)
    if subscription.system_identifier is None or subscription.slot_name is None:
        return ReachedPosition(applied, applied, INVALID_LSN, applied)
    try:
        received, last = journal_positions(
            journal_url(settings.journal, subscription.system_identifier, subscription.slot_name)
        )
    except SubscriberError:
        received, last = INVALID_LSN, INVALID_LSN
    reached = max(applied, received) if last <= applied else applied
    return ReachedPosition(reached, applied, received, max(applied, last))
