"""What a run costs that has nothing to do: ``python -m benchmarks.fixed_costs``.

::

    publisher ── tables t1 … tN, publications p1 … pN ──▶ subscriber run (SQLite), N subscriptions

For each number of subscriptions it measures

- *start*: from the start of the process to the first row that the target did not have, with a
  journal and copied tables from an earlier run,
- *ENABLE*: from the command to the first row, the median of several,
- *idle*: processor time, processes and memory while nothing is committed.

Memory is the proportional set size: what processes share counts once. The publisher's processes do
not count.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.process_watch import command_of, descendants, mebibytes, part_of, processor_seconds
from benchmarks.subscribers import wait
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.targets import Target, open_target
from subscriber.targets.sqlite.target import new_database
from subscriber.testing.servers.open_servers import PostgreSQL, open_postgresql

_LIMIT: Final = 600.0
_ENABLES: Final = 7
_SETTLE_SECONDS: Final = 15.0
"""After this time Spark is warm, and what is started ahead has been started."""
_RUN: Final = "import sys; from subscriber.cli import main; sys.exit(main())"


@dataclass(slots=True)
class FixedCosts:
    """What was measured with so many subscriptions: seconds, cores by part, MiB by part."""

    subscriptions: int
    start: float = 0.0
    enable: float = 0.0
    cores: dict[str, float] = field(default_factory=dict)
    processes: int = 0
    memory: dict[str, float] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fixed_costs", description=__doc__)
    parser.add_argument("--subscriptions", default="1,20", metavar="N,N", help="default: 1,20")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the idle run is watched (default: 60)")
    options = parser.parse_args()
    with open_postgresql(18, {"autovacuum": "off"}) as publisher:
        for number in map(int, options.subscriptions.split(",")):
            with tempfile.TemporaryDirectory(prefix="subscriber-bench-") as folder:
                print(said(measure(publisher, Path(folder), number, options.seconds)), flush=True)


def measure(publisher: PostgreSQL, folder: Path, number: int, seconds: float) -> FixedCosts:
    """Measure a run of ``number`` subscriptions of a new database of the publisher."""
    found = FixedCosts(number)
    database = f"idle_{number}"
    publisher.create_database(database)
    for table in range(1, number + 1):
        publisher.execute(f"CREATE TABLE t{table} (a int PRIMARY KEY)", database)
        publisher.execute(f"CREATE PUBLICATION p{table} FOR TABLE t{table}", database)
    new_database(folder / "target.db")
    environment = {**os.environ, "SUBSCRIBER_JOURNAL": str(folder / "journal")}
    settings = Settings.from_environment(environment)
    with open_target(f"sqlite:///{folder / 'target.db'}") as target:
        ensure_catalog(target.engine)

        def give(sql: str) -> None:
            command = parse(sql)
            assert not isinstance(command, Query)
            run_command(target, command, settings, lambda _: None)

        for one in range(1, number + 1):
            give(
                f"CREATE SUBSCRIPTION s{one} CONNECTION '{publisher.conninfo(database)}' PUBLICATION p{one}"
                f" WITH (create_tables = true, slot_name = idle_{number}_{one})"
            )
        with _run(target, environment):
            ready = "SELECT count(*) FROM subscriber_subscription_rel WHERE srsubstate = 'r'"
            wait(lambda: _value(target, ready) == number, _LIMIT)
        row = _Rows(publisher, database, target)
        row.insert()
        began = time.monotonic()
        with _run(target, environment) as process:
            found.start = row.arrival() - began
            time.sleep(_SETTLE_SECONDS)
            found.enable = statistics.median(_enable(give, row) for _ in range(_ENABLES))
            time.sleep(_SETTLE_SECONDS)
            _watch(process, seconds, found)
        for one in range(1, number + 1):
            give(f"DROP SUBSCRIPTION s{one}")
    publisher.drop_database(database)
    return found


def said(found: FixedCosts) -> str:
    """The results as a text of some lines."""
    cores = ", ".join(f"{part} {load:.4f}" for part, load in sorted(found.cores.items()))
    memory = ", ".join(f"{part} {size:.0f}" for part, size in sorted(found.memory.items()))
    return (
        f"{found.subscriptions} subscription(s): first row {found.start:.2f} s after the start, {found.enable:.3f} s after ENABLE;"
        f" idle: {sum(found.cores.values()):.4f} cores ({cores}), {found.processes} processes,"
        f" {sum(found.memory.values()):.0f} MiB ({memory})"
    )


class _Rows:
    """Rows of the first table, one after the other."""

    def __init__(self, publisher: PostgreSQL, database: str, target: Target) -> None:
        self._publisher, self._database, self._target = publisher, database, target
        self._last = 0

    def insert(self) -> None:
        self._last += 1
        self._publisher.execute(f"INSERT INTO t1 VALUES ({self._last})", self._database)

    def arrival(self) -> float:
        query = f"SELECT count(*) FROM t1 WHERE a = {self._last}"
        return wait(lambda: _value(self._target, query) == 1, _LIMIT, 0.002)


def _enable(give: Callable[[str], None], row: _Rows) -> float:
    give("ALTER SUBSCRIPTION s1 DISABLE")
    time.sleep(1.0)
    row.insert()
    began = time.monotonic()
    give("ALTER SUBSCRIPTION s1 ENABLE")
    return row.arrival() - began


def _value(target: Target, query: str) -> int:
    with target.engine.connect() as connection:
        return int(connection.exec_driver_sql(query).scalar_one())


@contextlib.contextmanager
def _run(target: Target, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", _RUN, "run", "--target", str(target.engine.url)]
    process = subprocess.Popen(command, env=dict(environment), stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_LIMIT)


def _watch(process: subprocess.Popen[bytes], seconds: float, found: FixedCosts) -> None:
    """Note the load, number and memory of the processes of a run during so many seconds."""
    before, began = _processes(process.pid), time.monotonic()
    time.sleep(seconds)
    after, elapsed = _processes(process.pid), time.monotonic() - began
    cores: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for pid, (part, used, size) in after.items():
        cores[part] += (used - before.get(pid, (part, 0.0, 0.0))[1]) / elapsed  # type: ignore[assignment]
        memory[part] += size  # type: ignore[assignment]
    found.cores, found.memory, found.processes = dict(cores), dict(memory), len(after)


def _processes(root: int) -> dict[int, tuple[str, float, float]]:
    """Part, processor seconds and MiB of each process of a run."""
    found = {}
    for pid, part in descendants({root: "driver"}).items():
        with contextlib.suppress(OSError, ValueError, IndexError):
            place = Path(f"/proc/{pid}")
            used = processor_seconds((place / "stat").read_text())
            found[pid] = part_of(part, *command_of(pid)), used, mebibytes((place / "smaps_rollup").read_text(), "Pss")
    return found


if __name__ == "__main__":
    main()
