"""Spark tasks that each read a range of one side's table, and return the sums of its rows.

The result is small, whatever a task reads. It names its side, because tasks of both sides run at
the same time. Errors are returned as objects, because Spark would convert an exception into text.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from subscriber.errors import SubscriberError
from subscriber.publisher.copy_plan import CopyRange
from subscriber.targets import open_target
from subscriber.targets.roles.reading import TableRange
from subscriber.verify.publisher_side import PublisherSide, digest_range
from subscriber.verify.row_digests import BucketSums
from subscriber.verify.target_side import TargetSide

Side = Literal["publisher", "target"]
Result = tuple[Side, bytes]
"""A side, and the bytes of its :class:`~subscriber.verify.row_digests.BucketSums`."""


def publisher_task(
    side: PublisherSide, part: CopyRange, nothing: Iterable[object]
) -> Iterator[Result | SubscriberError]:
    """The sums of a range of the publisher's table, or the error that ended the task."""
    return _result("publisher", lambda: digest_range(side, part, threading.Event()), nothing)


def target_task(
    url: str, side: TargetSide, part: TableRange, nothing: Iterable[object]
) -> Iterator[Result | SubscriberError]:
    """The sums of a range of the target's table, or the error that ended the task.

    Args:
        url: the URL of the target, which the task opens.
        side: the table.
        part: the range.
        nothing: the input of the task.
    """

    def sums() -> BucketSums:
        found = BucketSums(side.choice)
        with open_target(url) as target, target.reporting(), target.engine.connect() as connection:
            for batch in side.batches(target, connection, part):
                found.add(batch.keys, batch.hashes)
        return found

    return _result("target", sums, nothing)


def _result(
    side: Side, sums: Callable[[], BucketSums], nothing: Iterable[object]
) -> Iterator[Result | SubscriberError]:
    # Spark reuses a Python worker only if the worker has read its input to the end.
    deque(nothing, maxlen=0)
    try:
        yield side, sums().to_bytes()
    except SubscriberError as error:
        yield error
