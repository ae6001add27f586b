"""Connections to a subscription's publisher, with libpqwalreceiver's error texts when a connection
fails.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from subscriber.errors import PublisherError
from subscriber.publisher.connection import ReplicationConnection
from subscriber.publisher.publisher import Publisher, connect_publisher


@contextlib.contextmanager
def connected(conninfo: str, subscription: str) -> Iterator[Publisher]:
    """A connection to the publisher of a subscription.

    Raises:
        PublisherError: 08006, ``subscription "…" could not connect to the publisher: …``.
    """
    with contextlib.ExitStack() as stack:
        with _connecting(subscription):
            server = stack.enter_context(connect_publisher(conninfo, subscription))
        yield Publisher(server)


@contextlib.contextmanager
def replicating(conninfo: str, subscription: str) -> Iterator[ReplicationConnection]:
    """A replication connection to the publisher of a subscription.

    Raises:
        PublisherError: 08006, ``subscription "…" could not connect to the publisher: …``.
    """
    with contextlib.ExitStack() as stack:
        with _connecting(subscription):
            replication = stack.enter_context(ReplicationConnection(conninfo, subscription))
        yield replication


@contextlib.contextmanager
def _connecting(subscription: str) -> Iterator[None]:
    try:
        yield
    except PublisherError as error:
        message = f'subscription "{subscription}" could not connect to the publisher: {error.refused or error.message}'
        raise type(error)(message, sqlstate=error.sqlstate, hint=error.hint) from error
