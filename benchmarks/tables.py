"""Which step grows faster than the number of tables: processor time and elapsed time of each step
with 10, 100, 1,000 … small tables.

::

    check ─▶ CREATE SUBSCRIPTION ─▶ copy ─▶ one transaction a table ─▶ status ─▶ verify ─▶ idle
                                    └ ENABLE until every table is ready    10 s in which nothing happens ┘

``python -m benchmarks.tables --tables 10,100,1000 --targets sqlite,postgresql`` creates so many
tables of ten rows each. ``--writes 100`` commits so many rows a second to another table during the
copy. A line is printed for each step, and a table of all of them at the end. Its last column is the
processor time of one more table, between the last two numbers of tables, and in brackets how many
times as long that is as between the two numbers before: 1 means that the step grows as the tables.
``--profile`` writes a flame graph of each step.

Every step runs in the process of a warm run, so that no start of Python is measured. Processor time
is that of all processes: the run's, the publisher's and those of the target's server.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import psycopg

from benchmarks.flame_graphs import flame_graphs
from benchmarks.measure import MARIADB_SETTINGS, SERVER_SETTINGS, server_process
from benchmarks.process_watch import ProcessWatch, Usage
from benchmarks.subscribers import Remote, integers
from benchmarks.workloads import Workload
from subscriber.testing.servers.open_servers import (
    TARGET_KINDS,
    PostgreSQL,
    TargetServers,
    fresh_target,
    open_mariadb,
    open_postgresql,
)

ROWS: Final = 10
STEPS: Final = ("check", "CREATE", "copy", "transactions", "status", "verify", "idle")
_DATABASE: Final = "tables"
_END_SECONDS: Final = 120.0
_IDLE_SECONDS: Final = 10.0

Times = Mapping[str, Usage]
"""What each step has used."""


def main() -> None:
    """Measure, and print a line for each step and a table of all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("--tables", default="10,100,1000", help="numbers of tables (default: 10,100,1000)")
    parser.add_argument("--writes", type=int, default=0, help="transactions a second during the copy (default: 0)")
    parser.add_argument("--targets", default="sqlite", help=f"of {', '.join(TARGET_KINDS)} (default: sqlite)")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a step may take (default: 1800)")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="write a flame graph of each step there")
    options = parser.parse_args()
    found: dict[str, dict[int, Times]] = {}
    with contextlib.ExitStack() as stack:
        publisher = stack.enter_context(open_postgresql(18, SERVER_SETTINGS))
        servers = TargetServers(
            cache(lambda: stack.enter_context(open_postgresql(18, SERVER_SETTINGS))),
            cache(lambda: stack.enter_context(open_mariadb(MARIADB_SETTINGS))),
        )
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="subscriber-bench-")))
        for tables in map(int, options.tables.split(",")):
            for target in options.targets.split(","):
                publisher.create_database(_DATABASE)
                with fresh_target(target, _DATABASE, folder, servers) as fresh:
                    roots = server_process(publisher, "publisher") | _target_process(target, servers)
                    measurement = _Measurement(publisher, roots, workload_of(tables), options.limit, options.profile)
                    found.setdefault(target, {})[tables] = measurement.measure(target, fresh.url, options.writes)
                publisher.drop_database(_DATABASE)
    print(growth_table(found))


def _target_process(target: str, servers: TargetServers) -> dict[int, str]:
    match target:
        case "postgresql":
            return server_process(servers.postgresql(), "target")
        case "mariadb":
            return server_process(servers.mariadb(), "target")
    return {}


def workload_of(tables: int) -> Workload:
    """So many tables of ten rows, and a transaction of one row for each."""
    return Workload(
        "tables",
        "{tables:,} tables",
        "stream",
        "a int PRIMARY KEY, b text NOT NULL, c timestamptz",
        "count(*), count(b), sum(a)",
        "k, 'row ' || k, now()",
        rows=ROWS,
        transactions=tables,
        changes=1,
        transaction="EXECUTE 'INSERT INTO t' || i || $q$ SELECT {row} FROM (SELECT {rows} + 1 AS k) n$q$",
        tables=tables,
    )


class _Measurement:
    """The steps with one target and one number of tables."""

    def __init__(
        self, publisher: PostgreSQL, servers: Mapping[int, str], workload: Workload, limit: float, profile: Path | None
    ) -> None:
        self._publisher = publisher
        self._conninfo = publisher.conninfo(_DATABASE)
        self._servers = servers
        self._workload = workload
        self._limit = limit
        self._profile = profile
        self._used: dict[str, Usage] = {}

    def measure(self, target: str, url: str, writes: int) -> Times:
        workload, remote = self._workload, Remote(url, self._limit, "tables")
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                for statement in workload.preparation():
                    connection.execute(statement.encode())
            roots = {remote.pid(): "driver", **self._servers}

            def measured(step: str, *actions: Callable[[], object]) -> None:
                name = f"{target}-{workload.tables}-{step}"
                with flame_graphs(self._profile, name, roots), ProcessWatch(roots) as watch:
                    for action in actions:
                        action()
                self._used[step] = watch.usage
                parts = ", ".join(f"{part} {used:.1f}" for part, used in sorted(watch.usage.cpu_seconds.items()))
                print(f"{target:10} {workload.tables:6} {step:12} {watch.usage.seconds:7.1f} s  ({parts})", flush=True)

            measured("check", lambda: remote.check(self._conninfo))
            measured("CREATE", lambda: remote.subscribe(self._conninfo, workload))
            with _writing(self._conninfo, writes):
                measured("copy", remote.enable, lambda: remote.await_ready(self._limit))
            self._await_end(remote, 1)
            self._compare(remote)
            remote.disable()
            self._publisher.execute(workload.backlog(1), _DATABASE)
            measured("transactions", remote.enable, lambda: self._await_end(remote, 2))
            self._compare(remote)
            measured("status", remote.status)
            measured("verify", remote.verify)
            measured("idle", lambda: time.sleep(_IDLE_SECONDS))
            remote.disable()
            remote.drop()
        finally:
            remote.close()
        return self._used

    def _await_end(self, remote: Remote, run: int) -> None:
        """Wait until everything that was committed until now is applied."""
        self._publisher.execute(self._workload.marks(run), _DATABASE)
        remote.await_value(self._workload.marker, run, self._limit)

    def _compare(self, remote: Remote) -> None:
        for query in self._workload.checks():
            found, expected = remote.rows(query), self._publisher.execute(query, _DATABASE)
            assert found == [integers(row) for row in expected]


def growth_table(found: Mapping[str, Mapping[int, Times]]) -> str:
    """Processor time and, in brackets, elapsed time of each step, in seconds; as Markdown.

    Args:
        found: the times by kind of target and number of tables.
    """
    counts = sorted({tables for measured in found.values() for tables in measured})
    head = ["Target", "Step", *(f"{tables:,}" for tables in counts), "ms a table"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for target, measured in found.items():
        for step in STEPS:
            used = {tables: measured[tables][step] for tables in counts if tables in measured}
            cells = [f"{processor(used[one]):.1f} ({used[one].seconds:.1f})" if one in used else "" for one in counts]
            spent = {tables: processor(usage) for tables, usage in used.items()}
            lines.append(f"| {target} | {step} | {' | '.join(cells)} | {_growth(spent) if step != 'idle' else ''} |")
    return "\n".join(lines)


def _growth(spent: Mapping[int, float]) -> str:
    """What one more table costs, and how many times as much that is as with fewer tables."""
    costs = marginal_costs(spent)
    if not costs:
        return ""
    said = f"{costs[-1] * 1000:.1f}"
    return f"{said} ({costs[-1] / costs[-2]:.1f})" if len(costs) > 1 and costs[-2] > 0 else said


def marginal_costs(spent: Mapping[int, float]) -> list[float]:
    """The seconds of one more table between each two numbers of tables that follow each other."""
    points = sorted(spent.items())
    return [(b - a) / (more - fewer) for (fewer, a), (more, b) in itertools.pairwise(points)]


def processor(usage: Usage) -> float:
    """The processor time of all processes."""
    return sum(usage.cpu_seconds.values())


@contextlib.contextmanager
def _writing(conninfo: str, rate: int) -> Iterator[None]:
    """Commit single rows to the marker's table while the block runs, so many in a second."""
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            began, number = time.monotonic(), 0
            while not stop.wait(max(0.0, began + number / rate - time.monotonic())):
                number += 1
                connection.execute("INSERT INTO runs VALUES (%s)", (-number,))

    thread = threading.Thread(target=write, daemon=True)
    if rate:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if rate:
            thread.join(_END_SECONDS)


if __name__ == "__main__":
    main()
