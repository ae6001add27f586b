"""The part of the journal that is kept for tables that are copied or catch up (rules D2-D5)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from subscriber.base.errors import TargetUnavailable
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog.table_states import RelationState
from subscriber.commands.consumers import JournalConsumers, sync_consumer
from subscriber.stream.journal.retention import read_consumer
from subscriber.stream.journal.storage import LocalStorage
from subscriber.targets import Target
from subscriber.worker.sync_catalog import SyncCatalog
from subscriber.worker.tablesync import JournalPin
from tests.subscriptions import create_subscription, set_state

TARGET = "8c1f" * 8


class Kept:
    """The consumers of a subscription in its journal, and what is kept there."""

    def __init__(self, folder: Path, target: Target) -> None:
        self.folder = folder / "journal"
        self.folder.mkdir()
        states = SyncCatalog(target, create_subscription(target), threading.Lock())
        self.consumers = JournalConsumers(str(self.folder), TARGET, 1, subscription="s", place="sqlite:///t.db")
        self.journal = JournalPin(self.consumers, states)

    @property
    def since(self) -> LSN:
        """The position from which the journal is kept; 0/0 if it is not kept."""
        return read_consumer(LocalStorage(self.folder), sync_consumer(TARGET, 1))


@pytest.fixture
def kept(tmp_path, target) -> Kept:
    return Kept(tmp_path, target)


def test_a_round_keeps_the_journal_from_its_snapshot_on(kept):
    kept.journal.keep(LSN(100))
    assert kept.since == 100


@pytest.mark.parametrize(
    ("finished", "snapshot", "since"),
    [([70, 90], 100, 70), ([120], 100, 100), ([70], None, 70), ([], None, INVALID_LSN)],
)
def test_the_oldest_position_that_a_table_needs_decides(kept, target, finished, snapshot, since):
    kept.journal.keep(LSN(30))
    for number, lsn in enumerate(finished):
        set_state(target, f"t{number}", RelationState.FINISHEDCOPY, lsn)
    kept.journal.keep(None if snapshot is None else LSN(snapshot))
    assert kept.since == since


@pytest.mark.parametrize("state", [RelationState.INIT, RelationState.DATASYNC, RelationState.SYNCDONE])
def test_tables_in_other_states_need_nothing(kept, target, state):
    """D1: only a table in state f still has to catch up from its LSN."""
    set_state(target, "t", state, 70)
    kept.journal.keep(None)
    assert kept.since == INVALID_LSN


def test_the_position_of_a_killed_run_is_released(kept):
    kept.consumers.keep(LSN(30))
    kept.journal.release()
    assert kept.since == INVALID_LSN


def test_the_journal_is_not_read_again_when_nothing_is_kept(kept):
    kept.journal.release()
    kept.consumers.keep(LSN(30))
    kept.journal.release()
    assert kept.since == 30
    kept.journal.keep(LSN(40))
    kept.journal.release()
    assert kept.since == INVALID_LSN


def test_a_position_that_cannot_be_released_now_is_released_later(kept):
    kept.journal.keep(LSN(30))
    file = next(kept.folder.glob("consumer-*-sync.lsn"))
    content = file.read_bytes()
    file.unlink()
    (file / "in the way").mkdir(parents=True)  # a folder cannot be removed as a file
    kept.journal.release()
    (file / "in the way").rmdir()
    file.rmdir()
    file.write_bytes(content)
    kept.journal.release()
    assert kept.since == INVALID_LSN


def test_a_target_that_is_away_releases_nothing(kept):
    """Nobody knows then which tables still have to catch up."""
    kept.journal.keep(LSN(30))

    class AwayStates:
        def relations(self):
            raise TargetUnavailable("away")

    with pytest.raises(TargetUnavailable):
        JournalPin(kept.consumers, AwayStates()).keep(LSN(100))  # type: ignore[arg-type]
    assert kept.since == 30
