"""The source of our own query: the same journal and the same plan as ``format("pgoutput")``, read
as frames that apply takes.

::

    partition ──▶ read_rows ──▶ decode_frames ──▶ encode ──▶ frame                  one Python task of an executor
                                                  ├─ SubscriberError ──▶ error
                                                  └─ too large ──▶ rest             which the driver reads itself

A task reads its segments, decodes them and publishes what is in them before anything leaves its
Python. The public format and a ``mapInArrow`` behind it would give the same frames; but then every
message passes the JVM as a row of its own, into one Python process and out of another, which is
most of the time that a batch takes.

A row may have a gigabyte, and the JVM holds what passes it some ten times over: it would be out of
memory, and the run at its end. So a frame that is too large is not sent. The driver gets word where
to read on, and reads and decodes the rest of the partition in its own Python, which has to hold the
row in any case. *Rejected:* a larger JVM, which everybody would pay for, and which the next row
outgrows.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from subscriber.errors import SubscriberError
from subscriber.lsn import LSN, format_lsn
from subscriber.pipeline.planning_error import leaving_error
from subscriber.pipeline.source import PgoutputSource, PgoutputStreamReader, is_true
from subscriber.protocol.changes import Frame
from subscriber.publication.publishing import Publishing
from subscriber.stages.decode_frames import decode_frames

FRAME_SCHEMA: Final = pa.schema([pa.field(name, pa.binary()) for name in ("frame", "error", "rest")])
"""``frame``: an encoded Frame; ``error``: the pickled error that ended the partition instead;
``rest``: a pickled :class:`PartitionRest`.
"""

LARGEST_FRAME: Final = 16 * 1024 * 1024
"""Bytes of a frame that may pass the JVM; twice what a segment of the default size becomes."""


class FrameSource(PgoutputSource):
    """``format("pgoutput_frames")``; see the module.

    It has three options more than :class:`PgoutputSource`:

    ``asText``      true: every value in PostgreSQL's own text, for a target that parses it itself;
                    default: false
    ``publishing``  what the changes are published by, as :func:`as_option` writes it;
                    default: the server has done that
    ``errorFile``   where the planner leaves an error (:mod:`subscriber.pipeline.planning_error`);
                    default: nowhere
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "pgoutput_frames"

    def schema(self) -> str:
        """That of :data:`FRAME_SCHEMA`."""
        return ", ".join(f"{name} binary" for name in FRAME_SCHEMA.names)

    def open_reader(self, **plan: Any) -> FrameStreamReader:
        """What reads by these arguments, and by the options."""
        text = self.options.get("publishing")
        publishing = None if text is None else pickle.loads(base64.b64decode(text))  # noqa: S301 - our own query's
        file = self.options.get("errorFile")
        with leaving_error(file):
            return FrameStreamReader(
                as_text=is_true(self.options.get("asText")), publishing=publishing, error_file=file, **plan
            )


class FrameStreamReader(PgoutputStreamReader):
    """Plans as its base does; :meth:`read` decodes."""

    def __init__(
        self, *, as_text: bool, publishing: Publishing | None, error_file: str | None = None, **plan: Any
    ) -> None:
        super().__init__(**plan)
        self._error_file = error_file
        self._as_text = as_text
        self._publishing = publishing

    def initialOffset(self) -> dict[str, str]:
        """As its base; an error is left for the driver, too.

        Raises:
            JournalError: see the base.
        """
        with leaving_error(self._error_file):
            return super().initialOffset()

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """As its base; an error is left for the driver, too.

        Raises:
            JournalError: see the base.
        """
        with leaving_error(self._error_file):
            return super().latestOffset(start, limit)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """As its base; an error is left for the driver, too.

        Raises:
            JournalError: see the base.
        """
        with leaving_error(self._error_file):
            return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The frames of one partition, a row each; an error is the last row
        (:data:`FRAME_SCHEMA`).
        """

        def rest(done: int) -> bytes:
            return pickle.dumps(PartitionRest(self, partition, done))

        return encode_frames(super().read(partition), as_text=self._as_text, publishing=self._publishing, rest=rest)

    def frames(self, partition: InputPartition) -> Iterator[Frame]:
        """The same, decoded here.

        Raises:
            SubscriberError: what ends the partition.
        """
        return decode_frames(super().read(partition), as_text=self._as_text, publishing=self._publishing)

    def first_end(self, start: LSN) -> LSN:
        """Where the first entry after ``start`` ends.

        Raises:
            SubscriberError: the journal cannot be read, or has a gap.
        """
        return self._journal.latest(start, max_bytes=0)

    def frames_between(self, start: LSN, end: LSN) -> Iterator[Frame]:
        """The frames of the entries in (``start``, ``end``], planned, read and decoded here.

        Args:
            start: the end of an entry, or of what was applied before.
            end: the end of an entry.

        Raises:
            SubscriberError: what ends them.
        """
        for partition in self.partitions({"lsn": format_lsn(start)}, {"lsn": format_lsn(end)}):
            yield from self.frames(partition)


@dataclass(frozen=True, slots=True)
class PartitionRest:
    """What a task has left to the driver.

    Attributes:
        reader: reads it.
        partition: a part of the journal.
        done: so many frames of it have been sent.
    """

    reader: FrameStreamReader
    partition: InputPartition
    done: int

    def frames(self) -> Iterator[Frame]:
        """The frames that have not been sent.

        Raises:
            SubscriberError: what ends the partition.
        """
        return islice(self.reader.frames(self.partition), self.done, None)


def encode_frames(
    batches: Iterable[pa.RecordBatch],
    *,
    as_text: bool,
    publishing: Publishing | None = None,
    rest: Callable[[int], bytes],
) -> Iterator[pa.RecordBatch]:
    """Decode a partition and encode its frames: :data:`FRAME_SCHEMA`.

    An error, the journal's too, is the last row: Spark would flatten what is raised into text.

    Args:
        batches: the partition.
        as_text: see :class:`~subscriber.stages.decode_frames.FrameDecoder`.
        publishing: what the changes are published by; None: the server has done that.
        rest: what to send instead of a frame that is too large, after so many others; it is the
            last row.
    """
    try:
        for done, frame in enumerate(decode_frames(batches, as_text=as_text, publishing=publishing)):
            encoded = frame.encode()
            if len(encoded) > LARGEST_FRAME:
                yield _row(rest=rest(done))
                return
            yield _row(frame=encoded)
    except SubscriberError as error:
        yield _row(error=pickle.dumps(error))


def as_option(publishing: Publishing) -> str:
    """A Publishing as a source's option, which is text."""
    return base64.b64encode(pickle.dumps(publishing)).decode()


def _row(**value: bytes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value.get(name)], pa.binary()) for name in FRAME_SCHEMA.names], FRAME_SCHEMA)
