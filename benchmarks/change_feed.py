"""The typed change feed of Spark into ``noop`` and into Delta Lake, beside its parts alone.

``python -m benchmarks.change_feed [rows]`` writes journals of inserts of five columns (those of
:mod:`benchmarks.decoder`), and reads them in a session as a user has it (``local[2]``)::

    decoding alone   journal ──▶ frames                      in Spark's Python processes, nothing is sent
    rows alone       journal ──▶ Arrow batches of the feed   the same
    Spark alone                  Arrow batches ──▶ noop      batches that were made before
    batch read       journal ──▶ Arrow batches ──▶ noop      spark.read; also of transactions of two rows
    feed             journal ──▶ Arrow batches ──▶ noop      a stream with Trigger.AvailableNow
                                               ──▶ Delta     the same; append_changes, apply_changes

A query costs something before its first row. So each way reads a journal of ``rows`` and one of a
fifth of it: the difference is the cost of rows, and the rest that of the start. Both are processor
time of all processes, which other programs on the machine change little; wall time is beside it.
All are medians of ``--runs`` runs, after one that starts Spark's processes.

"Spark alone" is what no source in Python can avoid: Spark moves each column of each row out of
Arrow's batches into rows of its own.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from benchmarks.decoder import TYPE_OIDS
from benchmarks.process_watch import tree_seconds
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.envelope import XLogData, encode_envelope
from subscriber.spark import append_changes, apply_changes
from subscriber.spark.feed.change_feed import partition_rows, resolved
from subscriber.spark.feed.feed_options import feed_options
from subscriber.spark.journal_frames import JournalPartition, plan_partitions
from subscriber.spark.lakehouse.delta import DeltaSink
from subscriber.spark.session import find_java
from subscriber.spark.source import PgoutputSource
from subscriber.stream.decode.decode_frames import decode_frames
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.stream.journal.writer import open_writer

ROWS = 1_000_000
ROWS_OF_TRANSACTION = 1_000
SEGMENT_ROWS = 50_000
PARTITION_BYTES = 8 * 1024 * 1024
PART_ROWS = 100_000
RUNS = 3
SMALLER = 5
_BEGIN = 0x100


def write_journal(folder: Path, rows: int, rows_of_transaction: int) -> None:
    names = ("id", "n", "t", "amount", "at")
    columns = tuple(
        m.RelationColumn(int(not number), name, oid, -1)
        for number, (name, oid) in enumerate(zip(names, TYPE_OIDS, strict=True))
    )
    relation = m.Relation(16384, "public", "w1", "d", columns)
    random = np.random.default_rng(1)
    with open_writer(
        LocalStorage(folder), system_identifier="1", slot="s", confirmed_lsn=LSN(0), applied_lsn=LSN(_BEGIN)
    ) as journal:
        lsn = _BEGIN
        for first in range(0, rows, SEGMENT_ROWS):
            builder = journal.builder({16384: relation} if first else {}, in_stream=False)
            frames: list[bytes] = [] if first else [_frame(encode(relation), 0)]
            finish = b""
            for begin in range(first, min(first + SEGMENT_ROWS, rows), rows_of_transaction):
                xid, end = 1000 + begin, lsn + rows_of_transaction + 8
                frames.append(_frame(encode(m.Begin(LSN(end - 8), 1, xid)), lsn))
                for key in range(begin, min(begin + rows_of_transaction, rows)):
                    lsn += 1
                    frames.append(_frame(_insert(key, random.bytes(16).hex()), lsn))
                finish = encode(m.Commit(LSN(end - 8), LSN(end), 1))
                frames.append(_frame(finish, lsn))
                lsn = end
            builder.extend(frames)
            journal.publish(builder, LSN(lsn), kind="t", xid=0, finish=finish)


def _frame(message: bytes, lsn: int) -> bytes:
    return encode_envelope(XLogData(lsn, lsn, 0, message))


def _insert(key: int, text: str) -> bytes:
    values = (str(key), str(key % 1000), text, f"{key % 10_000}.50", "2026-11-28 20:00:00.123456+00")
    columns = b"".join(b"t" + struct.pack(">I", len(value)) + value.encode() for value in values)
    return b"I" + struct.pack(">I", 16384) + b"N" + struct.pack(">H", len(values)) + columns


@dataclass(frozen=True, slots=True)
class Journals:
    """A journal, and the feed's rows of it as a file of Arrow batches."""

    folder: Path
    rows: int

    @property
    def batches(self) -> Path:
        return self.folder.with_suffix(".arrow")

    @property
    def options(self) -> dict[str, str]:
        return {"journal": str(self.folder), "table": "public.w1"}

    def partitions(self) -> list[JournalPartition]:
        journal = JournalReader(LocalStorage(self.folder))
        end = journal.latest(LSN(_BEGIN))
        return plan_partitions(journal, str(self.folder), LSN(_BEGIN), end, PARTITION_BYTES, two_phase=False)


def written(folder: Path, rows: int, rows_of_transaction: int = ROWS_OF_TRANSACTION) -> Journals:
    folder.mkdir()
    write_journal(folder, rows, rows_of_transaction)
    made = Journals(folder, rows)
    options = feed_options(made.options)
    schema = resolved(options)
    with pa.ipc.new_file(made.batches, schema.arrow) as file:
        for part in made.partitions():
            for batch in partition_rows(part, schema, options):
                file.write_batch(batch)
    return made


def measure_rows() -> dict[str, float]:
    """Rows per second of processor time without Spark: as frames, and as batches of the feed, from
    transactions of 1,000 rows and of two. Medians of three runs.
    """
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in (ROWS_OF_TRANSACTION, 2):
            journal = written(Path(folder) / str(size), PART_ROWS, size)
            parts, options = journal.partitions(), feed_options(journal.options)
            schema = resolved(options)

            def frames() -> int:
                return sum(rows for part in parts for rows in _frame_rows(part))  # noqa: B023 - called at once

            def batches() -> int:
                return sum(
                    batch.num_rows
                    for part in parts  # noqa: B023 - called at once
                    for batch in partition_rows(part, schema, options)  # noqa: B023
                )

            for name, read in (("frames", frames), ("feed", batches)):
                seconds = []
                for _ in range(RUNS):
                    began = time.process_time()
                    assert read() == journal.rows
                    seconds.append(time.process_time() - began)
                figures[f"{name}_of_{size}_rows_per_second"] = journal.rows / median(seconds)
    return figures


def _frame_rows(part: JournalPartition) -> Iterator[int]:
    for frame in decode_frames(part.messages(), as_text=False):
        yield sum(map(len, frame.groups))


def decoding(spark: SparkSession, journal: Journals) -> int:
    def decode(parts: Iterable[JournalPartition]) -> Iterator[int]:
        for part in parts:
            yield from _frame_rows(part)

    parts = journal.partitions()
    return int(spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(decode).sum())


def feed_rows(spark: SparkSession, journal: Journals) -> int:
    options = feed_options(journal.options)
    schema = resolved(options)

    def make(parts: Iterable[JournalPartition]) -> Iterator[int]:
        for part in parts:
            for batch in partition_rows(part, schema, options):
                yield batch.num_rows

    parts = journal.partitions()
    return int(spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(make).sum())


class PrebuiltSource(DataSource):
    """Rows of the feed that were made before: what Spark itself costs."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> StructType:
        return resolved(feed_options({"journal": self.options["journal"], "table": "public.w1"})).spark

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - an interface's argument
        return _PrebuiltReader(self.options["batches"])


class _PrebuiltReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        with pa.ipc.open_file(self._path) as file:
            return [InputPartition(number) for number in range(file.num_record_batches)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self._path) as mapped:
            yield pa.ipc.open_file(mapped).get_batch(partition.value)


def spark_alone(spark: SparkSession, journal: Journals) -> None:
    options = {"journal": str(journal.folder), "batches": str(journal.batches)}
    into_noop(spark.read.format("prebuilt").options(**options).load())


def batch_read(spark: SparkSession, journal: Journals) -> None:
    into_noop(spark.read.format("pgoutput").options(**journal.options).load())


def into_noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def feed(spark: SparkSession, journal: Journals) -> int:
    return _streamed(spark, journal, lambda rows, _folder: rows.writeStream.format("noop"))


def delta_append(spark: SparkSession, journal: Journals) -> int:
    return _streamed(spark, journal, partial(_into_delta, append_changes))


def delta_merge(spark: SparkSession, journal: Journals) -> int:
    return _streamed(spark, journal, partial(_into_delta, partial(apply_changes, keys=["id"])))


def _into_delta(apply: Callable[[DataFrame, DeltaSink], None], rows: DataFrame, folder: str) -> DataStreamWriter:
    sink = DeltaSink(os.path.join(folder, "table"))
    return rows.writeStream.foreachBatch(lambda batch, _number: apply(batch, sink))


def _streamed(spark: SparkSession, journal: Journals, writer: Callable[[DataFrame, str], DataStreamWriter]) -> int:
    """Run a stream over the journal with Trigger.AvailableNow; returns its rows."""
    rows = spark.readStream.format("pgoutput").options(**journal.options).load()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = os.path.join(folder, "checkpoint")
        query = writer(rows, folder).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(one.numInputRows for one in query.recentProgress)


DECODING: Final = "decoding alone"
WAYS: Final[dict[str, tuple[Callable[[SparkSession, Journals], int | None], bool]]] = {
    DECODING: (decoding, False),
    "rows alone": (feed_rows, False),
    "Spark alone": (spark_alone, False),
    "batch read into noop": (batch_read, False),
    "batch read of small transactions into noop": (batch_read, True),
    "feed into noop": (feed, False),
    "feed appended to Delta": (delta_append, False),
    "feed merged into Delta": (delta_merge, False),
}
"""What is measured (it returns the rows if it counts them), and whether with small transactions."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds and wall seconds."""

    processor: float
    wall: float


def measured(run: Callable[[], object]) -> Cost:
    processor, began = tree_seconds(os.getpid()), time.perf_counter()
    run()
    return Cost(tree_seconds(os.getpid()) - processor, time.perf_counter() - began)


def measure(spark: SparkSession, folder: Path, rows: int, runs: int, ways: Sequence[str]) -> Iterator[str]:
    """A line for each way: the cost of a row and of the start."""
    sizes = (rows, rows // SMALLER)
    journals = {
        (is_small, size): written(folder / f"{size}-{is_small}", size, 2 if is_small else ROWS_OF_TRANSACTION)
        for is_small in {WAYS[way][1] for way in ways}
        for size in sizes
    }
    costs: dict[tuple[str, int], list[Cost]] = {(way, size): [] for way in ways for size in sizes}
    for number in range(runs + 1):
        for (way, size), found in costs.items():
            read, is_small = WAYS[way]
            journal = journals[is_small, size]

            def run() -> None:
                assert read(spark, journal) in (None, journal.rows)  # noqa: B023 - it is called at once

            cost = measured(run)
            if number:
                found.append(cost)
    decoded = float("nan")
    for way in ways:
        larger, smaller = (
            Cost(median(one.processor for one in costs[way, size]), median(one.wall for one in costs[way, size]))
            for size in sizes
        )
        row = (larger.processor - smaller.processor) / (sizes[0] - sizes[1])
        if way == DECODING:
            decoded = row
        yield (
            f"{way:42} {row * 1e6:6.2f} µs of processor time a row, decoding is {decoded / row if row else float('nan'):4.2f} of it;"
            f" {larger.processor - row * rows:5.2f} s at the start; {rows / larger.wall:9,.0f} rows/s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, nargs="?", default=ROWS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--ways", nargs="*", default=[*WAYS], choices=[*WAYS])
    options = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("JAVA_HOME", str(find_java()))
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master(options.master)
        for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
            builder = builder.config(name, "false")
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        for source in (PgoutputSource, PrebuiltSource):
            spark.dataSource.register(source)
        for line in measure(
            spark, Path(folder), options.rows, options.runs, [*dict.fromkeys((DECODING, *options.ways))]
        ):
            print(line, flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
