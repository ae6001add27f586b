"""The command line, run in this process, and a target for it."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from subscriber.cli import main


class Ended(NamedTuple):
    """What a command has left: its exit code and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def signals_before() -> Iterator[None]:
    """Restores the handlers of signals afterwards: `subscriber run` sets its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    signal.set_wakeup_fd(-1)


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    signals_before: None,
    logging_before: None,
) -> Callable[..., Ended]:
    """A function that runs ``subscriber`` with the given arguments."""

    def run_cli(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["subscriber", *arguments])
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        return Ended(code, *capsys.readouterr())

    return run_cli


@pytest.fixture
def target(tmp_path: Path) -> str:
    """The URL of a SQLite database, which the first command creates."""
    return f"sqlite:///{tmp_path / 'target.db'}"


@pytest.fixture
def logging_before() -> Iterator[None]:
    """Restores level and handlers of the root logger afterwards: `subscriber run` sets its own."""
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    yield
    logging.captureWarnings(False)
    level, root.handlers = before
    root.setLevel(level)  # setLevel also forgets what each logger remembers of it
