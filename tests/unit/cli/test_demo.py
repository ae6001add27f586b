"""``subscriber demo``: what needs no server. ``make demo`` runs the whole of it."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from subscriber.base.errors import ConflictError
from subscriber.base.retry import PATIENT_FAILURES, FailedAttempts
from subscriber.cli.demo import _journal_folder, _replicate, _what_next
from subscriber.targets import open_target
from subscriber.testing import demo_data
from subscriber.worker.worker_snapshot import WorkerSnapshot
from tests.subscriptions import NOWHERE, SUBSCRIPTION

WAITING = WorkerSnapshot(SUBSCRIPTION)
GIVEN_UP = replace(
    WAITING, applying=FailedAttempts(ConflictError("duplicate key"), in_a_row=PATIENT_FAILURES, in_all=PATIENT_FAILURES)
)


class PlayedSupervisor:
    """A supervisor of one worker, which calls ``on_tick`` until it is told to end."""

    def __init__(self, *snapshots: WorkerSnapshot) -> None:
        self._left = list(snapshots)
        self.workers: dict[int, Any] = {}

    def snapshots(self) -> dict[int, WorkerSnapshot]:
        return {1: self._left[0]}

    def run(self, finished: threading.Event, on_tick: Callable[[Any], None]) -> bool:
        while not finished.is_set():
            on_tick(self)
            if len(self._left) > 1:
                self._left.pop(0)
        return True


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), soft_wrap=True)


@pytest.fixture
def shop(target):
    """A target with the tables of the demo."""
    with open_target(target) as opened:
        with opened.begin() as connection:
            for name in demo_data.TABLES:
                connection.exec_driver_sql(f"CREATE TABLE {name} (id INTEGER)")
        yield opened


def replicate(supervisor: PlayedSupervisor, shop: Any, stop: threading.Event, console: Console) -> bool:
    return _replicate(supervisor, shop, NOWHERE, 0.0, stop, console)  # type: ignore[arg-type]


def test_the_folder_may_not_be_a_file(run, tmp_path):
    (tmp_path / "file").write_text("")
    ended = run("demo", "--folder", str(tmp_path / "file"))
    assert ended.code == 1
    assert "--folder needs a folder" in ended.err


def test_a_subscription_that_fails_for_long_ends_the_demo_without_success(shop, console):
    assert not replicate(PlayedSupervisor(WAITING, GIVEN_UP), shop, threading.Event(), console)


def test_an_interrupted_demo_fails(shop, console):
    stop = threading.Event()
    stop.set()
    assert not replicate(PlayedSupervisor(WAITING), shop, stop, console)


def test_without_a_terminal_the_progress_is_a_line(shop, console):
    stop = threading.Event()
    stop.set()
    replicate(PlayedSupervisor(WAITING), shop, stop, console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == f"0 transactions at the publisher; {WAITING.summary()}; 0 rows in SQLite\n"


def test_the_suggested_commands_name_the_database_of_the_demo(console):
    _what_next(console, Path("subscriber-demo/target.db"))
    assert isinstance(console.file, io.StringIO)
    assert "sql --target sqlite:///subscriber-demo/target.db -c 'SELECT * FROM t1'" in console.file.getvalue()


def test_the_journal_of_the_demo_is_removed_with_it():
    with _journal_folder() as folder:
        Path(folder, "1_demo").mkdir()
    assert not Path(folder).exists()
