"""The mark: a position of the publisher that somebody waits for, since everything committed before
it is to be in the target.
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
    """A position that the publisher writes now, and that the stream is sure to pass soon.

    Raises:
        PublisherError: the publisher cannot be asked.
    """
    with connect_publisher(subscription.conninfo, subscription.name) as server:
        return Publisher(server).write_barrier()


class Mark:
    """The mark of ``run --once``, written beside the supervisor's thread.

    Args:
        subscription: gives the subscription as it is when the mark is written.
        retry_seconds: the longest wait between two attempts.

    Attributes:
        position: the mark; None until it is written.
        attempts: those to write it.
    """

    def __init__(self, subscription: Callable[[], Subscription], retry_seconds: float) -> None:
        self.position: LSN | None = None
        self.attempts = Attempts()
        self._subscription = subscription
        self._retry_seconds = retry_seconds
        self.writing = Background(lambda: write_mark(subscription()), f"mark of {subscription().name}")

    def write(self) -> None:
        """Write it, without waiting for the publisher: a later call finds it.

        A publisher that cannot be asked is asked again after a while, and the failures are counted.
        """
        if not self.attempts.is_due():
            return
        try:
            self.position = self.writing.take()
        except SubscriberError as error:
            logger.warning(
                'subscription "%s": the publisher cannot be asked how far it is: %s',
                self._subscription().name,
                error.message,
            )
            self.attempts.note_failure(error, self._retry_seconds)
        else:
            self.attempts.works()
