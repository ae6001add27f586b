"""``spark.readStream.format("pgoutput")``: the journal as a public streaming source.

::

    options   journal       path or URL of one journal (`subscriber journal ls` shows them)
              startingLsn   where to begin; default: the beginning of the journal
              maxBytes      admission control: at most about this much journal a micro-batch
              partitionBytes  about this much journal a partition
              twoPhase      true: prepared transactions come where they were prepared, and COMMIT PREPARED and ROLLBACK
                            PREPARED in their places; false (default): where they are committed; others do not come

The rows are those of :data:`~subscriber.stream.journal.message_rows.ROW_SCHEMA`, in commit order
within a partition and from partition to partition. An offset is ``{"lsn": "0/16B3778"}`` and always
the end of a transaction. If there is nothing new, ``latestOffset`` waits up to
:data:`PATIENCE_SECONDS` before it returns the old offset. Otherwise Spark would call it a hundred
times a second, and an idle subscription would use the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes

from subscriber.base.digits import parse_int
from subscriber.base.errors import UsageError
from subscriber.base.lsn import format_lsn, parse_lsn
from subscriber.spark.journal_frames import JournalPartition, plan_partitions
from subscriber.stream.journal.message_rows import read_rows
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import Storage, open_storage

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
"""A folder's time stamp is that of the kernel's last tick: two changes may have the same."""
_DEFAULT_MAX_BYTES: Final = 64 * 1024 * 1024
_DEFAULT_PARTITION_BYTES: Final = 8 * 1024 * 1024


class PgoutputSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "pgoutput"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema  # Spark's interface demands it; the schema is always the journal's
        options = self.options
        return PgoutputStreamReader(
            options["journal"],
            options.get("startingLsn"),
            _bytes(options, "maxBytes", _DEFAULT_MAX_BYTES),
            _bytes(options, "partitionBytes", _DEFAULT_PARTITION_BYTES),
            two_phase=options.get("twoPhase", "").lower() == "true",
        )


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
        return {"lsn": self._starting_lsn or format_lsn(self._journal.control().begin)}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxBytes(self._max_bytes)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """The end of the next micro-batch, never inside a transaction."""
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
        begin, stop = parse_lsn(start["lsn"]), parse_lsn(end["lsn"])
        planned = plan_partitions(
            self._journal, self._url, begin, stop, self._partition_bytes, two_phase=self._two_phase
        )
        return [InputPartition(partition) for partition in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        planned: JournalPartition = partition.value
        storage = open_storage(planned.url)
        for one, finish in planned.ranges:
            yield from read_rows(storage, one, finish)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the progress of the targets decides what may be trimmed, and not Spark."""


def wait_for_change(storage: Storage, token: int | None, poll: float, sleep: Callable[[float], object]) -> None:
    """Return when the journal may have changed since ``token`` was read, or when ``sleep`` returns
    a true value. Listing the journal a hundred times a second would use a tenth of a core.
    """
    is_coarse = token is not None and abs(time.time_ns() - token) < _CLOCK_TICK_NS
    again = time.monotonic() + (_CLOCK_TICK_NS / 1e9 if is_coarse else RELIST_SECONDS)
    while time.monotonic() < again and storage.change_token() == token:
        if sleep(poll):
            return


def _bytes(options: Mapping[str, str], name: str, default: int) -> int:
    """The value of an option that is a size; UsageError 22023 if it is no integer above 0."""
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and 0 < parse_int(text) < 2**63):
        raise UsageError(
            f'invalid value for option "{name}": "{text}"', sqlstate="22023", hint="Give a number of bytes."
        )
    return parse_int(text)
