"""Reading the publisher's tables again for emulated publications
(:mod:`subscriber.catalog.kept_publishing`).
"""

from __future__ import annotations

import contextlib

from subscriber.catalog import Subscription
from subscriber.catalog.kept_publishing import keep_publishing, read_publishing
from subscriber.errors import PublisherError, PublisherTablesOutdated
from subscriber.protocol.messages import Relation
from subscriber.publisher.catalog_tables import read_publisher_tables
from subscriber.publisher.publisher import connect_publisher
from subscriber.targets import Target


def refresh_at_start(target: Target, subscription: Subscription) -> bool:
    """Read the publisher's tables again where it can be asked, and keep them; tells that this is
    done.

    A partition that was attached or detached looks in the stream as it did before, so nothing else
    would ask.

    Raises:
        UsageError: a publication has been dropped, or the tables have never been read.
        TargetUnavailable: try again.
    """
    if subscription.options.carrier is not None:
        with contextlib.suppress(PublisherError):
            _refresh(target, subscription, None)
    return True


def refresh_outdated(target: Target, subscription: Subscription, error: PublisherTablesOutdated) -> None:
    """Read the publisher's tables again and keep them, because the stream has one that is not as it
    was.

    Raises:
        PublisherTablesOutdated: ``error`` itself, where it has no relation message.
        PublisherError: the publisher cannot be asked.
        TargetUnavailable: try again.
    """
    if not isinstance(error.shape, Relation):
        raise error
    _refresh(target, subscription, error.shape)


def _refresh(target: Target, subscription: Subscription, shape: Relation | None) -> None:
    with target.reporting(), target.engine.connect() as connection:
        before = read_publishing(connection, subscription)
    assert before is not None
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        now = before.with_tables(read_publisher_tables(server).without_system(), shape)
    if now != before:
        with target.begin() as connection:
            keep_publishing(connection, subscription.subid, now)
