"""The speed at which the exact path applies decoded frames to SQLite.

It applies one transaction of a million inserts. This is the driver's part of a micro-batch: from
the bytes of frames to a committed target. Run it with ``python -m benchmarks.apply``.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from subscriber.apply.exact import ExactApplier
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol.changes import ChangeGroup, Control, Controls, Frame
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.messages import Begin, Commit, Relation, RelationColumn
from subscriber.targets import Target, open_target

ROWS = 1_000_000
FRAME_ROWS = 16_384
START, COMMIT, END = LSN(100), LSN(200), LSN(208)

RELATION = Relation(
    16384,
    "public",
    "measured",
    "d",
    tuple(
        RelationColumn(int(name == "id"), name, oid, -1)
        for name, oid in (("id", 20), ("n", 23), ("t", 25), ("amount", 1700), ("at", 1184))
    ),
)
TABLE = "CREATE TABLE measured (id INTEGER PRIMARY KEY, n INTEGER, t TEXT, amount NUMERIC_TEXT, at TEXT)"


def frames(rows: int) -> list[bytes]:
    """One transaction of ``rows`` inserts, as encoded frames."""
    bounds = [*range(0, rows, FRAME_ROWS), rows]
    parts = [_group(first, last) for first, last in itertools.pairwise(bounds)]
    begin, commit = Control(0, encode(Begin(COMMIT, 0, 731))), Control(FRAME_ROWS + 1, encode(Commit(COMMIT, END, 0)))
    return [
        Frame((part,), Controls.of([begin] * (number == 0) + [commit] * (number == len(parts) - 1))).encode()
        for number, part in enumerate(parts)
    ]


def _group(first: int, last: int) -> ChangeGroup:
    ids = np.arange(first, last)
    batch = pa.RecordBatch.from_pydict(
        {
            "id": pa.array(ids, pa.int64()),
            "n": pa.array(ids % 1000, pa.int32()),
            "t": [f"{number:032d}" for number in ids],
            "amount": [f"{number % 9999}.25" for number in ids],
            "at": ["2026-11-21 03:04:05.678901+00"] * len(ids),
        }
    )
    return ChangeGroup(RELATION, "I", None, np.arange(1, len(ids) + 1, dtype=np.int32), None, batch)


def measure(rows: int = ROWS, repeats: int = 3) -> dict[str, float]:
    """Rows per second into SQLite, as ``rows_per_second``: the median of ``repeats`` runs."""
    encoded = frames(rows)
    return {"rows_per_second": statistics.median(rows / _seconds(encoded) for _ in range(repeats))}


def _seconds(encoded: list[bytes]) -> float:
    with tempfile.TemporaryDirectory() as folder, open_target(f"sqlite:///{Path(folder, 'target.db')}") as target:
        _create(target)
        applier = ExactApplier(target, subscription="measured", subid=1)
        started = time.perf_counter()
        applier.apply(_decoded(encoded), start=START, end=END)
        return time.perf_counter() - started


def _create(target: Target) -> None:
    with target.begin() as connection:
        CATALOG.create_all(connection)
        OriginProgress(1).create(connection, START)
        connection.exec_driver_sql(TABLE)


def _decoded(encoded: list[bytes]) -> Iterator[Frame]:
    return (Frame.decode(data) for data in encoded)


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name}: {value:,.0f}")
