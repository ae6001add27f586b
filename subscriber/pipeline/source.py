"""``spark.readStream.format("pgoutput")``: the journal as a public streaming source.

::

    options   journal       path or URL of one journal (`subscriber journal ls` shows them)
              startingLsn   where to begin; default: the beginning of the journal
              maxBytes      admission control: at most about this much journal a micro-batch
              partitionBytes  about this much journal a partition
              twoPhase      true: prepared transactions come where they were prepared, and COMMIT PREPARED and ROLLBACK
                            PREPARED in their places; false (default): where they are committed; others do not come

The rows are those of :data:`~subscriber.journal.message_rows.ROW_SCHEMA`, in commit order within a
partition and from partition to partition. An offset is ``{"lsn": "0/16B3778"}`` and always the end
of a transaction. If there is nothing new, ``latestOffset`` waits up to :data:`PATIENCE_SECONDS`
before it returns the old offset. Otherwise Spark would call it a hundred times a second, and an
idle subscription would use the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes

from subscriber.digits import integer_of
from subscriber.errors import UsageError
from subscriber.journal.message_rows import Finish, read_finish, read_rows
from subscriber.journal.reader import JournalReader, Reading
from subscriber.journal.storage import Storage, open_storage
from subscriber.lsn import format_lsn, parse_lsn

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SPARK_SCHEMA: Final = (
    "finish_lsn long, xid long, commit_timestamp timestamp, lsn long, action string, relation string, message binary"
)
PATIENCE_SECONDS: Final = 2.0
POLL_SECONDS: Final = 0.01
RELIST_SECONDS: Final = 0.2
"""The longest time between two listings: a remote journal has no token that shows a change."""
_CLOCK_TICK_NS: Final = 20_000_000
"""The time stamp of a folder is that of the kernel's last clock tick. Two changes within a tick
have the same time stamp.
"""
_DEFAULT_MAX_BYTES: Final = 64 * 1024 * 1024
_DEFAULT_PARTITION_BYTES: Final = 8 * 1024 * 1024


@dataclass
class JournalPartition(InputPartition):
    """Some segments of a micro-batch, which one task reads one after the other."""

    url: str
    readings: tuple[tuple[Reading, Finish | None], ...]


class PgoutputSource(DataSource):
    """The data source ``pgoutput``; see the module's docstring."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pgoutput"

    def schema(self) -> str:
        """Return the columns of the journal's rows."""
        return SPARK_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of one query.

        Raises:
            UsageError: 22023, an option is not valid.
            JournalError: the journal cannot be opened.
        """
        del schema  # Spark's interface demands it; the schema is always the journal's
        options = self.options
        return self.open_reader(
            url=options["journal"],
            starting_lsn=options.get("startingLsn"),
            max_bytes=_bytes(options, "maxBytes", _DEFAULT_MAX_BYTES),
            partition_bytes=_bytes(options, "partitionBytes", _DEFAULT_PARTITION_BYTES),
            two_phase=is_true(options.get("twoPhase")),
        )

    def open_reader(self, **plan: Any) -> PgoutputStreamReader:
        """Return a reader for these arguments of :class:`PgoutputStreamReader`."""
        return PgoutputStreamReader(**plan)


class PgoutputStreamReader(DataSourceStreamReader):
    """Plans partitions on the driver; :meth:`read` is stateless and runs on the executors."""

    def __init__(
        self, url: str, starting_lsn: str | None, max_bytes: int, partition_bytes: int, *, two_phase: bool = False
    ) -> None:
        self._url = url
        self._starting_lsn = starting_lsn
        self._max_bytes = max_bytes
        self._partition_bytes = partition_bytes
        self._two_phase = two_phase
        self._journal = JournalReader(open_storage(url))

    def initialOffset(self) -> dict[str, str]:
        """Return where a query without a checkpoint begins.

        Raises:
            JournalError: the journal cannot be read, or there is none.
        """
        return {"lsn": self._starting_lsn or format_lsn(self._journal.control().begin)}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a micro-batch: :class:`ReadMaxBytes`."""
        return ReadMaxBytes(self._max_bytes)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """Return the end of the next micro-batch, which is the end of an entry and never inside a
        transaction.

        Raises:
            JournalError: the journal cannot be read, or there is none.
        """
        max_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        begin = parse_lsn(start["lsn"])
        deadline = time.monotonic() + (0 if isinstance(limit, ReadAllAvailable) else PATIENCE_SECONDS)
        token = self._journal.storage.change_token()
        end = self._journal.latest(begin, max_bytes)
        while end == begin and time.monotonic() < deadline:
            wait_for_change(self._journal.storage, token, POLL_SECONDS, time.sleep)
            token = self._journal.storage.change_token()
            end = self._journal.latest(begin, max_bytes)
        return {"lsn": format_lsn(end)}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Return the partitions: consecutive segments in groups of about ``partitionBytes``.

        Raises:
            JournalGap: a part of the range is not in the journal.
            JournalError: the journal cannot be read.
        """
        begin, stop = parse_lsn(start["lsn"]), parse_lsn(end["lsn"])
        self._journal.require(begin, stop)
        readings = self._journal.plan(begin, stop, two_phase=self._two_phase)
        groups = group_readings(readings, self._partition_bytes)
        finishes: dict[str, Finish | None] = {}
        return [JournalPartition(self._url, tuple(self._with_finish(group, finishes))) for group in groups]

    def _with_finish(
        self, readings: Sequence[Reading], known: dict[str, Finish | None]
    ) -> Iterator[tuple[Reading, Finish | None]]:
        for reading in readings:
            key = reading.finish.name
            if key not in known:
                known[key] = read_finish(self._journal.storage, reading)
            yield reading, known[key]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition.

        Raises:
            JournalCorrupt: a segment differs from what was written.
            JournalError: the journal cannot be read.
        """
        assert isinstance(partition, JournalPartition)
        storage = open_storage(partition.url)
        for reading, finish in partition.readings:
            yield from read_rows(storage, reading, finish)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the progress of the targets decides what may be trimmed, and not Spark."""


def wait_for_change(storage: Storage, token: int | None, poll: float, sleep: Callable[[float], object]) -> None:
    """Return when the journal may have changed since ``token`` was read.

    Listing the journal a hundred times a second would use a tenth of a core.

    Args:
        storage: the files of the journal.
        token: the result of :meth:`Storage.change_token` before the journal was listed.
        poll: the seconds between two looks at the token.
        sleep: waits for so many seconds; if it returns a true value, the wait is over.
    """
    is_coarse = token is not None and abs(time.time_ns() - token) < _CLOCK_TICK_NS
    again = time.monotonic() + (_CLOCK_TICK_NS / 1e9 if is_coarse else RELIST_SECONDS)
    while time.monotonic() < again and storage.change_token() == token:
        if sleep(poll):
            return


def _bytes(options: Mapping[str, str], name: str, default: int) -> int:
    """Return the value of an option that is a size.

    Raises:
        UsageError: 22023, the value is not an integer above 0.
    """
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and 0 < integer_of(text) < 2**63):
        raise UsageError(
            f'invalid value for option "{name}": "{text}"', sqlstate="22023", hint="Give a number of bytes."
        )
    return integer_of(text)


def is_true(option: str | None) -> bool:
    """Return the value of a boolean option, which Spark passes as text."""
    return (option or "").lower() == "true"


def group_readings(readings: Sequence[Reading], partition_bytes: int) -> list[list[Reading]]:
    """Divide a plan into consecutive groups of about ``partition_bytes``.

    A task takes a few hundred milliseconds before its first row, so small segments share a task.
    """
    groups: list[list[Reading]] = []
    size = 0
    for reading in readings:
        if not groups or size + reading.segment.size > partition_bytes:
            groups.append([])
            size = 0
        groups[-1].append(reading)
        size += reading.segment.size
    return groups
