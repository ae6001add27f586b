"""``subscriber demo``: replication from an embedded PostgreSQL server into SQLite."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from subscriber.base.errors import UsageError
from subscriber.base.settings import Settings
from subscriber.cli.live import worker_table
from subscriber.cli.run import stop_on_signals
from subscriber.commands.create_subscription import create_subscription
from subscriber.commands.subscription_grammar import CreateSubscription, parse
from subscriber.spark.session import starting_spark
from subscriber.spark.spark_functions import functions_on
from subscriber.targets import Target, open_target
from subscriber.targets.sqlite.target import new_database
from subscriber.testing import demo_data
from subscriber.testing.servers.open_servers import PostgreSQL, open_postgresql
from subscriber.verify.compare_tables import compare_tables, published_tables
from subscriber.worker import RECEIVER_MODULE
from subscriber.worker.supervisor import Supervisor

_FOLDER = Path("subscriber-demo")
_REFRESH_SECONDS = 0.5
_DEMO_SETTINGS = {"logical_decoding_work_mem": "64kB"}  # so that the import is streamed


@click.command("demo")
@click.option(
    "--seconds",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0.0),
    help="How many seconds orders are processed at the publisher.",
)
@click.option(
    "--folder",
    default=_FOLDER,
    show_default=True,
    type=click.Path(path_type=Path),
    help="The folder for the SQLite file and the log of Spark; created if it does not exist.",
)
def command(seconds: float, folder: Path) -> None:
    """Replicate an embedded PostgreSQL 18 into SQLite through Spark, and compare both databases.

    Starts a PostgreSQL server, copies a shop with 50,000 orders, processes orders while their
    changes are replicated, and then compares every published table row by row. The SQLite file is
    kept; the server and the journal are removed. Needs the extra demo, and Java 17 or newer.

    The exit code is 0 if all tables are equal, 1 if they differ, and 130 after Ctrl-C, which stops
    everything.
    """
    console = Console(soft_wrap=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: {error.strerror}", hint="--folder needs a folder that this user may write to."
        ) from None
    stop = stop_on_signals()
    file = folder / "target.db"
    with open_target(f"sqlite:///{file}") as target, target.running():
        new_database(file)
        equal = _demonstrate(target, folder / "spark.log", seconds, stop, console)
    if equal is None:
        sys.exit(130)
    if not equal:
        sys.exit(1)
    _what_next(console, file)


def _demonstrate(
    target: Target, spark_log: Path, seconds: float, stop: threading.Event, console: Console
) -> bool | None:
    """Replicate, and say whether both sides are equal. None if the demo was interrupted."""
    with _journal_folder() as journal:
        settings = Settings.from_environment({**os.environ, "SUBSCRIBER_JOURNAL": journal})
        console.print("starting Spark (local\\[*]) and PostgreSQL 18 (wal_level = logical) …")
        with (
            starting_spark("local[*]", spark_log, [RECEIVER_MODULE]) as spark,
            open_postgresql(18, _DEMO_SETTINGS) as publisher,
        ):
            conninfo = _prepare(publisher, target, settings, console)
            well = False
            if not stop.is_set():
                supervisor = Supervisor(target, functions_on(spark), settings, once=False)
                well = not stop.is_set() and _replicate(supervisor, target, conninfo, seconds, stop, console)
            if well:
                return _compare(conninfo, target, console)
    # The publisher has been stopped too, so this message is true.
    if stop.is_set():
        console.print("\ninterrupted: everything is stopped.")
        return None
    console.print("\nthe subscription has failed, see above: everything is stopped.")
    return False


def _prepare(publisher: PostgreSQL, target: Target, settings: Settings, console: Console) -> str:
    """Create the publisher's tables, and the subscription, which creates the target's tables."""
    publisher.execute(demo_data.PUBLISHER_SCHEMA)
    publisher.execute(demo_data.EARLIER_ORDERS)
    conninfo = publisher.conninfo()
    create = (
        f"CREATE SUBSCRIPTION demo CONNECTION '{conninfo}'\n"
        f"    PUBLICATION {', '.join(demo_data.PUBLICATIONS)} WITH (create_tables = true)"
    )
    console.print(create, style="bold", highlight=False)
    parsed = parse(create)
    assert isinstance(parsed, CreateSubscription)
    create_subscription(target, parsed, settings, console.print)
    console.print("CREATE SUBSCRIPTION")
    return conninfo


def _replicate(
    supervisor: Supervisor, target: Target, conninfo: str, seconds: float, stop: threading.Event, console: Console
) -> bool:
    """Run the order load and the supervisor, and say whether every change is in the target."""
    load = demo_data.OrderLoad(conninfo)
    loading = threading.Thread(target=_load, args=(load, conninfo, seconds), daemon=True)
    finished = threading.Event()
    with _progress(console, target, load) as show:

        def on_tick(current: Supervisor) -> None:
            show(current)
            workers = current.snapshots().values()
            streaming = bool(workers) and all(worker.state == "streaming" for worker in workers)
            if streaming and not loading.ident:
                loading.start()
            if stop.is_set() or any(worker.given_up for worker in workers):
                finished.set()
            elif loading.ident and not loading.is_alive():
                for worker in current.workers.values():
                    if worker.snapshot().once_target is None:
                        worker.set_once_target()
                if all(worker.caught_up for worker in workers):
                    show(current, force=True)
                    finished.set()

        well = supervisor.run(finished, on_tick)
    load.stop()
    if loading.ident:
        loading.join(30)
    return well and not stop.is_set() and not any(worker.given_up for worker in supervisor.snapshots().values())


def _load(load: demo_data.OrderLoad, conninfo: str, seconds: float) -> None:
    publisher = PostgreSQL(conninfo, 18)
    publisher.execute(demo_data.ROW_FILTER_EXAMPLE)
    load.run(seconds)


Show = Callable[..., None]


@contextmanager
def _progress(console: Console, target: Target, load: demo_data.OrderLoad) -> Iterator[Show]:
    """A live table of LSNs, lag and rows. Without a terminal, a line is printed every second."""
    drawn = 0.0
    with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:

        def show(supervisor: Supervisor, *, force: bool = False) -> None:
            nonlocal drawn
            interval = _REFRESH_SECONDS if live else 2 * _REFRESH_SECONDS
            if not force and time.monotonic() - drawn < interval:
                return
            drawn = time.monotonic()
            rows = demo_data.row_counts(target)
            if live:
                counts = Table("table", box=None, pad_edge=False)
                counts.add_column("rows in SQLite", justify="right")
                for table, number in rows.items():
                    counts.add_row(table, f"{number:,}")
                live.update(
                    Group(
                        worker_table(supervisor.snapshots().values()),
                        f"\n{load.transactions:,} transactions at the publisher\n",
                        counts,
                    ),
                    refresh=True,
                )
            else:
                state = "; ".join(worker.summary() for worker in supervisor.snapshots().values())
                console.print(
                    f"{load.transactions:,} transactions at the publisher; {state}; {sum(rows.values()):,} rows in SQLite"
                )

        yield show


def _compare(conninfo: str, target: Target, console: Console) -> bool:
    """Print a comparison of every published table, and say whether all are equal."""
    comparisons = compare_tables(conninfo, target, published_tables(conninfo, demo_data.PUBLICATIONS))
    counts = demo_data.row_counts(target)
    results = Table("table", box=None, pad_edge=False)
    for heading in ("published rows", "in SQLite"):
        results.add_column(heading, justify="right")
    results.add_column("verdict")
    for one in comparisons:
        name = one.table.name
        where = " OR ".join(f"({text})" for text in one.table.filters)
        results.add_row(
            f"{name} WHERE {where}" if where else name,
            f"{one.rows.publisher_rows:,}",
            f"{counts[name]:,}",
            "equal" if one.is_equal else f"DIFFERENT: {one}",
        )
    console.print("\nPostgreSQL against SQLite, row by row:\n", style="bold")
    console.print(results)
    return all(one.is_equal for one in comparisons)


def _what_next(console: Console, file: Path) -> None:
    # `make demo` runs this program from a virtual environment, which need not be on PATH.
    program = "subscriber" if shutil.which("subscriber") else sys.argv[0]
    sql = f"{program} sql --target sqlite:///{file}"
    console.print(
        f"""
Every table is equal. What to try next:

the manual's row filter, two rows:
  {sql} -c 'SELECT * FROM t1'
the applied LSN:
  {sql} -c 'SELECT * FROM subscriber_replication_origin_status'
a longer run:
  {program} demo --seconds 60
CREATE SUBSCRIPTION to your own PostgreSQL:
  see "Your own database" in README.md""",
        highlight=False,
        markup=False,
    )


@contextmanager
def _journal_folder() -> Iterator[str]:
    # The journal of the demo may be removed with the demo. Other journals are never in a temporary
    # folder.
    folder = tempfile.mkdtemp(prefix="subscriber-demo-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
