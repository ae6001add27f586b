"""Which entries are merged, and that the journal is the same at every step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from subscriber.base import failpoints
from subscriber.base.lsn import LSN, MAX_LSN
from subscriber.stream.journal.compaction import LEAST_RUN, LONGEST_RUN, entries_to_merge
from subscriber.stream.journal.control import JournalControl
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.segment import Entry, EntryKind, Segment, journal_entries
from subscriber.stream.journal.storage import LocalStorage, open_storage
from subscriber.stream.journal.writer import JournalWriter
from tests.armed import armed
from tests.frames import relation, transaction
from tests.journals import T, consumer, insert, keys_of, passed, prepare, publish, read, segment_files, writing

MANY = 2 * LEAST_RUN


def entry(number: int, size: int = 100, kind: EntryKind = EntryKind.TRANSACTIONS, xid: int = 0) -> Entry:
    return Entry((Segment(LSN(number), LSN(number + 1), kind, xid, size=size),))


def found(entries: list[Entry], **options: object) -> tuple[int, int] | None:
    return entries_to_merge(entries, **{"segment_bytes": 1_000_000, **options})  # type: ignore[arg-type]


# Which entries ------------------------------------------------------------------------------------


def test_many_small_entries_in_a_row_are_merged():
    assert found([entry(number) for number in range(MANY)]) == (0, MANY)
    assert found([entry(number) for number in range(LEAST_RUN - 1)]) is None


def test_not_more_than_a_segment_and_not_more_than_a_tenth_of_a_second_s_work():
    assert found([entry(number, 10_000) for number in range(MANY)]) == (0, 100)
    assert found([entry(number, 1) for number in range(3 * LONGEST_RUN)]) == (0, LONGEST_RUN)


@pytest.mark.parametrize(
    "between",
    [entry(10, 250_000), entry(10, kind=EntryKind.PREPARED, xid=7), entry(10, xid=7)],
    ids=["large", "prepared", "one transaction"],
)
def test_only_small_runs_of_transactions_are_merged(between):
    entries = [entry(number) for number in range(MANY)]
    entries[10] = between
    assert found(entries) == (11, MANY)


def test_entries_on_both_sides_of_a_gap_or_a_fence_are_not_merged():
    entries = [entry(number) for number in range(MANY + 1)]
    assert found(entries, fences=[LSN(10)]) == (10, MANY + 1)
    del entries[10]
    assert found(entries) == (10, MANY)


def test_what_a_consumer_is_about_to_read_is_left_alone():
    entries = [entry(number) for number in range(3 * LEAST_RUN)]
    assert found(entries, reading=[LSN(10)], ahead=1_000) == (20, 3 * LEAST_RUN)
    assert found(entries, reading=[LSN(0)], ahead=10**9) is None


def test_nothing_is_merged_without_a_size():
    assert found([entry(number) for number in range(MANY)], segment_bytes=0) is None


# The files ----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    """These tests kill processes, not machines."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


def fill(folder: Path, *, compacts: bool = True, restart_at: int = 0) -> None:
    """MANY transactions, each an entry; each inserts its number. The relation changes once."""
    wider = relation("public.t", {"a": "int4", "b": "text"}, key=["b"])
    with writing(folder) as journal:
        for number in range(1, MANY + 1):
            end = 0x100 * (number + 1)
            shape = wider if number >= restart_at > 0 else T
            described = [shape] if number in (1, restart_at) and number != restart_at else []
            relations = {} if described else {T.relation_id: shape}
            publish(journal, end, transaction(end, *described, insert(number)), relations=relations)
        if compacts:
            compacted(journal)


def compacted(journal: JournalWriter) -> None:
    journal._segment_bytes = 8 * 1024 * 1024
    journal.trim()


def files(folder: Path) -> int:
    return len(list(folder.glob("*.arrow")))


def test_a_merged_journal_has_the_same_transactions_in_one_file(tmp_path):
    fill(tmp_path)
    assert files(tmp_path) == 1
    assert keys_of(tmp_path) == list(range(1, MANY + 1))
    assert list(tmp_path.glob("*.tmp")) == []
    with writing(tmp_path, confirmed=0x100 * (MANY + 1)) as journal:
        publish(journal, 0x100 * (MANY + 2), transaction(0x100 * (MANY + 2), insert(0)), relations={T.relation_id: T})
    assert keys_of(tmp_path)[-2:] == [MANY, 0]


def test_a_plan_from_before_is_read_as_it_was(tmp_path):
    fill(tmp_path, compacts=False)
    reader = JournalReader(LocalStorage(tmp_path))
    readings = reader.plan(LSN(0), MAX_LSN)
    before = [[batch.to_pydict() for batch in read(reader, reading)] for reading in readings]
    with writing(tmp_path, confirmed=0x100 * (MANY + 1)) as journal:
        compacted(journal)
    assert files(tmp_path) == 1
    for reading, expected in list(zip(readings, before, strict=True))[:: MANY // 8]:
        assert [batch.to_pydict() for batch in read(reader, reading)] == expected


def test_a_batch_that_begins_and_ends_inside_a_merged_entry_has_its_own_transactions_only(tmp_path):
    fill(tmp_path)
    assert keys_of(tmp_path, 0x100 * 11, 0x100 * 21) == list(range(11, 21))
    reader = JournalReader(LocalStorage(tmp_path))
    reader.require(LSN(0x100 * 11), LSN(0x100 * 21))
    assert reader.latest(LSN(0x100 * 21)) == 0x100 * (MANY + 1)


def test_runs_whose_descriptions_contradict_each_other_are_merged_apart(tmp_path):
    fill(tmp_path, compacts=False, restart_at=LEAST_RUN + 1)
    with writing(tmp_path, confirmed=0x100 * (MANY + 1)) as journal:
        compacted(journal)
        assert files(tmp_path) == LEAST_RUN + 1
        journal.trim()
        assert files(tmp_path) == 2
    assert keys_of(tmp_path) == list(range(1, MANY + 1))


def test_a_prepared_transaction_between_small_entries_stays_an_entry(tmp_path):
    fill(tmp_path, compacts=False)
    end = 0x100 * (MANY + 2)
    with writing(tmp_path, confirmed=0x100) as journal:
        publish(journal, end, prepare(end, T, insert(0), xid=7), kind="p", xid=7)
        compacted(journal)
        assert journal.holds_prepared(7)
    assert [one.kind for one in journal_entries(LocalStorage(tmp_path))] == [EntryKind.TRANSACTIONS, EntryKind.PREPARED]


def test_a_consumer_that_reads_keeps_small_entries_and_one_that_waits_does_not(tmp_path):
    fill(tmp_path, compacts=False)
    storage = LocalStorage(tmp_path)
    passed(storage, 0x100, consumer(1, "sync"))
    passed(storage, 0x100, consumer(1))
    with writing(tmp_path, confirmed=0x100) as journal:
        journal._batch_bytes = 10**9
        compacted(journal)
        assert files(tmp_path) == MANY
        passed(storage, 0x100 * (MANY + 1), consumer(1))
        journal.trim()
        assert files(tmp_path) == 1
    assert keys_of(tmp_path) == list(range(1, MANY + 1))


def test_a_damaged_entry_is_left_for_a_reader_to_report(tmp_path):
    fill(tmp_path, compacts=False)
    damaged = segment_files(tmp_path)[3]
    damaged.write_bytes(b"damaged")
    with writing(tmp_path, confirmed=0x100) as journal:
        compacted(journal)
        assert files(tmp_path) == MANY
        journal.trim()
        assert files(tmp_path) == 5
        assert damaged.exists()


@pytest.mark.parametrize("point", ["journal.sync.before", "journal.rename.before"])
def test_on_a_full_disk_the_small_entries_stay(tmp_path, point):
    fill(tmp_path, compacts=False)
    with writing(tmp_path, confirmed=0x100) as journal, armed(f"{point}=enospc"):
        compacted(journal)
    assert files(tmp_path) == MANY
    assert keys_of(tmp_path) == list(range(1, MANY + 1))


def test_a_remote_journal_is_not_compacted():
    """Each file would be a request, and meanwhile nothing is received."""
    remote = open_storage("mock:///bucket/7300_s")
    control = JournalControl("7300", "s", begin=LSN(1), received=LSN(1), end=LSN(1))
    assert JournalWriter(remote, control, segment_bytes=8)._segment_bytes == 0


KILLED = """
import sys
from pathlib import Path
from tests.journals import writing
from tests.unit.stream.journal.test_compaction import compacted
with writing(Path(sys.argv[1]), confirmed=0x100) as journal:
    compacted(journal)
"""
STEPS = ["journal.sync.before", "journal.sync.after", "journal.rename.before", "journal.rename.after", "journal.merge.before", "journal.merge.after"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("point", STEPS)
def test_a_kill_at_any_step_loses_nothing(tmp_path, point):
    """any_crash: a reader sees the same before and after the restart, and the restart cleans up."""
    fill(tmp_path, compacts=False)
    environment = {**os.environ, failpoints.ENVIRONMENT: f"{point}=kill"}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert keys_of(tmp_path) == list(range(1, MANY + 1))
    with writing(tmp_path, confirmed=0x100):
        assert files(tmp_path) == (1 if point.startswith(("journal.merge", "journal.rename.after")) else MANY)
    assert keys_of(tmp_path) == list(range(1, MANY + 1))
    assert list(tmp_path.glob("*.tmp")) == []


@pytest.mark.parametrize("deleted", [1, MANY // 2, MANY - 1])
def test_a_crash_in_the_middle_of_the_deletion_loses_nothing(tmp_path, deleted):
    fill(tmp_path, compacts=False)
    small = {path.name: path.read_bytes() for path in segment_files(tmp_path)}
    with writing(tmp_path, confirmed=0x100) as journal:
        compacted(journal)
    for name in list(small)[deleted:]:
        (tmp_path / name).write_bytes(small[name])
    assert keys_of(tmp_path) == list(range(1, MANY + 1))
    with writing(tmp_path, confirmed=0x100):
        assert files(tmp_path) == 1
