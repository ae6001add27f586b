"""The live table: it fits a terminal, and what is logged meanwhile is not overwritten."""

from __future__ import annotations

import io
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from subscriber.cli.live import live_table, worker_table
from subscriber.cli.options import log_to_stderr
from subscriber.lsn import LSN


def supervisor() -> Any:
    """One worker, with a backlog larger than most."""
    worker = SimpleNamespace(
        subscription=SimpleNamespace(name="subscriber"),
        state="streaming",
        positions=lambda: (LSN(0xFF_016B3778), LSN(0xFF_016B3778)),
        applied=LSN(0x10_016B3778),
        transactions=123_456,
        changes=1_234_567,
    )
    return SimpleNamespace(workers={1: worker})


@pytest.fixture
def console():
    return Console(file=io.StringIO(), force_terminal=True, width=80)


@pytest.fixture
def logging_as_run_does():
    root = logging.getLogger()
    before = root.level, root.handlers[:]
    log_to_stderr()
    yield
    root.level, root.handlers = before


def test_the_table_fits_into_80_columns(console):
    console.print(worker_table(supervisor()))
    heading, row = console.file.getvalue().splitlines()
    assert "…" not in heading + row
    for text in ("streaming", "FF/16B3778", "10/16B3778", "1.0 TB", "123,456", "1,234,567"):
        assert text in row


def test_a_line_that_is_logged_stands_above_the_table_and_not_in_it(console, logging_as_run_does):
    with live_table(supervisor(), console) as show:
        before = console.file.getvalue()
        logging.getLogger("subscriber").warning("the publisher is away")
        after = console.file.getvalue().removeprefix(before)
        assert "the publisher is away" in after
        assert after.index("the publisher is away") < after.index("streaming")
        assert show is not None
