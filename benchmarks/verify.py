"""``python -m benchmarks.verify``: how long `subscriber verify` takes, beside the initial copy of
the same table.

A run copies the table and stays. Then it is compared twice, once as it is and once after some rows
of the target were damaged. The comparison of 10 million rows is to take less time than their copy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from subscriber.targets import open_target
from subscriber.testing.servers.open_servers import (
    TARGET_KINDS,
    TargetServers,
    fresh_target,
    open_mariadb,
    open_postgresql,
)

_TABLE: Final = (
    "CREATE TABLE t (k bigint PRIMARY KEY, a int, b numeric(12,2), c timestamptz, d text);"
    " INSERT INTO t SELECT n, n % 1000, n * 0.01, '2026-11-01'::timestamptz + n * interval '1 second',"
    " 'row number ' || n FROM generate_series(1, {rows}) n; ANALYZE t; CREATE PUBLICATION p FOR TABLE t"
)
_COMMAND: Final = [sys.executable, "-c", "from subscriber.cli import main; main()"]
_POLL_SECONDS: Final = 0.2


def main() -> None:
    """Copy a table, compare it, and print the times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verify", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table (default: 1,000,000)")
    parser.add_argument("--target", choices=TARGET_KINDS, default="sqlite", help="default: sqlite")
    parser.add_argument("--damaged", type=int, default=10, help="rows that are damaged (default: 10)")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-verify-") as folder,
        open_postgresql(18) as server,
    ):
        server.create_database("verified")
        try:
            server.execute(_TABLE.format(rows=options.rows), "verified")
            servers = TargetServers(lambda: server, open_mariadb)
            with fresh_target(options.target, "target", Path(folder), servers) as target:
                _measure(target.url, Path(folder), server.conninfo("verified"), options.rows, options.damaged)
        finally:
            server.drop_database("verified")


def _measure(url: str, folder: Path, conninfo: str, rows: int, damaged: int) -> None:
    environment = {**os.environ, "SUBSCRIBER_TARGET": url, "SUBSCRIBER_JOURNAL": str(folder / "journal")}
    create = f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION p WITH (create_tables = true)"
    _run(environment, "sql", "-c", create)
    with _running(environment, folder):
        _say("initial copy", rows, copied := _until_ready(environment))
        for what, name in ((0, "verify, equal"), (damaged, f"verify, {damaged} rows damaged")):
            if what:
                with open_target(url) as target, target.begin() as connection:
                    if target.capabilities.postgresql_text:
                        connection.exec_driver_sql("SET LOCAL search_path = public")
                    connection.exec_driver_sql(f"UPDATE t SET a = -1 WHERE k <= {what}")
            began = time.monotonic()
            report = json.loads(_run(environment, "verify", "--json", fails=True))
            seconds = time.monotonic() - began
            assert report["tables"][0]["differing"] == what, report
            _say(name, rows, seconds, copied)


def _say(what: str, rows: int, seconds: float, copied: float | None = None) -> None:
    ratio = "" if copied is None else f", {seconds / copied:.2f} of the copy"
    print(f"{what}: {seconds:.1f} s, {rows / seconds:,.0f} rows/s{ratio}", flush=True)


def _run(environment: Mapping[str, str], *arguments: str, fails: bool = False) -> str:
    ended = subprocess.run([*_COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False)
    if not ended.stdout and (ended.returncode or fails):
        raise SystemExit(ended.stderr)
    return ended.stdout


@contextlib.contextmanager
def _running(environment: Mapping[str, str], folder: Path) -> Iterator[None]:
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen([*_COMMAND, "run"], env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _until_ready(environment: Mapping[str, str]) -> float:
    """The seconds from the first sight of the copy to its end, without the start of Spark."""
    began: float | None = None
    while True:
        # While DuckDB's file is locked by the copy, the status is read from the file beside it.
        status: list[Any] = json.loads(_run(environment, "status", "--json") or "[]")
        states = {one["state"] for one in status[0]["relations"]} if status else {"i"}
        if began is None and states != {"i"}:
            began = time.monotonic()
        if states == {"r"}:
            assert began is not None
            return time.monotonic() - began
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
