"""The live table: it fits a terminal, and what is logged meanwhile is not overwritten."""

from __future__ import annotations

import io
import logging
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import click
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from subscriber.base.lsn import LSN
from subscriber.base.progress_lines import progress
from subscriber.cli import live as module
from subscriber.cli.live import live_table, showing_progress, worker_table, worker_view
from subscriber.cli.options import log_to_stderr
from subscriber.worker.copy_progress import CopyStatus
from subscriber.worker.worker_snapshot import WorkerSnapshot
from tests.subscriptions import SUBSCRIPTION


def copy(name: str, rows: int = 1_234_567) -> CopyStatus:
    return CopyStatus(
        schema="public",
        name=name,
        rows=rows,
        bytes=234_567_890,
        estimated_rows=30_000_000,
        estimated_bytes=4_567_890_123,
        rows_per_second=123_456.7,
        started_at="2026-01-02T03:04:05Z",
    )


def worker(*copies: CopyStatus) -> WorkerSnapshot:
    """A worker with a backlog larger than most."""
    end = LSN(0xFF_016B3778)
    return WorkerSnapshot(
        replace(SUBSCRIPTION, name="subscriber"),
        receives=True,
        applies=True,
        received=end,
        last_entry=end,
        applied=LSN(0x10_016B3778),
        transactions=123_456,
        changes=1_234_567,
        copies=copies,
    )


@pytest.fixture
def console():
    return Console(file=io.StringIO(), force_terminal=True, width=80)


@pytest.fixture
def logging_as_run_does(logging_before):
    log_to_stderr()


def test_the_table_fits_into_80_columns(console):
    console.print(worker_table([worker()]))
    heading, row = console.file.getvalue().splitlines()
    assert "…" not in heading + row
    for text in ("streaming", "FF/16B3778", "10/16B3778", "1.0 TB", "123,456", "1,234,567"):
        assert text in row


def test_a_table_that_is_copied_has_a_bar_that_fits_into_80_columns(console):
    console.print(worker_view([worker(copy("orders"))]))
    *_, heading, row = console.file.getvalue().splitlines()
    assert "copying" in heading
    for text in ("public.orders ", "1.2M of 30.0M", "234.6 MB of 4.6 GB", "123.5k rows/s", "━"):
        assert text in row
    assert cell_len(Text.from_ansi(row).plain) <= 80


def test_a_table_may_have_more_rows_than_estimated_and_none_at_all(console):
    console.print(worker_view([worker(copy("grown", 40_000_000), replace(copy("empty", 0), estimated_rows=0))]))
    grown, empty = console.file.getvalue().splitlines()[-2:]
    assert "40.0M of 30.0M" in grown
    assert "0 of 0" in empty


def test_of_many_tables_only_the_first_have_a_bar(console):
    console.print(worker_view([worker(*(copy(f"t{number}") for number in range(11)))]))
    printed = console.file.getvalue()
    assert "t7" in printed
    assert "t8" not in printed
    assert "and 3 more" in printed


def test_without_copies_there_is_only_the_table_of_workers(console):
    console.print(worker_view([worker()]))
    assert len(console.file.getvalue().splitlines()) == 2


def test_a_logged_line_is_printed_above_the_table(console, logging_as_run_does):
    supervisor: Any = SimpleNamespace(snapshots=lambda: {1: worker()})
    with live_table(supervisor, console) as show:
        before = console.file.getvalue()
        logging.getLogger("subscriber").warning("the publisher is away")
        after = console.file.getvalue().removeprefix(before)
        assert "the publisher is away" in after
        assert after.index("the publisher is away") < after.index("streaming")
        assert show is not None


def test_a_terminal_shows_a_bar_for_what_is_done_last():
    out = io.StringIO()
    with showing_progress(Console(file=out, force_terminal=True)):
        progress("reading the publisher")
        progress("comparing tables", 3, 514)
    assert "comparing tables" in out.getvalue()
    assert "3/514" in out.getvalue()


def test_without_a_terminal_a_line_says_how_far_it_is_and_is_not_repeated(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_SECONDS", 0.001)
    lines: list[str] = []
    two = threading.Semaphore(0)

    def echo(text: str, *, err: bool) -> None:
        assert err
        lines.append(text)
        two.release()

    monkeypatch.setattr(click, "echo", echo)
    with showing_progress(Console(file=io.StringIO(), force_terminal=False)):
        progress("reading the publisher")
        assert two.acquire(timeout=30)
        progress("comparing tables", 1200, 5000)
        assert two.acquire(timeout=30)
    assert lines == ["NOTICE:  reading the publisher", "NOTICE:  comparing tables: 1,200 of 5,000"]


def test_what_is_over_in_a_moment_has_no_line(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(click, "echo", lambda text, **_: lines.append(text))
    monkeypatch.setattr(module, "_FIRST_SECONDS", 3600.0)
    with showing_progress(Console(file=io.StringIO(), force_terminal=False)):
        progress("comparing tables", 1, 3)
    assert lines == []
