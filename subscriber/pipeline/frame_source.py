"""The internal source of the apply queries: it reads the same journal by the same plan as
``format("pgoutput")``, but returns frames.

::

    partition ──▶ read_rows ──▶ decode_frames ──▶ encode ──▶ frame                  one Python task of an executor
                                                  ├─ on the driver's machine ──▶ file
                                                  ├─ SubscriberError ──▶ error
                                                  └─ too large ──▶ rest             the driver reads it itself

A task reads its segments, decodes them and filters the changes before anything leaves its Python
process. The public format with a ``mapInArrow`` behind it would give the same frames. But then
every message would pass the JVM as a separate row, out of one Python process and into another, and
this would take most of the time of a batch.

A row may have a gigabyte, and the JVM needs several times the size of what passes it. The JVM
would run out of memory, and the run would end. Therefore a frame that is too large is not sent.
Instead the driver is told where to continue; it reads and decodes the rest of the partition in its
Python process, which must hold the row in any case. *Rejected:* a larger JVM. Every user would pay
for it, and the next row may be larger still.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes

from subscriber.errors import SubscriberError
from subscriber.journal.message_rows import read_messages
from subscriber.journal.segment import ends_within
from subscriber.journal.storage import Storage, open_storage
from subscriber.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn
from subscriber.pipeline.frame_files import leave_frame
from subscriber.pipeline.planning_error import leaving_error
from subscriber.pipeline.source import JournalPartition, PgoutputSource, PgoutputStreamReader, is_true

# The planner is another process, which does not decode. To import these modules, and the one that
# decodes, would take it a fifth of a second.
if TYPE_CHECKING:
    from subscriber.protocol.changes import Frame
    from subscriber.publication.publishing import Publishing

FRAME_SCHEMA: Final = pa.schema([pa.field(name, pa.binary()) for name in ("frame", "file", "error", "rest")])
"""The columns of a row: ``frame`` is an encoded Frame; ``file`` is the path of a file that has one
(:mod:`subscriber.pipeline.frame_files`); ``error`` is the pickled error that ended
the partition instead; ``rest`` is a pickled :class:`PartitionRest`.
"""

_EMPTY: Final = "empty"
"""Counts the empty micro-batches in an offset. Spark starts one if the offset differs from the
last.
"""

LARGEST_FRAME: Final = 16 * 1024 * 1024
"""The largest frame that may pass the JVM, in bytes: twice the size of the frame of a segment of
the default size.
"""


class FrameSource(PgoutputSource):
    """``format("pgoutput_frames")``; see the module's docstring.

    It has five options in addition to those of :class:`PgoutputSource`:

    - ``asText``: true if every value stays in PostgreSQL's text form, for a target that parses it
      itself. Default: false.
    - ``publishing``: the emulated publications, as :func:`as_option` writes them. Default: the
      server evaluates the publications.
    - ``errorFile``: the file into which the planner writes an error
      (:mod:`subscriber.pipeline.planning_error`). Default: none.
    - ``frameFolder``: the folder into which tasks write their frames, if they run on the machine of
      the driver. Default: frames are sent through the JVM.
    - ``progressFile``: the file that says how far the driver has read the journal itself
      (:mod:`subscriber.pipeline.tail`). While it does not exist, micro-batches are empty. Default:
      none.

    If nothing is new, the planner does not wait, as that of :class:`PgoutputSource` does. It begins
    an empty micro-batch, in which the driver waits for the end of the journal to move.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pgoutput_frames"

    def schema(self) -> str:
        """Return the columns of :data:`FRAME_SCHEMA`."""
        return ", ".join(f"{name} binary" for name in FRAME_SCHEMA.names)

    def open_reader(self, **plan: Any) -> FrameStreamReader:
        """Return a reader for these arguments and for the options of the source."""
        text = self.options.get("publishing")
        publishing = None if text is None else pickle.loads(base64.b64decode(text))  # noqa: S301 - our own query's
        file = self.options.get("errorFile")
        with leaving_error(file):
            return FrameStreamReader(
                as_text=is_true(self.options.get("asText")),
                publishing=publishing,
                error_file=file,
                progress_file=self.options.get("progressFile"),
                frame_folder=self.options.get("frameFolder"),
                **plan,
            )


class FrameStreamReader(PgoutputStreamReader):
    """Plans partitions like its base class; :meth:`read` returns frames."""

    def __init__(
        self,
        *,
        as_text: bool,
        publishing: Publishing | None,
        error_file: str | None = None,
        progress_file: str | None = None,
        frame_folder: str | None = None,
        **plan: Any,
    ) -> None:
        super().__init__(**plan)
        self._frame_folder = None if frame_folder is None else Path(frame_folder)
        self._error_file = error_file
        self._progress_file = progress_file
        self._as_text = as_text
        self._publishing = publishing

    def initialOffset(self) -> dict[str, str]:
        """Return the offset like the base class; an error is also written into the error file.

        Raises:
            JournalError: see the base class.
        """
        with leaving_error(self._error_file):
            return super().initialOffset()

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """Return the end of the next micro-batch, which is empty if nothing is new. An error is
        also written into the error file.

        Raises:
            JournalError: see the base class.
        """
        if self._progress_file is not None and read_progress(self._progress_file) is None:
            return _empty_after(start)  # the driver reads the journal itself at first
        with leaving_error(self._error_file):
            begin = self._begin(start)
            max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
            end = self._journal.latest(begin, max_bytes)
        if end > begin:
            return {"lsn": format_lsn(end)}
        return _empty_after({**start, "lsn": format_lsn(begin)})

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Return the partitions like the base class; an error is also written into the error file.
        An empty micro-batch has none, even if the journal no longer has the entries before it.

        Raises:
            JournalError: see the base class.
        """
        begin = self._begin(start)
        if parse_lsn(end["lsn"]) <= begin:
            return []
        with leaving_error(self._error_file):
            return super().partitions({"lsn": format_lsn(begin)}, end)

    def _begin(self, start: dict[str, str]) -> LSN:
        """Return where the next micro-batch begins: where the last one ended, or where the driver
        has read to since then.
        """
        return LSN(max(parse_lsn(start["lsn"]), read_progress(self._progress_file) or INVALID_LSN))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the frames of one partition, one in each row. If an error occurs, it is the last
        row (:data:`FRAME_SCHEMA`).
        """

        def rest(done: int) -> bytes:
            return pickle.dumps(PartitionRest(self, partition, done))

        return encode_frames(
            _messages(partition),
            as_text=self._as_text,
            publishing=self._publishing,
            rest=rest,
            folder=self._frame_folder,
        )

    def frames(self, partition: InputPartition) -> Iterator[Frame]:
        """Return the frames of one partition, decoded in this process.

        Raises:
            SubscriberError: the error that ends the partition.
        """
        from subscriber.stages.decode_frames import decode_frames

        return decode_frames(_messages(partition), as_text=self._as_text, publishing=self._publishing)

    @property
    def storage(self) -> Storage:
        """The files of the journal."""
        return self._journal.storage

    def small_end(self, start: LSN, most_bytes: int, bound: LSN | None = None) -> LSN | None:
        """Return the end of the journal, or of its part up to ``bound``; None if more than
        ``most_bytes`` of it follow ``start``.

        Raises:
            SubscriberError: the journal cannot be read, or has a gap.
        """
        end, size = start, 0
        for end, more in ends_within(self._journal.entries(start), bound):  # noqa: B007 - the last one counts
            size += more
        return None if size > most_bytes else end

    def slice_end(self, start: LSN, most_bytes: int, bound: LSN | None = None) -> LSN | None:
        """Return the end of the last entry of which at most ``most_bytes`` follow ``start``, and
        which ends at or before ``bound``; None if the first entry after ``start`` is larger.

        Raises:
            SubscriberError: the journal cannot be read, or has a gap.
        """
        end, size = start, 0
        for entry_end, more in ends_within(self._journal.entries(start), bound):
            size += more
            if size > most_bytes:
                return None if end == start else end
            end = entry_end
        return end

    def end_within(self, start: LSN, end: LSN, bound: LSN | None) -> LSN:
        """Return where a batch (``start``, ``end``] must end because of ``bound``: ``end`` itself,
        or the last place before it at which a batch may end; ``start`` if there is none.

        Raises:
            SubscriberError: the journal cannot be read, or has a gap.
        """
        if bound is None or end <= bound:
            return end
        if bound <= start:
            return start
        places = [place for place, _ in ends_within(self._journal.entries(start), bound)]
        return max([start, *places])

    def first_end(self, start: LSN) -> LSN:
        """Return the end of the first entry after ``start``.

        Raises:
            SubscriberError: the journal cannot be read, or has a gap.
        """
        return self._journal.latest(start, max_bytes=0)

    def frames_between(self, start: LSN, end: LSN) -> Iterator[Frame]:
        """Return the frames of the entries in (``start``, ``end``], planned, read and decoded in
        this process.

        Args:
            start: the end of an entry, or the progress.
            end: the end of an entry.

        Raises:
            SubscriberError: the error that ends the frames.
        """
        for partition in self.partitions({"lsn": format_lsn(start)}, {"lsn": format_lsn(end)}):
            yield from self.frames(partition)


def _messages(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Return the messages of one partition."""
    assert isinstance(partition, JournalPartition)
    storage = open_storage(partition.url)
    for reading, finish in partition.readings:
        yield from read_messages(storage, reading, finish)


@dataclass(frozen=True, slots=True)
class PartitionRest:
    """The part of a partition that a task leaves to the driver.

    Attributes:
        reader: reads the partition.
        partition: the partition.
        done: the number of frames that the task has already sent.
    """

    reader: FrameStreamReader
    partition: InputPartition
    done: int

    def frames(self) -> Iterator[Frame]:
        """Return the frames that the task has not sent.

        Raises:
            SubscriberError: the error that ends the partition.
        """
        return islice(self.reader.frames(self.partition), self.done, None)


def encode_frames(
    batches: Iterable[pa.RecordBatch],
    *,
    as_text: bool,
    publishing: Publishing | None = None,
    rest: Callable[[int], bytes],
    folder: Path | None = None,
) -> Iterator[pa.RecordBatch]:
    """Decode a partition and encode its frames as rows of :data:`FRAME_SCHEMA`.

    An error, also an error of the journal, is returned as the last row, because Spark would convert
    an exception into text.

    Args:
        batches: the rows of the partition.
        as_text: see :class:`~subscriber.stages.decode_frames.FrameDecoder`.
        publishing: the emulated publications; None if the server evaluates the publications.
        rest: returns what is sent instead of a frame that is too large, given the number of frames
            before it; this is the last row.
        folder: where frames are written into files; None if they are sent.
    """
    from subscriber.stages.decode_frames import decode_frames

    try:
        for done, frame in enumerate(decode_frames(batches, as_text=as_text, publishing=publishing)):
            encoded = frame.encode()
            file = None if folder is None else leave_frame(folder, encoded)
            if file is not None:
                yield _row(file=file.encode())
                continue
            if len(encoded) > LARGEST_FRAME:
                yield _row(rest=rest(done))
                return
            yield _row(frame=encoded)
    except SubscriberError as error:
        yield _row(error=pickle.dumps(error))


def read_progress(file: str | None) -> LSN | None:
    """Return how far the driver has read the journal itself; None if it has not said so yet."""
    if file is None:
        return None
    try:
        return parse_lsn(Path(file).read_text())
    except FileNotFoundError:
        return None


def write_progress(file: Path, position: LSN) -> None:
    """Record how far the driver has read the journal itself. A reader sees the old position or the
    new one.
    """
    temporary = file.with_suffix(".new")
    temporary.write_text(format_lsn(position))
    temporary.rename(file)


def as_option(publishing: Publishing) -> str:
    """Encode emulated publications as text, because the options of a source are text."""
    return base64.b64encode(pickle.dumps(publishing)).decode()


def _empty_after(start: dict[str, str]) -> dict[str, str]:
    """Return the end of an empty micro-batch that begins at the offset ``start``."""
    return {"lsn": start["lsn"], _EMPTY: str(int(start.get(_EMPTY, "0")) + 1)}


def _row(**value: bytes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value.get(name)], pa.binary()) for name in FRAME_SCHEMA.names], FRAME_SCHEMA)
