"""The mark: a position of the publisher. Everything that was committed before the mark has to be in
the target before ``run --once`` ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from subscriber.catalog import Subscription
from subscriber.errors import SubscriberError
from subscriber.lsn import LSN
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.runtime.attempts import Attempts
from subscriber.runtime.background import Background

logger = logging.getLogger(__name__)


def write_mark(subscription: Subscription) -> LSN:
    """Write a barrier at the publisher, and return its position, which the stream is certain to
    pass soon.

    Raises:
        PublisherError: the publisher cannot be queried.
    """
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        return Publisher(server).write_barrier()


class Mark:
    """The mark of ``run --once``. It is written outside of the supervisor's thread.

    Args:
        subscription: returns the subscription as it is when the mark is written.
        retry_seconds: the longest wait between two attempts.

    Attributes:
        position: the mark; None until it is written.
        attempts: the attempts to write the mark.
        writing: the work in progress.
    """

    def __init__(self, subscription: Callable[[], Subscription], retry_seconds: float) -> None:
        self.position: LSN | None = None
        self.attempts = Attempts()
        self._subscription = subscription
        self._retry_seconds = retry_seconds
        self.writing = Background(lambda: write_mark(subscription()), f"mark of {subscription().name}")

    def write(self) -> None:
        """Write the mark without waiting for the publisher. A later call finds the position.

        If the publisher cannot be queried, a later call tries again after a while; the failures are
        counted.
        """
        if not self.attempts.is_due():
            return
        try:
            self.position = self.writing.take()
        except SubscriberError as error:
            logger.warning(
                'subscription "%s": the current WAL position of the publisher cannot be read: %s',
                self._subscription().name,
                error.message,
            )
            self.attempts.note_failure(error, self._retry_seconds)
        else:
            self.attempts.works()
