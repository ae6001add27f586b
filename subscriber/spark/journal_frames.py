"""Ranges of a journal and their frames: planned here, decoded by tasks of Spark or by this process.

::

    next_range ──▶ (start, end] ──▶ partitions ──▶ read_messages ──▶ decode_frames ──▶ frame     one task for each partition
                                                                                        ├─ on the driver's machine ──▶ FrameFile
                                                                                        ├─ SubscriberError
                                                                                        └─ too large ──▶ RemainingFrames: the driver reads it itself

*Rejected:* the public format (:mod:`subscriber.spark.source`) with ``mapInArrow`` behind it. Every
message would pass the JVM as a row of its own, and this would take most of the time of a batch.

The JVM takes as much processor time for a frame as the executor that decodes it. So where the
executors are threads of this machine (``local[*]``, the default), a task writes its frames into
files, and only their names pass the JVM. The driver maps a file into memory and removes it. A job
then costs the JVM about 60 ms whatever the task reads, so the tasks after the first are larger.
*Rejected:* shared memory (``/dev/shm``): in a container it often has 64 MB.

A row may have a gigabyte, and the JVM needs several times the size of what passes it. So the driver
itself decodes the rest of a partition from a frame on that is too large; its Python process must
hold the row in any case. *Rejected:* a larger JVM. Every user would pay for it, and the next row
may be larger still.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import uuid
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
class FrameFile:
    path: str


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

    def received(self, item: bytes | FrameFile | RemainingFrames | StageSeconds) -> Iterator[Frame]:
        if isinstance(item, StageSeconds):
            self.seconds.update(item)
        elif isinstance(item, RemainingFrames):
            yield from islice(self._decode(item.partition), item.done, None)
        else:
            yield Frame.decode(read_frame(item) if isinstance(item, FrameFile) else memoryview(item))


def _decode_partition(
    decoding: bytes, partition: JournalPartition, folder: Path | None, nothing: Iterable[object]
) -> Iterator[bytes | FrameFile | RemainingFrames | StageSeconds | SubscriberError]:
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
            file = None if folder is None else write_frame(folder, frame)
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


def write_frame(folder: Path, frame: Frame) -> FrameFile | None:
    """Write a frame into a file; None if it cannot be written, for instance to a full disk."""
    path = folder / uuid.uuid4().hex
    try:
        with pa.OSFile(str(path), "wb") as file:
            frame.write(file)
    except OSError:
        path.unlink(missing_ok=True)
        return None
    return FrameFile(str(path))


def read_frame(file: FrameFile) -> memoryview:
    """Map the file of a frame into memory, and remove it."""
    with pa.memory_map(file.path) as opened:
        frame = memoryview(opened.read_buffer())
    os.unlink(file.path)
    return frame


def remove_frames(folder: Path) -> None:
    """Remove the files that nobody has read: of tasks that were cancelled or repeated."""
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


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
