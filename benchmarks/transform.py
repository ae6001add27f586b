"""The speed at which changes are decoded, filtered and rewritten, in changes per second on one
core.

The changes are UPDATEs with full old rows. ``python -m benchmarks.transform`` prints the median of
three runs over half a million changes, in batches of 16384 changes as in the pipeline. A row has a
key, a number and a state that are filtered, a text of 32 characters and a numeric. About a quarter
of the rows satisfy ``a > 500 AND c = 'NSW'``, before and after the UPDATE, so that each row of the
truth table occurs.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pyarrow as pa

from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.messages import IDENTITY_FLAG, Relation, RelationColumn, TextValue, Update
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.publication.publishing import Compiled, Publishing
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables
from subscriber.stream.decode.decode_frames import FrameDecoder
from subscriber.stream.decode.publish import publish

BATCH_ROWS = 16_384
BATCHES = 31
RUNS = 3
COLUMNS = {"id": 20, "a": 23, "c": 25, "d": 25, "price": 1700}
STATES = ("NSW", "VIC", "NSW", "QLD")
FILTERS = ("a > 500 AND c = 'NSW'", "a > 900 AND c = 'VIC'")
_RELATION_ID = 16_384


def measure_transform() -> dict[str, float]:
    """Changes per second of decoding alone, and with the filters of one and of two publications.

    The results are medians.
    """
    messages, lsns = _batch()
    steps = {"decode": None, "transform": 1, "transform_two_publications": 2}
    programs = {step: None if count is None else _programs(count) for step, count in steps.items()}
    for compiled in programs.values():
        _run(messages, lsns, compiled, 1)  # compiles filters, initialises Arrow's kernels
    # The steps alternate, so that all are slower if the machine becomes slower.
    runs = [{step: _run(messages, lsns, programs[step], BATCHES) for step in steps} for _ in range(RUNS)]
    return {
        f"{step}_changes_per_second": BATCHES * BATCH_ROWS / statistics.median(run[step] for run in runs)
        for step in steps
    }


def _run(messages: pa.BinaryArray, lsns: pa.Int64Array, programs: Compiled | None, batches: int) -> float:
    """The seconds that ``batches`` batches take."""
    began = time.perf_counter()
    decoder = FrameDecoder()
    positions = lsns.to_numpy()
    for _ in range(batches):
        frame = decoder.decode(messages, lsns)
        if programs is not None:
            list(publish(frame, programs, positions))
    return time.perf_counter() - began


def _programs(count: int) -> Compiled:
    columns = tuple(
        PublisherColumn(name, number, type_oid, collation=100 if type_oid == 25 else 0)
        for number, (name, type_oid) in enumerate(COLUMNS.items(), start=1)
    )
    table = PublisherTable(_RELATION_ID, "public", "t", "table", columns, "full", tuple(COLUMNS))
    publications = tuple(
        Publication(f"p{number}", tables=(TableEntry("public", "t", where=where),))
        for number, where in enumerate(FILTERS[:count])
    )
    return Compiled(Publishing(publications, PublisherTables(180000, {table.key: table}, frozenset({100}))))


def _batch() -> tuple[pa.BinaryArray, pa.Int64Array]:
    """One batch of UPDATE messages, after the relation message."""
    relation = Relation(
        _RELATION_ID,
        "public",
        "t",
        "f",
        tuple(RelationColumn(IDENTITY_FLAG, name, type_oid, -1) for name, type_oid in COLUMNS.items()),
    )
    updates = [Update(_RELATION_ID, "O", _row(row, row), _row(row, row + 7 * (row % 3))) for row in range(BATCH_ROWS)]
    messages = [encode(relation), *map(encode, updates)]
    return pa.array(messages, pa.binary()), pa.array(np.arange(len(messages)), pa.int64())


def _row(key: int, version: int) -> tuple[TextValue, ...]:
    values = (
        f"{10**9 + key}",
        f"{version * 37 % 1000}",
        STATES[version % len(STATES)],
        f"{key * 2_654_435_761:032x}",
        f"{key % 100_000}.{version % 100:02d}",
    )
    return tuple(TextValue(value.encode()) for value in values)


if __name__ == "__main__":
    for name, value in measure_transform().items():
        print(f"{name:48s} {value:12,.0f}")
