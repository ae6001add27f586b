"""How far work has come, on standard error: the workers' live table, or a command's progress."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click
from rich import filesize
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from subscriber.base.lsn import format_lsn
from subscriber.base.progress_lines import Show, shown_by

if TYPE_CHECKING:
    from subscriber.worker.copy_progress import CopyStatus
    from subscriber.worker.supervisor import Supervisor
    from subscriber.worker.worker_snapshot import WorkerSnapshot


_REFRESH_SECONDS: Final = 0.5
_MOST_COPIES: Final = 8
_BAR_WIDTH: Final = 10


@contextlib.contextmanager
def live_table(supervisor: Supervisor, console: Console | None = None) -> Iterator[Callable[[Supervisor], None] | None]:
    """Give a function that draws the state, at most twice a second; None without a terminal."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    drawn = 0.0
    with Live(
        worker_view(supervisor.snapshots().values()), console=console, auto_refresh=False, redirect_stdout=False
    ) as live:

        def show(current: Supervisor) -> None:
            nonlocal drawn
            if time.monotonic() - drawn >= _REFRESH_SECONDS:
                drawn = time.monotonic()
                live.update(worker_view(current.snapshots().values()), refresh=True)

        yield show


def worker_view(workers: Collection[WorkerSnapshot]) -> Group:
    copies = [copy for worker in workers for copy in worker.copies]
    parts: list[Table | Text] = [worker_table(workers)]
    if copies:
        parts += [Text(), copy_table(copies[:_MOST_COPIES])]
    if len(copies) > _MOST_COPIES:
        parts.append(Text(f"and {len(copies) - _MOST_COPIES} more"))
    return Group(*parts)


def copy_table(copies: Sequence[CopyStatus]) -> Table:
    """One row with a bar for each table, which may exceed its total, the publisher's estimate."""
    table = Table(box=None, pad_edge=False)
    table.add_column("copying", overflow="ellipsis")  # the only column that becomes narrower
    table.add_column("", width=_BAR_WIDTH)
    for heading in ("rows", "bytes", "rate"):
        table.add_column(heading, justify="right", no_wrap=True)
    for copy in copies:
        table.add_row(
            f"{copy.schema}.{copy.name}",
            ProgressBar(total=max(copy.estimated_rows, copy.rows, 1), completed=copy.rows),
            f"{_short(copy.rows)} of {_short(copy.estimated_rows)}",
            f"{filesize.decimal(copy.bytes)} of {filesize.decimal(copy.estimated_bytes)}",
            f"{_short(copy.rows_per_second)} rows/s",
        )
    return table


def _short(number: float) -> str:
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.1f}{suffix}"
    return f"{number:.0f}"


def worker_table(workers: Collection[WorkerSnapshot]) -> Table:
    """One row for each subscription, in 80 columns if its name is short."""
    table = Table("subscription", "state", "received", "applied", box=None, pad_edge=False)
    for heading in ("lag", "transactions", "changes"):
        table.add_column(heading, justify="right")
    for worker in workers:
        table.add_row(
            worker.subscription.name,
            worker.state,
            format_lsn(worker.received),
            format_lsn(worker.applied),
            filesize.decimal(worker.lag_bytes),
            f"{worker.transactions:,}",
            f"{worker.changes:,}",
        )
    return table


# The progress of a command ----------------------------------------------------------------------

_FIRST_SECONDS: Final = 0.9
"""What takes less has no line."""
_LONGEST_SECONDS: Final = 30.0
"""The longest time between two lines; the time doubles with each line."""


@contextlib.contextmanager
def showing_progress(console: Console | None = None, *, bars: bool = True) -> Iterator[None]:
    """Show how far the block tells it is; where it has ``bars``, it may print nothing else."""
    console = console or Console(stderr=True)
    with showing_bars(console) if bars and console.is_terminal else _showing_lines() as show, shown_by(show):
        yield


@contextlib.contextmanager
def showing_bars(console: Console) -> Iterator[Show]:
    """Give the function that draws a bar for what is done last."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=True) as drawn:

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for other in tasks.values():
                    drawn.remove_task(other)
                tasks.clear()
                tasks[what] = drawn.add_task(what, total=None)
            drawn.update(tasks[what], completed=done, total=total or None)

        yield show


@contextlib.contextmanager
def _showing_lines() -> Iterator[Show]:
    ended = threading.Event()
    shown = [""]

    def show(what: str, done: int, total: int) -> None:
        shown[0] = f"{what}: {done:,} of {total:,}" if total else what

    def work() -> None:
        pause, last = _FIRST_SECONDS, ""
        while not ended.wait(pause):
            if shown[0] != last:
                last = shown[0]
                click.echo(f"NOTICE:  {last}", err=True)
                pause = min(2 * pause, _LONGEST_SECONDS)

    thread = threading.Thread(target=work, name="progress", daemon=True)
    thread.start()
    try:
        yield show
    finally:
        ended.set()
        thread.join()
