"""``subscriber demo``: all of it, on an embedded publisher, into SQLite."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from subscriber.cli.live import worker_table
from subscriber.cli.run import stop_on_signals
from subscriber.pipeline.session import spark_session
from subscriber.scenario import demo
from subscriber.scenario.compare import compare_tables, published_rows
from subscriber.scenario.servers import PostgreSQL, open_postgresql
from subscriber.settings import Settings
from subscriber.subscription.commands import create_subscription
from subscriber.subscription.grammar import CreateSubscription, parse
from subscriber.subscription.supervisor import Supervisor
from subscriber.target import Target, open_target

_FOLDER = Path("subscriber-demo")
_REFRESH_SECONDS = 0.5
_DEMO_SETTINGS = {"logical_decoding_work_mem": "64kB"}  # so that the import is streamed


@click.command("demo")
@click.option(
    "--seconds", default=10.0, show_default=True, type=click.FloatRange(0.0), help="How long orders are processed."
)
@click.option(
    "--folder", default=_FOLDER, show_default=True, type=click.Path(path_type=Path), help="Where the SQLite file goes."
)
def command(seconds: float, folder: Path) -> None:
    """Replicate an embedded PostgreSQL 18 into SQLite through Spark, live, and compare both sides.

    Ctrl-C at any moment ends it and leaves nothing running.
    """
    console = Console(soft_wrap=True)
    stop = stop_on_signals()
    folder.mkdir(parents=True, exist_ok=True)
    file = _fresh_target(folder / "target.db")
    with _journal_folder() as journal:
        settings = Settings.from_environment({**os.environ, "SUBSCRIBER_JOURNAL": journal})
        console.print("starting PostgreSQL 18 (wal_level = logical) …")
        with (
            open_postgresql(18, _DEMO_SETTINGS) as publisher,
            open_target(f"sqlite:///{file}") as target,
            target.run_lock(),
        ):
            conninfo = _prepare(publisher, target, console)
            if stop.is_set():
                sys.exit(130)
            console.print("starting Spark (local\\[*]) …")
            with spark_session("local[*]", folder / "spark.log") as spark:
                supervisor = Supervisor(target, spark, settings, once=False)
                well = _replicate(supervisor, conninfo, seconds, stop, console, file)
            if stop.is_set() and not well:
                console.print("interrupted: everything is stopped.")
                sys.exit(130)
            equal = _compare(conninfo, target, file, console)
    if not equal:
        sys.exit(1)
    _what_next(console, file)


def _prepare(publisher: PostgreSQL, target: Target, console: Console) -> str:
    """Tables on both sides and the subscription; gives the publisher's connection string."""
    publisher.execute(demo.PUBLISHER_SCHEMA)
    with target.begin() as connection:
        for statement in demo.TARGET_SCHEMA:
            connection.exec_driver_sql(statement)
    conninfo = publisher.conninfo()
    create = (
        f"CREATE SUBSCRIPTION demo CONNECTION '{conninfo}'\n"
        f"    PUBLICATION {', '.join(demo.PUBLICATIONS)} WITH (copy_data = false)"
    )
    console.print(create, style="bold", highlight=False)
    parsed = parse(create)
    assert isinstance(parsed, CreateSubscription)
    create_subscription(target, parsed, console.print)
    console.print("CREATE SUBSCRIPTION")
    return conninfo


def _replicate(
    supervisor: Supervisor, conninfo: str, seconds: float, stop: threading.Event, console: Console, file: Path
) -> bool:
    """Run the load and the supervisor until everything has arrived; tells whether it did."""
    load = demo.OrderLoad(conninfo)
    loading = threading.Thread(target=_load, args=(load, conninfo, seconds), daemon=True)
    finished = threading.Event()
    with _progress(console, file, load) as show:

        def on_tick(current: Supervisor) -> None:
            show(current)
            streaming = all(worker.state == "streaming" for worker in current.workers.values()) and current.workers
            if streaming and not loading.ident:
                loading.start()
            if stop.is_set():
                finished.set()
            elif loading.ident and not loading.is_alive():
                for worker in current.workers.values():
                    if not worker.has_mark:
                        worker.wants_caught_up()
                if all(worker.caught_up() for worker in current.workers.values()):
                    show(current, force=True)
                    finished.set()

        well = supervisor.run(finished, on_tick)
    load.stop()
    if loading.ident:
        loading.join(30)
    return well and not stop.is_set()


def _load(load: demo.OrderLoad, conninfo: str, seconds: float) -> None:
    publisher = PostgreSQL(conninfo, 18)
    publisher.execute(demo.ROW_FILTER_EXAMPLE)
    load.run(seconds)


Show = Callable[..., None]


@contextmanager
def _progress(console: Console, file: Path, load: demo.OrderLoad) -> Iterator[Show]:
    """A live table of LSNs, lag and rows; a line a second where there is no terminal."""
    drawn = 0.0
    with Live(console=console, auto_refresh=False) if console.is_terminal else _no_live() as live:

        def show(supervisor: Supervisor, *, force: bool = False) -> None:
            nonlocal drawn
            interval = _REFRESH_SECONDS if live else 2 * _REFRESH_SECONDS
            if not force and time.monotonic() - drawn < interval:
                return
            drawn = time.monotonic()
            rows = _row_counts(file)
            if live:
                counts = Table("table", "rows in SQLite", box=None)
                for table, number in rows.items():
                    counts.add_row(table, f"{number:,}")
                live.update(
                    Group(worker_table(supervisor), f"\n{load.transactions:,} transactions at the publisher\n", counts),
                    refresh=True,
                )
            else:
                state = "; ".join(worker.summary() for worker in supervisor.workers.values())
                console.print(
                    f"{load.transactions:,} transactions at the publisher; {state}; {sum(rows.values()):,} rows in SQLite"
                )

        yield show


@contextmanager
def _no_live() -> Iterator[None]:
    yield None


def _row_counts(file: Path) -> dict[str, int]:
    import sqlite3

    counts = {}
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=0.05)
    try:
        for table in demo.TABLES:
            try:
                counts[table] = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
            except sqlite3.OperationalError:
                counts[table] = -1  # a batch is being committed just now
    finally:
        connection.close()
    return {table: number for table, number in counts.items() if number >= 0}


def _compare(conninfo: str, target: Target, file: Path, console: Console) -> bool:
    """Compare every published table row by row and print the verdicts."""
    tables = published_rows(conninfo, demo.PUBLICATIONS)
    differences = {difference.table: difference for difference in compare_tables(conninfo, target, tables)}
    counts = _row_counts(file)
    verdicts = Table("table", "published rows", "in SQLite", "verdict", box=None)
    for rows in tables:
        difference = differences.get(rows.table)
        name = rows.schema_and_name[1]
        verdicts.add_row(
            f"{name} WHERE {rows.where}" if rows.where else name,
            f"{counts[name] if difference is None else difference.publisher_rows:,}",
            f"{counts[name]:,}",
            "equal" if difference is None else f"DIFFERENT: {difference}",
        )
    console.print("\nPostgreSQL against SQLite, row by row:\n", style="bold")
    console.print(verdicts)
    return not differences


def _what_next(console: Console, file: Path) -> None:
    console.print(
        f"""
Every table is equal. What to try next:
  subscriber sql --target sqlite:///{file} -c 'SELECT * FROM t1'          the manual's row filter: two rows
  subscriber sql --target sqlite:///{file} -c 'SELECT * FROM subscriber_replication_origin_status'
  subscriber demo --seconds 60                                            a longer run
  README.md, "Your own database"                                          CREATE SUBSCRIPTION to your PostgreSQL""",
        highlight=False,
        markup=False,
    )


def _fresh_target(file: Path) -> Path:
    """The demo's SQLite file, new; write-ahead logging lets others read while a batch is written."""
    import sqlite3

    for leftover in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        leftover.unlink(missing_ok=True)
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    return file


@contextmanager
def _journal_folder() -> Iterator[str]:
    # A demo's journal may go with the demo; a real one never lives in a temporary place.
    folder = tempfile.mkdtemp(prefix="subscriber-demo-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
