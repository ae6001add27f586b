"""How long CREATE SUBSCRIPTION and the initial copy take with many small tables: with and without
writes to another table meanwhile.

``python -m benchmarks.tables --tables 50,500,5000 --writes 0,100 --targets sqlite,postgresql``
creates so many tables of ten rows each, and a table that gets so many transactions of one row in a
second. It prints the seconds of CREATE SUBSCRIPTION with ``create_tables``, the seconds from ENABLE
until every table is ready, and the processor time that the run has used meanwhile, which depends
less on what else the machine does. At the end the rows of a hundred tables are counted.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg

from benchmarks.measure import MARIADB_SETTINGS, SERVER_SETTINGS
from benchmarks.process_watch import ProcessWatch
from benchmarks.subscribers import Remote
from subscriber.testing.servers.open_servers import (
    TARGET_KINDS,
    PostgreSQL,
    TargetServers,
    fresh_target,
    open_mariadb,
    open_postgresql,
)

ROWS: Final = 10
_DATABASE: Final = "tables"
_TABLES_A_TRANSACTION: Final = 500
_END_SECONDS: Final = 120.0


def main() -> None:
    """Measure, and print a line for each measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("--tables", default="50,500", help="numbers of tables (default: 50,500)")
    parser.add_argument("--writes", default="0,100", help="transactions a second meanwhile (default: 0,100)")
    parser.add_argument("--targets", default="sqlite", help=f"of {', '.join(TARGET_KINDS)} (default: sqlite)")
    parser.add_argument("--runs", type=int, default=1, help="runs of each measurement (default: 1)")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a copy may take (default: 1800)")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        publisher = stack.enter_context(open_postgresql(18, SERVER_SETTINGS))
        servers = TargetServers(
            lambda: stack.enter_context(open_postgresql(18, SERVER_SETTINGS)),
            lambda: stack.enter_context(open_mariadb(MARIADB_SETTINGS)),
        )
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="subscriber-bench-")))
        for tables in map(int, options.tables.split(",")):
            _create_tables(publisher, tables)
            for run in range(options.runs):
                for target in options.targets.split(","):
                    for writes in map(int, options.writes.split(",")):
                        with fresh_target(target, _DATABASE, folder, servers) as fresh:
                            created, ready, cpu = _measure(publisher, fresh.url, tables, writes, options.limit)
                        print(
                            f"{target:10} {tables:6} tables, {writes:4} transactions/s, run {run + 1}:"
                            f"  CREATE {created:7.1f} s  ready {ready:7.1f} s  processor {cpu:7.1f} s",
                            flush=True,
                        )
            publisher.drop_database(_DATABASE)


def _create_tables(publisher: PostgreSQL, tables: int) -> None:
    publisher.create_database(_DATABASE)
    statements = [
        f"CREATE TABLE t{number} (id int PRIMARY KEY, name text NOT NULL, at timestamptz);"
        f"INSERT INTO t{number} SELECT n, 'row ' || n, now() FROM generate_series(1, {ROWS}) n"
        for number in range(tables)
    ]
    with psycopg.connect(publisher.conninfo(_DATABASE), autocommit=True) as connection:
        for first in range(0, len(statements), _TABLES_A_TRANSACTION):
            connection.execute("; ".join(statements[first : first + _TABLES_A_TRANSACTION]).encode())
        connection.execute("CREATE TABLE busy (id bigserial PRIMARY KEY, a int); CREATE PUBLICATION p FOR ALL TABLES")


def _measure(publisher: PostgreSQL, url: str, tables: int, writes: int, limit: float) -> tuple[float, ...]:
    """The seconds of CREATE SUBSCRIPTION, those from ENABLE until every table is ready, and the
    run's processor time meanwhile.
    """
    remote = Remote(url, limit, "tables")
    try:
        began = time.monotonic()
        remote.subscribe(publisher.conninfo(_DATABASE), "")
        created = time.monotonic() - began
        with _writing(publisher, writes), ProcessWatch({remote.pid(): "driver"}) as watch:
            enabled = remote.enable()
            ready = remote.await_ready(limit) - enabled
        (written,) = publisher.execute("SELECT count(*) FROM busy", _DATABASE)[0]
        remote.await_value("SELECT count(*) FROM busy", int(written), limit)
        for number in range(0, tables, max(1, tables // 100)):
            found = remote.row(f"SELECT count(*) FROM t{number}")
            assert found == (ROWS,), (number, found)
        remote.disable()
        remote.drop()
    finally:
        remote.close()
    return created, ready, sum(watch.usage.cpu_seconds.values())


@contextlib.contextmanager
def _writing(publisher: PostgreSQL, rate: int) -> Iterator[None]:
    """Commit single rows to the busy table while the block runs, so many in a second."""
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(publisher.conninfo(_DATABASE), autocommit=True) as connection:
            began, number = time.monotonic(), 0
            while not stop.wait(max(0.0, began + number / rate - time.monotonic())):
                connection.execute("INSERT INTO busy (a) VALUES (1)")
                number += 1

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
