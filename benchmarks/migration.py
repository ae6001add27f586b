"""``python -m benchmarks.migration``: how long each command of a migration takes with many tables.

::

    tests/data/large.sql, 50, 500, 5,000 tables ──▶ check ─▶ CREATE ─▶ schema ─▶ copy ─▶ schema ─▶ verify ─▶ cutover
    results/migration.json ◀── seconds                                                        a process for each
             └──▶ docs/migrating.md, between the lines that begin with <!-- migration

Nothing is written at the publisher meanwhile. ``--write`` stores the times, and writes them into
the page.
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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg

from benchmarks.page import ROOT, between
from benchmarks.results import Json, circumstances
from subscriber.testing.servers.open_servers import (
    TARGET_KINDS,
    TargetServers,
    fresh_target,
    open_mariadb,
    open_postgresql,
)

RESULTS: Final = ROOT / "benchmarks" / "results" / "migration.json"
PAGE: Final = ROOT / "docs" / "migrating.md"
STEPS: Final = (
    "check",
    "CREATE",
    "schema --before",
    "copy",
    "schema --after",
    "schema diff",
    "status",
    "verify",
    "cutover",
)
_COMMAND: Final = [sys.executable, "-c", "from subscriber.cli import main; main()"]
_MODEL: Final = ROOT / "tests" / "data" / "large.sql"
_LOCKS: Final = {"max_locks_per_transaction": "2000"}
"""The model, and a target's tables, are created in one transaction each."""
_OPTIONS: Final = "create_tables = true, unrepresentable_values = null"
_BY_HAND: Final = ("view", "function", "check constraint", "inheritance")
"""What the cutover accepts to be missing, because it is built by hand."""
_POLL_SECONDS: Final = 1.0


def main() -> None:
    """Measure, and print the times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.migration", description=__doc__)
    parser.add_argument("--tables", default="50,500,5000", help="numbers of tables (default: 50,500,5000)")
    parser.add_argument("--targets", default="sqlite", help=f"of {', '.join(TARGET_KINDS)} (default: sqlite)")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds that a copy may take (default: 3600)")
    parser.add_argument("--write", action="store_true", help=f"store the times, and write them into {PAGE.name}")
    options = parser.parse_args()
    times: dict[str, dict[str, dict[str, float]]] = {}
    for kind in options.targets.split(","):
        for tables in map(int, options.tables.split(",")):
            times.setdefault(kind, {})[str(tables)] = seconds = _measure(kind, tables, options.limit)
            print(f"{kind:10} {tables:6} tables: {seconds}", flush=True)
    results: Json = {**circumstances(), "times": times}
    print(table(results))
    if options.write:
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        PAGE.write_text(between(PAGE.read_text(), "migration", document(results)))


def document(results: Json) -> str:
    """What the page says of the times."""
    machine = results["machine"]
    return (
        f"{table(results)}\n\nSeconds of each command, measured at commit {results['commit']} on {results['date']}:"
        f" {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
        " (`python -m benchmarks.migration`). Nothing is written at the publisher meanwhile."
    )


def table(results: Json) -> str:
    """The times as a table: a row for each target and number of tables."""
    lines = [f"| Target | Tables | {' | '.join(STEPS)} |", f"|---|---|{'---|' * len(STEPS)}"]
    for kind, measured in results["times"].items():
        for tables, seconds in measured.items():
            shown = " | ".join(f"{seconds[step]:,.1f}" if step in seconds else "" for step in STEPS)
            lines.append(f"| {kind} | {int(tables):,} | {shown} |")
    return "\n".join(lines)


def _measure(kind: str, tables: int, limit: float) -> dict[str, float]:
    """The seconds of each step."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="subscriber-bench-")))
        server = stack.enter_context(open_postgresql(18, _LOCKS))
        server.create_database("large")
        stack.callback(server.drop_database, "large")
        with psycopg.connect(server.conninfo("large"), autocommit=True) as connection:
            connection.execute(f"SET large.tables = '{tables}'; {_MODEL.read_text()}".encode())
            connection.execute("ANALYZE")
        target = stack.enter_context(fresh_target(kind, "target", folder, TargetServers(lambda: server, open_mariadb)))
        environment = {
            **os.environ, "SUBSCRIBER_TARGET": target.url, "SUBSCRIBER_JOURNAL": str(folder / "journal"),
        }  # fmt: skip
        return _migrate(environment, folder, server.conninfo("large"), limit)


def _migrate(environment: Mapping[str, str], folder: Path, conninfo: str, limit: float) -> dict[str, float]:
    seconds: dict[str, float] = {}

    def timed(step: str, *arguments: str) -> None:
        began = time.monotonic()
        ended = subprocess.run([*_COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False)
        seconds[step] = round(time.monotonic() - began, 1)
        if ended.returncode and not step.startswith("schema"):  # what calls a function is left out, and told with 1
            raise SystemExit(f"{arguments}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")

    create = f"CREATE SUBSCRIPTION s CONNECTION '{conninfo}' PUBLICATION app WITH ({_OPTIONS})"
    timed("check", "check", "--with", _OPTIONS, conninfo, "app")
    timed("CREATE", "sql", "-c", create)
    timed("schema --before", "schema", "apply", "--before", "s")
    with _running(environment, folder) as begun:
        seconds["copy"] = round(_until_ready(environment, begun, limit), 1)
        timed("schema --after", "schema", "apply", "--after", "s")
        timed("schema diff", "schema", "diff", "s")
        timed("status", "status")
        timed("verify", "verify", "s")
        accepted = [word for kind in _BY_HAND for word in ("--accept-missing", kind)]
        timed("cutover", "cutover", "s", "--fence", "--verify", *accepted)
    return seconds


@contextlib.contextmanager
def _running(environment: Mapping[str, str], folder: Path) -> Iterator[float]:
    """`subscriber run`, for the block, which gets the time of its start."""
    with (folder / "run.log").open("wb") as log:
        begun = time.monotonic()
        process = subprocess.Popen([*_COMMAND, "run"], env=environment, stdout=log, stderr=log)
        try:
            yield begun
        finally:
            process.terminate()
            process.wait()


def _until_ready(
    environment: Mapping[str, str], begun: float, limit: float, clock: Callable[[], float] = time.monotonic
) -> float:
    """The seconds from the start of the run, that of Spark included, until all tables are ready."""
    while True:
        ended = subprocess.run(
            [*_COMMAND, "status", "--json"], env=environment, capture_output=True, text=True, check=False
        )
        status: list[Any] = json.loads(ended.stdout or "[]")
        if status and set(status[0]["tables"]) == {"r"}:
            return clock() - begun
        if clock() - begun > limit:
            raise SystemExit(
                f"the copy is not ready after {limit:g} s: {status[0]['tables'] if status else ended.stderr}"
            )
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
