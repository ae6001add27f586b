"""Ranges of a journal and their frames: planned here, decoded by tasks of Spark or by this process.

::

    next_range ──▶ (start, end] ──▶ partitions ──▶ read_messages ──▶ decode_frames ──▶ frame     one task for each partition
                                                                                        ├─ on the driver's machine ──▶ ResultFile
                                                                                        ├─ SubscriberError
                                                                                        └─ too large ──▶ RemainingFrames: the driver reads it itself

*Rejected:* the public format (:mod:`subscriber.spark.source`) with ``mapInArrow`` behind it. Every
message would pass the JVM as a row of its own, and this would take most of the time of a batch.

The JVM takes as much processor time for a frame as the executor that decodes it. So on one machine
frames are in files (:mod:`subscriber.spark.result_files`), and only their names pass the JVM. A job
then costs the JVM about 60 ms whatever the task reads, so there the tasks after the first are
larger.

A row may have a gigabyte, and the JVM needs several times the size of what passes it. So the driver
itself decodes the rest of a partition from a frame on that is too large; its Python process must
hold the row in any case. *Rejected:* a larger JVM. Every user would pay for it, and the next row
may be larger still.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN
from subscriber.base.stage_seconds import StageSeconds
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.publication.publishing import Publishing
from subscriber.spark.result_files import ResultFile, take_result, write_result
from subscriber.stream.decode.decode_frames import decode_frames
from subscriber.stream.journal.message_rows import Finish, read_finish, read_messages
from subscriber.stream.journal.reader import JournalReader, SegmentRange
from subscriber.stream.journal.storage import Storage, open_storage

if TYPE_CHECKING:
    from subscriber.spark.jobs import Task

LARGEST_FRAME: Final = 16 * 1024 * 1024
"""The largest frame that may pass the JVM: twice that of a segment of the default size."""


@dataclass(frozen=True, slots=True)
class JournalPartition:
    url: str
    ranges: tuple[tuple[SegmentRange, Finish | None], ...]

    def messages(self) -> Iterator[pa.RecordBatch]:
        storage = open_storage(self.url)
        for one, finish in self.ranges:
            yield from read_messages(storage, one, finish)


@dataclass(frozen=True, slots=True)
class JournalRange:
    """A range of a journal: whole entries in (``start``, ``end``], and their size in bytes."""

    start: LSN
    end: LSN
    bytes: int


@dataclass(frozen=True, slots=True)
class RemainingFrames:
    """What a task leaves to the driver: the frames of its partition after the first ``done``."""

    partition: JournalPartition
    done: int


class JournalFrames:
    """One journal, as the driver reads it. With ``two_phase`` prepared transactions are read at the
    place of their PREPARE; with ``as_text`` every value stays in PostgreSQL's text form.
    ``seconds`` has the time of the stages read, decode and filter, also of executors.
    """

    def __init__(
        self,
        url: str,
        partition_bytes: int,
        *,
        two_phase: bool = False,
        as_text: bool = False,
        publishing: Publishing | None = None,
    ) -> None:
        self.partition_bytes = partition_bytes
        self._url = url
        self._two_phase = two_phase
        self._as_text = as_text
        self._publishing = publishing
        self.seconds = StageSeconds()
        self._pickled: bytes | None = None
        self._journal = JournalReader(open_storage(url))

    @property
    def storage(self) -> Storage:
        return self._journal.storage

    def next_range(self, start: LSN, limit: LSN | None, most_bytes: int) -> JournalRange:
        """The entries after ``start``: at most ``most_bytes``, but at least one, and none that ends
        after ``limit``. The range is empty if there is none. JournalGap: changes are missing.
        """
        end, size = self._journal.next_range(start, most_bytes, limit)
        return JournalRange(start, end, size)

    def partitions(self, wanted: JournalRange, later_bytes: int = 0) -> Sequence[JournalPartition]:
        """The partitions after the first one may have up to ``later_bytes``."""
        sizes = self.partition_bytes, max(self.partition_bytes, later_bytes)
        return plan_partitions(self._journal, self._url, wanted.start, wanted.end, *sizes, two_phase=self._two_phase)

    def frames(self, wanted: JournalRange) -> Iterator[Frame]:
        for partition in self.partitions(wanted):
            yield from self._decode(partition)

    def _decode(self, partition: JournalPartition) -> Iterator[Frame]:
        return decode_frames(
            partition.messages(), as_text=self._as_text, publishing=self._publishing, seconds=self.seconds
        )

    def task(self, partition: JournalPartition, folder: Path | None) -> Task:
        """The task that decodes a partition; :meth:`received` takes each of its results. ``folder``
        is where it writes its frames on this machine; None if it sends them.
        """
        if self._pickled is None:
            self._pickled = pickle.dumps((self._as_text, self._publishing))
        return partial(_decode_partition, self._pickled, partition, folder)

    def received(self, item: bytes | ResultFile | RemainingFrames | StageSeconds) -> Iterator[Frame]:
        if isinstance(item, StageSeconds):
            self.seconds.update(item)
        elif isinstance(item, RemainingFrames):
            yield from islice(self._decode(item.partition), item.done, None)
        else:
            yield Frame.decode(take_result(item) if isinstance(item, ResultFile) else memoryview(item))


def _decode_partition(
    decoding: bytes, partition: JournalPartition, folder: Path | None, nothing: Iterable[object]
) -> Iterator[bytes | ResultFile | RemainingFrames | StageSeconds | SubscriberError]:
    """Frames, then the time of the stages. An error is the last result, because Spark would convert
    an exception into text.
    """
    # Spark reuses a Python worker only if the worker has read its input to the end.
    deque(nothing, maxlen=0)
    as_text, publishing = pickle.loads(decoding)  # noqa: S301 - written by our own driver
    seconds = StageSeconds()
    try:
        frames = decode_frames(partition.messages(), as_text=as_text, publishing=publishing, seconds=seconds)
        for done, frame in enumerate(frames):
            file = None if folder is None else write_result(folder, frame.write)
            if file is not None:
                yield file
                continue
            encoded = frame.encode()
            if len(encoded) > LARGEST_FRAME:
                yield RemainingFrames(partition, done)
                return
            yield encoded
        yield seconds
    except SubscriberError as error:
        yield error


def plan_partitions(
    journal: JournalReader,
    url: str,
    start: LSN,
    end: LSN,
    partition_bytes: int,
    later_bytes: int | None = None,
    *,
    two_phase: bool,
) -> list[JournalPartition]:
    """Consecutive segments in groups of about ``partition_bytes``, those after the first of about
    ``later_bytes``. JournalGap: one is missing.
    """
    journal.require(start, end)
    finishes: dict[str, Finish | None] = {}

    def with_finish(one: SegmentRange) -> tuple[SegmentRange, Finish | None]:
        name = one.finish.name
        if name not in finishes:
            finishes[name] = read_finish(journal.storage, one)
        return one, finishes[name]

    ranges = journal.plan(start, end, two_phase=two_phase)
    return [
        JournalPartition(url, tuple(with_finish(one) for one in group))
        for group in group_ranges(ranges, partition_bytes, later_bytes)
    ]


def group_ranges(
    ranges: Sequence[SegmentRange], partition_bytes: int, later_bytes: int | None = None
) -> list[list[SegmentRange]]:
    """Consecutive groups of a plan: small segments share a task, which takes time to begin."""
    groups: list[list[SegmentRange]] = []
    size = 0
    for one in ranges:
        most = partition_bytes if len(groups) < 2 or later_bytes is None else later_bytes
        if not groups or size + one.segment.size > most:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one.segment.size
    return groups
