"""Reads the publisher's tables again, for emulated publications
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
    """Read the publisher's tables again and store them, if the publisher can be reached; return
    True when this is done.

    This is necessary because the stream does not show that a partition was attached or detached:
    its changes look the same as before.

    Raises:
        UsageError: a publication was dropped, or the tables have never been read.
        TargetUnavailable: the target cannot be reached now.
    """
    if subscription.options.carrier is not None:
        with contextlib.suppress(PublisherError):
            _refresh(target, subscription, None)
    return True


def refresh_outdated(target: Target, subscription: Subscription, error: PublisherTablesOutdated) -> None:
    """Read the publisher's tables again and store them, because the stream contains a table that
    differs from the stored one.

    Raises:
        PublisherTablesOutdated: ``error`` itself, if it has no relation message.
        PublisherError: the publisher cannot be queried.
        TargetUnavailable: the target cannot be reached now.
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
