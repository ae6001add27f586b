"""The speed at which tuples become Arrow columns, in rows per second on one core.

The steps are splitting, gathering and decoding of five text columns. ``python -m
benchmarks.decoder`` prints the median of three runs over a million rows, in batches of 16384 rows
as in the pipeline. A row has a bigint key, an integer, a text of 32 characters, a numeric and a
timestamptz, as a publisher sends them without ``binary``.
"""

from __future__ import annotations

import statistics
import struct
import time

import numpy as np

from subscriber.postgres.protocol.message_batch import Bytes, Positions, column_bytes, split_tuples
from subscriber.postgres.types.registry import family_of

BATCH_ROWS = 16_384
ROWS = 1_000_000
RUNS = 3
TYPE_OIDS = (20, 23, 25, 1700, 1184)
_HEADER = b"I" + struct.pack(">I", 16_384) + b"N"


def measure() -> dict[str, float]:
    """Rows per second of each step alone, and of all steps together (``rows_per_second``), as
    medians.
    """
    buffer, starts, limits = _batch()
    batches = ROWS // BATCH_ROWS
    _run(buffer, starts, limits, 1)  # the first call of each Arrow kernel initialises it
    runs = [_run(buffer, starts, limits, batches) for _ in range(RUNS)]
    rows = batches * BATCH_ROWS
    return {step: rows / statistics.median(run[step] for run in runs) for step in runs[0]}


def _run(buffer: Bytes, starts: Positions, limits: Positions, batches: int) -> dict[str, float]:
    """The seconds that each step takes for ``batches`` batches."""
    split = gather = decode = 0.0
    for _ in range(batches):
        began = time.perf_counter()
        columns = split_tuples(buffer, starts, limits, len(TYPE_OIDS))
        was_split = time.perf_counter()
        arrays = [column_bytes(buffer, columns, index) for index in range(len(TYPE_OIDS))]
        was_gathered = time.perf_counter()
        for type_oid, array in zip(TYPE_OIDS, arrays, strict=True):
            family_of(type_oid).decode_text(array)
        was_decoded = time.perf_counter()
        split += was_split - began
        gather += was_gathered - was_split
        decode += was_decoded - was_gathered
    return {
        "split_rows_per_second": split,
        "gather_rows_per_second": gather,
        "decode_rows_per_second": decode,
        "rows_per_second": split + gather + decode,
    }


def _batch() -> tuple[Bytes, Positions, Positions]:
    """One batch of INSERT messages: their bytes, and the starts and the ends of their tuples."""
    messages = [_insert(row) for row in range(BATCH_ROWS)]
    limits = np.cumsum([len(message) for message in messages])
    starts = limits - np.array([len(message) for message in messages]) + len(_HEADER)
    return np.frombuffer(b"".join(messages), np.uint8), starts, limits


def _insert(row: int) -> bytes:
    values = (
        f"{10**9 + row}",
        f"{row % 1000}",
        f"{row * 2_654_435_761:032x}",
        f"{row % 100_000}.{row % 100:02d}",
        f"2026-11-{row % 28 + 1:02d} 12:{row % 60:02d}:{row % 60:02d}.{row % 1_000_000:06d}+00",
    )
    encoded = (b"t" + struct.pack(">I", len(value)) + value.encode() for value in values)
    return _HEADER + struct.pack(">H", len(values)) + b"".join(encoded)


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:24s} {value:12,.0f}")
