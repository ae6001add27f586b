"""The benchmarks of the stream into SQLite, and of PostgreSQL's own subscriber.

They measure a backlog of one large transaction, memory, latency, and the load while idle.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

from benchmarks.harness import (
    SERVER_SETTINGS,
    TABLE,
    ProcessWatch,
    Rig,
    insert_rows,
    processor_seconds,
    wait_until,
)
from subscriber.journal.segment import journal_entries
from subscriber.journal.storage import LocalStorage
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.runtime.receiver_process import Assignment, receive
from subscriber.scenario.servers.open_servers import open_postgresql
from subscriber.settings import Settings

_BACKLOG_FROM = 10_000_000
"""The first key of a backlog. It is greater than the keys of the latency measurement."""


def drain(bench: Rig, rows: int) -> tuple[float, float]:
    """Apply a backlog of ``rows`` rows.

    Returns:
        Rows per second from ENABLE until all rows are visible, and the peak of the largest Python
        process in MiB.
    """
    bench.enable(enabled=False)
    wait_until(lambda: not bench.supervisor.workers)
    insert_rows(bench.publisher, rows, first=_BACKLOG_FROM)
    before = bench.applied()
    with ProcessWatch() as watch:
        began = time.monotonic()
        bench.enable(enabled=True)
        # The progress is committed with the data. Reading it does not slow down the writer, as
        # counting rows would.
        wait_until(lambda: bench.applied() > before)
        elapsed = time.monotonic() - began
    found = bench.count(f"a >= {_BACKLOG_FROM}")
    if found != rows:
        raise AssertionError(f"{found} of {rows} rows arrived")
    bench.publisher.execute("TRUNCATE t")
    wait_until(lambda: bench.count() == 0)
    return rows / elapsed, watch.largest_python()


def receive_alone(rows: int) -> float:
    """Rows per second from the publisher into a durable journal, without Spark and without a
    target.
    """
    with (
        tempfile.TemporaryDirectory(prefix="subscriber-bench-") as folder,
        open_postgresql(18, SERVER_SETTINGS) as publisher,
    ):
        publisher.execute(f"CREATE TABLE {TABLE}; CREATE PUBLICATION p FOR TABLE t")
        publisher.execute("SELECT pg_create_logical_replication_slot('receive', 'pgoutput')")
        with connect_publisher(publisher.conninfo(), "bench") as server:
            slot = Publisher(server).check_slot("receive")
            system = Publisher(server).system_identifier()
        insert_rows(publisher, rows)
        assignment = Assignment(
            subscription="receive",
            conninfo=publisher.conninfo(),
            slot="receive",
            publications=("p",),
            streaming="parallel",
            two_phase=False,
            binary=False,
            origin="any",
            system_identifier=system,
            journal=folder,
            applied_lsn=slot.confirmed_flush_lsn,
        )
        stop = threading.Event()
        thread = threading.Thread(target=receive, args=(assignment, Settings.from_environment(), stop, _silent))
        began = time.monotonic()
        thread.start()
        wait_until(lambda: bool(journal_entries(LocalStorage(Path(folder)))))
        elapsed = time.monotonic() - began
        stop.set()
        thread.join()
    return rows / elapsed


def _silent(_event: str, **_fields: str) -> None:
    """Ignore the events of the receiver, which are meant for a supervisor."""


def latency(bench: Rig, transactions: int = 60) -> tuple[float, float]:
    """Milliseconds from a commit at the publisher until its row is visible in SQLite.

    Returns:
        The median and the 95th percentile.
    """
    seen = []
    before = bench.count()
    for number in range(1, transactions + 1):
        insert_rows(bench.publisher, 1, first=1000 + number)
        began = time.monotonic()
        wait_until(partial(bench.has_rows, before + number), poll=0.005)
        seen.append((time.monotonic() - began) * 1000)
        time.sleep(0.3)
    seen.sort()
    return statistics.median(seen), seen[int(len(seen) * 0.95)]


def idle(seconds: float = 30.0) -> float:
    """The processor load while nothing happens, in cores, of all processes including the
    publisher's.
    """
    time.sleep(5)
    began, before = time.monotonic(), processor_seconds()
    time.sleep(seconds)
    after = processor_seconds()
    elapsed = time.monotonic() - began
    # A process that started meanwhile counts with all its time. The time of a process that has
    # ended is unknown.
    return sum(used - before.get(pid, 0.0) for pid, used in after.items()) / elapsed


def native(rows: int) -> float:
    """Rows per second of PostgreSQL 18's own subscriber for the same backlog.

    The time is measured from ENABLE until the rows are visible.
    """
    with open_postgresql(18, SERVER_SETTINGS) as publisher, open_postgresql(18, SERVER_SETTINGS) as subscriber:
        publisher.execute(f"CREATE TABLE {TABLE}; CREATE PUBLICATION p FOR TABLE t")
        subscriber.execute(f"CREATE TABLE {TABLE}")
        subscriber.execute(
            f"CREATE SUBSCRIPTION s CONNECTION '{publisher.conninfo()}' PUBLICATION p WITH (copy_data = false)"
        )
        insert_rows(publisher, 1, first=0)
        wait_until(lambda: subscriber.execute("SELECT count(*) FROM t")[0][0] == 1)
        subscriber.execute("ALTER SUBSCRIPTION s DISABLE")
        insert_rows(publisher, rows)
        began = time.monotonic()
        subscriber.execute("ALTER SUBSCRIPTION s ENABLE")
        wait_until(lambda: subscriber.execute("SELECT a FROM t WHERE a = 1") != [], poll=0.05)
        elapsed = time.monotonic() - began
        subscriber.execute("DROP SUBSCRIPTION s")
    return rows / elapsed
