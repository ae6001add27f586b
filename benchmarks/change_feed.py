"""The typed change feed of Spark into ``noop``, beside decoding alone, in rows per second.

``python -m benchmarks.change_feed`` writes a journal of 1,000,000 inserts of five columns (those of
:mod:`benchmarks.decoder`) in transactions of 1,000, and reads it on ``local[2]``: as frames, which
is what ``subscriber run`` needs of Spark, and as the feed. Each is the best of three runs, after one
that starts Spark's processes.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.decoder import TYPE_OIDS
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.envelope import XLogData, encode_envelope
from subscriber.spark.journal_frames import JournalPartition, plan_partitions
from subscriber.spark.session import spark_session
from subscriber.spark.source import PgoutputSource
from subscriber.stream.decode.decode_frames import decode_frames
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.stream.journal.writer import open_writer

ROWS = 1_000_000
ROWS_OF_TRANSACTION = 1_000
SEGMENT_ROWS = 50_000
PARTITION_BYTES = 8 * 1024 * 1024
RUNS = 3
_BEGIN = 0x100


def write_journal(folder: Path, rows: int) -> None:
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
            for begin in range(first, min(first + SEGMENT_ROWS, rows), ROWS_OF_TRANSACTION):
                xid, end = 1000 + begin, lsn + ROWS_OF_TRANSACTION + 8
                frames.append(_frame(encode(m.Begin(LSN(end - 8), 1, xid)), lsn))
                for key in range(begin, min(begin + ROWS_OF_TRANSACTION, rows)):
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


def decoding(spark: SparkSession, folder: Path) -> int:
    journal = JournalReader(LocalStorage(folder))
    end = journal.latest(LSN(_BEGIN))
    parts = plan_partitions(journal, str(folder), LSN(_BEGIN), end, PARTITION_BYTES, two_phase=False)
    return int(spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(_decode).sum())


def _decode(parts: Iterable[JournalPartition]) -> Iterator[int]:
    for part in parts:
        for frame in decode_frames(part.messages(), as_text=False):
            yield sum(map(len, frame.groups))


def feed(spark: SparkSession, folder: Path) -> int:
    options = {"journal": str(folder), "table": "public.w1"}
    with tempfile.TemporaryDirectory() as checkpoint:
        rows = spark.readStream.format("pgoutput").options(**options).load()
        query = (
            rows.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        )
        query.awaitTermination()
        return sum(one.numInputRows for one in query.recentProgress)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "journal"
        folder.mkdir()
        write_journal(folder, rows)
        with spark_session("local[2]", Path(name) / "spark.log") as spark:
            spark.dataSource.register(PgoutputSource)
            ways: dict[str, Callable[[SparkSession, Path], int]] = {"decoding alone": decoding, "feed into noop": feed}
            best = dict.fromkeys(ways, float("inf"))
            for run in range(RUNS + 1):
                for way, read in ways.items():
                    began = time.perf_counter()
                    assert read(spark, folder) == rows
                    best[way] = min(best[way], time.perf_counter() - began) if run else best[way]
    for way, seconds in best.items():
        print(f"{way}: {rows / seconds:,.0f} rows/s ({seconds:.2f} s)")
    print(f"ratio: {best['decoding alone'] / best['feed into noop']:.2f}")


if __name__ == "__main__":
    main()
