"""The common parts of the benchmarks of the stream.

These are a publisher with a backlog, a supervisor on a warm Spark, and the measurement of
processes.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from subscriber import catalog
from subscriber.commands.create_subscription import create_subscription
from subscriber.commands.subscription_grammar import parse
from subscriber.commands.subscription_statements import CreateSubscription
from subscriber.lsn import LSN, parse_lsn
from subscriber.pipeline.on_spark import spark_pipeline
from subscriber.pipeline.session import spark_session
from subscriber.runtime.supervisor import Supervisor
from subscriber.scenario.servers.open_servers import PostgreSQL, open_postgresql
from subscriber.settings import Settings
from subscriber.targets import Target, open_target

TABLE = "t(a bigint PRIMARY KEY, b int, c text, d numeric(12,2), e timestamptz)"
SQLITE_TABLE = "CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT, d DECIMAL_TEXT, e TEXT)"
SERVER_SETTINGS = {
    # This is PostgreSQL's default. The 64kB of the tests would make both subscribers slower.
    "logical_decoding_work_mem": "64MB",
    "max_wal_size": "8GB",
    "shared_buffers": "256MB",
}
PATIENCE_SECONDS = 1800.0


def insert_rows(publisher: PostgreSQL, rows: int, first: int = 1) -> None:
    """Insert rows in one transaction.

    A row has a bigint key, an int, a text of 32 characters, a numeric and a timestamptz.
    """
    publisher.execute(
        "INSERT INTO t SELECT i, i % 1000, md5(i::text), (i % 100000) / 100.0, timestamptz '2026-01-01' + i * interval '1 s'"
        f" FROM generate_series({first}, {first + rows - 1}) i"
    )


@dataclass
class Rig:
    """A publisher, a SQLite target, and a supervisor that runs in a thread on a warm Spark."""

    publisher: PostgreSQL
    target: Target
    file: Path
    settings: Settings
    supervisor: Supervisor
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> threading.Thread:
        """Start the supervisor."""
        thread = threading.Thread(target=self.supervisor.run, args=(self._stop,), daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Stop the supervisor."""
        self._stop.set()

    def enable(self, *, enabled: bool) -> None:
        """Enable or disable the subscription, as ALTER SUBSCRIPTION would."""
        with self.target.begin() as connection:
            catalog.set_enabled(connection, "bench", enabled=enabled)

    def applied(self) -> LSN:
        """The progress in the target, as another connection sees it."""
        return parse_lsn(self._ask("SELECT remote_lsn FROM subscriber_replication_origin_status"))

    def count(self, where: str = "true") -> int:
        """The number of rows in the target, as another connection sees them."""
        return int(self._ask(f"SELECT count(*) FROM t WHERE {where}"))

    def has_rows(self, rows: int) -> bool:
        """Whether another connection sees at least ``rows`` rows in the target."""
        return self.count() >= rows

    def _ask(self, query: str) -> Any:
        with contextlib.closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=5)) as connection:
            return connection.execute(query).fetchone()[0]


@contextlib.contextmanager
def rig() -> Iterator[Rig]:
    """Start everything, and replicate one row, so that Spark and its Python workers are warm."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="subscriber-bench-")))
        publisher = stack.enter_context(open_postgresql(18, SERVER_SETTINGS))
        publisher.execute(f"CREATE TABLE {TABLE}; CREATE PUBLICATION p FOR TABLE t")
        file = folder / "target.db"
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(SQLITE_TABLE)
        target = stack.enter_context(open_target(f"sqlite:///{file}"))
        settings = Settings.from_environment({**os.environ, "SUBSCRIBER_JOURNAL": str(folder / "journal")})
        command = parse(
            f"CREATE SUBSCRIPTION bench CONNECTION '{publisher.conninfo()}' PUBLICATION p WITH (copy_data = false)"
        )
        assert isinstance(command, CreateSubscription)
        create_subscription(target, command, settings, lambda _: None)
        spark = stack.enter_context(spark_session("local[*]", folder / "spark.log"))
        supervisor = Supervisor(target, spark_pipeline(spark), settings, once=False)
        bench = Rig(publisher, target, file, settings, supervisor)
        thread = bench.run()
        try:
            insert_rows(publisher, 1, first=0)
            wait_until(lambda: bench.has_rows(1))
            yield bench
        finally:
            bench.stop()
            thread.join(60)


def wait_until(condition: Callable[[], bool], poll: float = 0.02) -> float:
    """Wait until a condition holds, and return the seconds that this took.

    Raises:
        TimeoutError: the condition did not hold within half an hour.
    """
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise TimeoutError("a benchmark waited for half an hour")
        time.sleep(poll)
    return time.monotonic() - began


class ProcessWatch:
    """Peak memory of this process and all its descendants (Linux only).

    Attributes:
        peaks: process ID → (program and first arguments, peak resident MiB).
    """

    def __init__(self, interval: float = 0.5) -> None:
        self.peaks: dict[int, tuple[str, float]] = {}
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ProcessWatch:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets the peak resident size
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    def largest_python(self) -> float:
        """Peak resident size of the largest Python process, in MiB."""
        return self.largest("python")

    def largest(self, program: str) -> float:
        """Peak resident size of the largest process of a program, in MiB."""
        return max((peak for what, peak in self.peaks.values() if what.startswith(program)), default=0.0)

    def _watch(self) -> None:
        while not self._stop.wait(self._interval):
            self._sample()

    def _sample(self) -> None:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError, StopIteration):
                status = Path(f"/proc/{pid}/status").read_text().splitlines()
                peak = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
                self.peaks[pid] = (_what(pid), max(peak, self.peaks.get(pid, ("", 0.0))[1]))


def descendants(root: int) -> list[int]:
    """The IDs of ``root`` and of all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def processor_seconds() -> dict[int, float]:
    """Processor time of this process and of its living descendants, in seconds, by process ID."""
    ticks = os.sysconf("SC_CLK_TCK")
    used = {}
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used[pid] = (int(fields[11]) + int(fields[12])) / ticks
    return used


def _what(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return " ".join([Path(words[0].decode()).name, *(word.decode() for word in words[1:4])])
