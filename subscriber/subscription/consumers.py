"""The consumers of a subscription in its journal: who keeps entries from being trimmed (:mod:`subscriber.journal.retention`)."""

from __future__ import annotations


def sync_consumer(subscription: str) -> str:
    """The consumer that keeps what a subscription's tables still have to catch up."""
    return f"{subscription} (table sync)"


def consumers_of(subscription: str) -> tuple[str, str]:
    """All of them; that which passes what has been applied has the subscription's name."""
    return subscription, sync_consumer(subscription)
