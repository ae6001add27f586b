"""How far queries are behind the journal, after each micro-batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from subscriber.base.lsn import parse_lsn


class ChangeFeedLag(StreamingQueryListener):
    """Tells the lag of each query that reads ``format("pgoutput")``, a line for each micro-batch::

        spark.streams.addListener(ChangeFeedLag())

        orders: at 0/16B3778, 2048 bytes and 1.5 seconds behind the journal

    ``tell`` gets the lines; it prints them by default. The time is that between two commits at the
    publisher; it is left out where one of them is not known.
    """

    def __init__(self, tell: Callable[[str], object] = print) -> None:
        self._tell = tell

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing has been read yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        for source in progress.sources:
            line = lag(source.endOffset, source.latestOffset)
            if line is not None:
                self._tell(f"{progress.name or progress.id}: {line}")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """The query has read everything, which its last progress has told."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Spark tells why."""


def lag(end: str | None, latest: str | None) -> str | None:
    """The lag between two offsets of a source, as JSON; None if they are not those of a feed.

    >>> lag('{"lsn": "0/200"}', '{"lsn": "0/300"}')
    'at 0/200, 256 bytes behind the journal'
    """
    reached, newest = _offset(end), _offset(latest)
    if reached is None or newest is None:
        return None
    behind = max(parse_lsn(newest["lsn"]) - parse_lsn(reached["lsn"]), 0)
    times = [one.get("commitTimestamp") for one in (reached, newest)]
    seconds = ""
    if times[0] and times[1]:
        apart = datetime.fromisoformat(times[1]) - datetime.fromisoformat(times[0])
        seconds = f" and {max(apart.total_seconds(), 0):.1f} seconds"
    return f"at {reached['lsn']}, {behind} bytes{seconds} behind the journal"


def _offset(text: str | None) -> dict[str, Any] | None:
    try:
        offset = json.loads(text or "")
    except ValueError:
        return None
    return offset if isinstance(offset, dict) and "lsn" in offset else None
