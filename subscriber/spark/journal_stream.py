"""What every stream of a journal has in common: offsets, limits, and the wait for what arrives.

An offset has an LSN, which is always the end of a transaction. If there is nothing new,
``latestOffset`` waits up to :data:`PATIENCE_SECONDS` before it returns the old offset. Otherwise
Spark would call it a hundred times a second, and an idle query would use the processor. With
``Trigger.AvailableNow`` a query ends at what the journal has when it starts.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from subscriber.base.errors import JournalGap
from subscriber.base.lsn import LSN, format_lsn, parse_lsn
from subscriber.spark.journal_frames import plan_partitions
from subscriber.spark.told_errors import told
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import Storage, open_storage

PATIENCE_SECONDS: Final = 2.0
POLL_SECONDS: Final = 0.01
RELIST_SECONDS: Final = 0.2
"""The longest time between two listings: a remote journal has no token that shows a change."""
_CLOCK_TICK_NS: Final = 20_000_000
"""A folder's time stamp is that of the kernel's last tick: two changes may have the same."""

Offset = dict[str, Any]


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans partitions on the driver; :meth:`read` is stateless and runs on the executors."""

    def __init__(self, url: str, max_bytes: int, partition_bytes: int, *, two_phase: bool = False) -> None:
        self._url = url
        self._max_bytes = max_bytes
        self._partition_bytes = partition_bytes
        self._two_phase = two_phase
        self._journal = JournalReader(open_storage(url))
        self._last: LSN | None = None
        self._newest: tuple[LSN, Offset] | None = None

    @abstractmethod
    def begin(self) -> LSN:
        """Where a query without a checkpoint begins."""

    def offset(self, lsn: LSN) -> Offset:
        return {"lsn": format_lsn(lsn)}

    def limit(self) -> LSN | None:
        """What a batch must not go beyond; None if there is no limit."""
        return self._last

    def within(self, start: LSN, end: LSN) -> LSN:
        """The end of a batch, at most ``end``, that fulfils further conditions of the query."""
        del start
        return end

    @told
    def initialOffset(self) -> Offset:
        return self.offset(self.begin())

    @told
    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self._max_bytes)

    @told
    def reportLatestOffset(self) -> Offset | None:
        """The newest position of the journal, for the query's progress."""
        last = newest(self._journal)
        if self._newest is None or self._newest[0] != last:
            self._newest = last, self.offset(last)
        return self._newest[1]

    @told
    def prepareForTriggerAvailableNow(self) -> None:
        self._last = newest(self._journal)

    @told
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The end of the next micro-batch, never inside a transaction."""
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        begin = parse_lsn(start["lsn"])
        waits = self._last is None and not isinstance(limit, ReadAllAvailable)
        deadline = time.monotonic() + (PATIENCE_SECONDS if waits else 0)
        token = self._journal.storage.change_token()
        end = self._end(begin, max_bytes)
        while end == begin and time.monotonic() < deadline:
            wait_for_change(self._journal.storage, token, POLL_SECONDS, time.sleep)
            token = self._journal.storage.change_token()
            end = self._end(begin, max_bytes)
        return start if end == begin else self.offset(end)

    def _end(self, begin: LSN, max_bytes: int | None) -> LSN:
        check_kept(self._journal, begin)
        end = self._journal.next_range(begin, max_bytes, self.limit())[0]
        return end if end == begin else self.within(begin, end)

    @told
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        begin, stop = parse_lsn(start["lsn"]), parse_lsn(end["lsn"])
        check_kept(self._journal, begin)
        planned = plan_partitions(
            self._journal, self._url, begin, stop, self._partition_bytes, two_phase=self._two_phase
        )
        return [InputPartition(partition) for partition in planned]


def newest(journal: JournalReader) -> LSN:
    """The end of the last entry."""
    return max([journal.control().begin, *(entry.end for entry in journal.listed())])


def check_kept(journal: JournalReader, start: LSN) -> None:
    """JournalGap unless the journal still has everything after ``start``."""
    begin = journal.control().begin
    if start < begin:
        raise JournalGap(
            f"the query needs the changes after {format_lsn(start)}, but the journal begins at {format_lsn(begin)}",
            detail="The changes in between were removed, because no consumer of the journal needed them.",
            hint="Start the query without startingVersion and with a new checkpoint, and copy the tables again.",
            lsn=start,
        )


def wait_for_change(storage: Storage, token: int | None, poll: float, sleep: Callable[[float], object]) -> None:
    """Return when the journal may have changed since ``token`` was read, or when ``sleep`` returns
    a true value. Listing the journal a hundred times a second would use a tenth of a core.
    """
    is_coarse = token is not None and abs(time.time_ns() - token) < _CLOCK_TICK_NS
    again = time.monotonic() + (_CLOCK_TICK_NS / 1e9 if is_coarse else RELIST_SECONDS)
    while time.monotonic() < again and storage.change_token() == token:
        if sleep(poll):
            return
