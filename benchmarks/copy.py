"""The initial copy of one table into every kind of target, and PostgreSQL's own table
synchronization.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.harness import SERVER_SETTINGS, ProcessWatch, wait_until
from subscriber.errors import UsageError
from subscriber.pipeline.copy import CopySource, copy_table
from subscriber.pipeline.session import spark_session
from subscriber.publisher.copy_plan import table_files
from subscriber.publisher.publisher import connect_publisher
from subscriber.publisher.shapes import read_shape
from subscriber.publisher.snapshot import exported_snapshot
from subscriber.scenario.servers.fresh_targets import TARGET_KINDS, TargetServers, fresh_target
from subscriber.scenario.servers.open_servers import PostgreSQL, open_mariadb, open_postgresql
from subscriber.settings import Settings
from subscriber.targets import Target, open_target
from subscriber.targets.ddl import create_table

TABLE = "t(a int PRIMARY KEY, b numeric(20,6), c text, d timestamptz, e jsonb)"
_WARM_UP_ROWS = 500_000


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """The figures of one copy.

    Attributes:
        rows_per_second: measured from before the snapshot until the target has committed.
        python_mib: peak resident size of the largest Python process, in MiB.
        jvm_mib: peak resident size of Spark's JVM, in MiB.
    """

    rows_per_second: float
    python_mib: float
    jvm_mib: float


class CopyBench:
    """A publisher with a table, a warm Spark, and the servers of empty targets."""

    def __init__(self, publisher: PostgreSQL, spark: SparkSession, folder: Path, servers: TargetServers) -> None:
        self._publisher = publisher
        self._spark = spark
        self._folder = folder
        self._servers = servers

    def fill(self, rows: int) -> None:
        """Replace the rows of the publisher's table by ``rows`` new rows."""
        self._publisher.execute(
            "TRUNCATE t; INSERT INTO t SELECT i, i * 1.000001, md5(i::text), timestamptz '2026-01-01' + i * interval '1 s',"
            f" jsonb_build_object('number', i, 'text', md5(i::text)) FROM generate_series(1, {rows}) i"
        )
        self._publisher.execute("VACUUM ANALYZE t")

    def copy(self, kind: str, rows: int) -> CopyFigures:
        """Copy the table into an empty database of this kind."""
        with (
            fresh_target(kind, "bench", self._folder, self._servers) as fresh,
            open_target(fresh.url) as target,
            ProcessWatch() as watch,
        ):
            began = time.monotonic()
            self._copy(target)
            elapsed = time.monotonic() - began
            with target.begin() as connection:
                found = connection.exec_driver_sql("SELECT count(*) FROM t").scalar_one()
        if found != rows:
            raise AssertionError(f"{found} of {rows} rows arrived")
        return CopyFigures(rows / elapsed, watch.largest("python"), watch.largest("java"))

    def _copy(self, target: Target) -> None:
        conninfo = self._publisher.conninfo()
        with connect_publisher(conninfo, "bench") as server:
            files = table_files(server, [("public", "t")])["public", "t"]
            shape = read_shape(server, "public", "t")
        assert shape is not None
        with target.begin() as connection:
            create_table(target, shape).create(connection)
        with exported_snapshot(conninfo, "bench") as snapshot:
            copy_table(
                self._spark,
                CopySource(conninfo, "bench", ("p",), "public", "t", snapshot.name, files),
                target,
                target.begin,
                Settings.from_environment(),
                on_progress=_silent,
                stop=threading.Event(),
            )

    def native(self, rows: int) -> float:
        """Rows per second of PostgreSQL's own table synchronization.

        The time is measured from CREATE SUBSCRIPTION until the rows are visible.
        """
        with open_postgresql(18, SERVER_SETTINGS) as subscriber:
            subscriber.execute(f"CREATE TABLE {TABLE}")
            began = time.monotonic()
            subscriber.execute(f"CREATE SUBSCRIPTION native CONNECTION '{self._publisher.conninfo()}' PUBLICATION p")
            wait_until(lambda: subscriber.execute("SELECT 1 FROM t LIMIT 1") != [], poll=0.05)
            elapsed = time.monotonic() - began
            found = subscriber.execute("SELECT count(*) FROM t")[0][0]
            subscriber.execute("DROP SUBSCRIPTION native")
        if found != rows:
            raise AssertionError(f"{found} of {rows} rows arrived")
        return rows / elapsed


@contextlib.contextmanager
def copy_bench() -> Iterator[CopyBench]:
    """Start everything, and make a small copy, so that Spark and its Python workers are warm."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="subscriber-bench-")))
        publisher = stack.enter_context(open_postgresql(18, SERVER_SETTINGS))
        publisher.execute(f"CREATE TABLE {TABLE}; CREATE PUBLICATION p FOR TABLE t")
        spark = stack.enter_context(spark_session("local[*]", folder / "spark.log"))
        servers = TargetServers(
            lambda: stack.enter_context(open_postgresql(18, SERVER_SETTINGS)),
            lambda: stack.enter_context(open_mariadb()),
        )
        bench = CopyBench(publisher, spark, folder, servers)
        bench.fill(_WARM_UP_ROWS)
        bench.copy("sqlite", _WARM_UP_ROWS)
        yield bench


def measure(rows: int, runs: int, large: int, note: Callable[[str, float], None]) -> None:
    """Measure PostgreSQL and every kind of target alternately, ``runs`` times each.

    The median of each, and its ratio to PostgreSQL's, are passed to ``note``. Then every kind of
    target is measured once with ``large`` rows, for its memory.
    """
    with copy_bench() as bench:
        bench.fill(rows)
        natives: list[float] = []
        figures: dict[str, list[CopyFigures]] = {}
        for _ in range(runs):
            natives.append(bench.native(rows))
            for kind in TARGET_KINDS:
                # A database or driver that is not installed is left out.
                with contextlib.suppress(UsageError):
                    figures.setdefault(kind, []).append(bench.copy(kind, rows))
        note("copy_native_rows_per_second", statistics.median(natives))
        for kind, found in figures.items():
            if found:
                rates = [one.rows_per_second for one in found]
                ratios = [ours / theirs for ours, theirs in zip(rates, natives, strict=True)]
                note(f"copy_{kind}_ratio", statistics.median(ratios))
                _note(f"copy_{kind}", found, note)
        if large:
            bench.fill(large)
            for kind, found in figures.items():
                if found:
                    _note(f"copy_{kind}_large", [bench.copy(kind, large)], note)


def _note(name: str, found: list[CopyFigures], note: Callable[[str, float], None]) -> None:
    note(f"{name}_rows_per_second", statistics.median(one.rows_per_second for one in found))
    note(f"{name}_python_mib", max(one.python_mib for one in found))
    note(f"{name}_jvm_mib", max(one.jvm_mib for one in found))


def _silent(_done: object) -> None:
    """Ignore the progress, which is meant for a terminal."""
