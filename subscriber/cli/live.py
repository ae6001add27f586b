"""A live table of the workers on a terminal, with a bar for every table that is being copied.

Without a terminal there is no live table, and the log reports the progress.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from rich import filesize
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from subscriber.lsn import format_lsn
from subscriber.runtime.copy_progress import CopyStatus
from subscriber.runtime.supervisor import Supervisor
from subscriber.runtime.worker_snapshot import WorkerSnapshot

_REFRESH_SECONDS: Final = 0.5
_MOST_COPIES: Final = 8
_BAR_WIDTH: Final = 10


@contextlib.contextmanager
def live_table(supervisor: Supervisor, console: Console | None = None) -> Iterator[Callable[[Supervisor], None] | None]:
    """Give a function that draws the supervisor's state, at most twice a second.

    None is given if there is no terminal.
    """
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
    """The table of the workers, and below it the tables that are being copied."""
    copies = [copy for worker in workers for copy in worker.copies]
    parts: list[Table | Text] = [worker_table(workers)]
    if copies:
        parts += [Text(), copy_table(copies[:_MOST_COPIES])]
    if len(copies) > _MOST_COPIES:
        parts.append(Text(f"and {len(copies) - _MOST_COPIES} more"))
    return Group(*parts)


def copy_table(copies: Sequence[CopyStatus]) -> Table:
    """One row with a bar for each table that is being copied.

    The totals of rows and bytes are the publisher's estimates, so a table may exceed them.
    """
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
    """One row for each subscription. It fits into 80 columns if the name of the subscription is
    short.
    """
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
