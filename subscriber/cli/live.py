"""A live table of the workers on a terminal; nothing elsewhere, where the log speaks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich import filesize
from rich.console import Console
from rich.live import Live
from rich.table import Table

from subscriber.lsn import format_lsn
from subscriber.subscription.supervisor import Supervisor

_REFRESH_SECONDS = 0.5


@contextlib.contextmanager
def live_table(supervisor: Supervisor, console: Console | None = None) -> Iterator[Callable[[Supervisor], None] | None]:
    """Give a function that draws the supervisor's state, at most twice a second; None when there is no terminal."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    drawn = 0.0
    with Live(worker_table(supervisor), console=console, auto_refresh=False, redirect_stdout=False) as live:

        def show(current: Supervisor) -> None:
            nonlocal drawn
            if time.monotonic() - drawn >= _REFRESH_SECONDS:
                drawn = time.monotonic()
                live.update(worker_table(current), refresh=True)

        yield show


def worker_table(supervisor: Supervisor) -> Table:
    """One row a subscription; it fits into 80 columns as long as its name is short."""
    table = Table("subscription", "state", "received", "applied", box=None, pad_edge=False)
    for heading in ("lag", "transactions", "changes"):
        table.add_column(heading, justify="right")
    for worker in supervisor.workers.values():
        received, last = worker.positions()
        table.add_row(
            worker.subscription.name,
            worker.state,
            format_lsn(received),
            format_lsn(worker.applied),
            filesize.decimal(max(0, last - worker.applied)),
            f"{worker.transactions:,}",
            f"{worker.changes:,}",
        )
    return table
