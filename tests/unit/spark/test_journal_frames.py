"""Ranges of a journal are limited as the loop asks, and their frames are the same whoever decodes
them.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from subscriber.base.errors import JournalCorrupt, JournalGap, ProtocolError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.spark import journal_frames
from subscriber.spark.journal_frames import (
    FrameFile,
    JournalFrames,
    JournalRange,
    RemainingFrames,
    read_frame,
    remove_frames,
    write_frame,
)
from subscriber.stream.decode import decode_frames
from tests.frames import transaction, values
from tests.journals import T, insert, publish, segment_files, three_large_transactions, three_transactions, writing
from tests.publications import entry, table, tables

ALL = JournalRange(LSN(0x100), LSN(0x400), 0)
TABLE = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=T.relation_id)
MUCH = 2**30


def journal(folder: Path, **options: Any) -> JournalFrames:
    return JournalFrames(str(folder), 2**20, **options)


def run(frames: JournalFrames, folder: Path | None = None, wanted: JournalRange = ALL) -> list[Any]:
    """The results of the tasks of a range, as Spark runs them."""
    tasks = [frames.task(partition, folder) for partition in frames.partitions(wanted)]
    results = [item for task in tasks for item in pickle.loads(pickle.dumps(task))(iter(()))]
    return [pickle.loads(pickle.dumps(item)) for item in results]


def keys(frames: list[Frame]) -> list[object]:
    """What is inserted into column a."""
    groups = [group for frame in frames for group in frame.groups]
    return [key for group in groups if group.new is not None for key in group.new.column("a").to_pylist()]


def received(frames: JournalFrames, results: list[Any]) -> list[object]:
    return keys([frame for item in results for frame in frames.received(item)])


# Ranges -------------------------------------------------------------------------------------------


def test_a_range_has_the_entries_that_are_small_together_but_at_least_one(tmp_path):
    three_transactions(tmp_path)
    sizes = [file.stat().st_size for file in segment_files(tmp_path)]
    frames = journal(tmp_path)
    assert frames.next_range(LSN(0x100), None, MUCH) == JournalRange(LSN(0x100), LSN(0x400), sum(sizes))
    assert frames.next_range(LSN(0x100), None, sizes[0] + sizes[1]).end == 0x300
    assert frames.next_range(LSN(0x300), None, 0) == JournalRange(LSN(0x300), LSN(0x400), sizes[2])
    assert frames.next_range(LSN(0x400), None, MUCH) == JournalRange(LSN(0x400), LSN(0x400), 0)


def test_a_range_does_not_go_beyond_the_limit(tmp_path):
    three_large_transactions(tmp_path)
    frames = journal(tmp_path)
    assert frames.next_range(LSN(0x100), LSN(0x310), MUCH).end == 0x300
    assert frames.next_range(LSN(0x300), LSN(0x400), MUCH).end == 0x400
    assert frames.next_range(LSN(0x300), LSN(0x310), MUCH).end == 0x300, "a transaction is not divided"


def test_a_run_of_small_transactions_is_divided_at_the_limit(tmp_path):
    three_transactions(tmp_path)
    frames = journal(tmp_path)
    assert frames.next_range(LSN(0x100), LSN(0x310), MUCH).end == 0x310
    assert frames.next_range(LSN(0x300), LSN(0x310), MUCH).end == 0x310


def test_what_is_beyond_the_limit_does_not_count_as_too_much(tmp_path):
    three_transactions(tmp_path)
    sizes = [file.stat().st_size for file in segment_files(tmp_path)]
    assert journal(tmp_path).next_range(LSN(0x100), LSN(0x200), MUCH).bytes == sizes[0]


def test_a_gap_is_an_error(tmp_path):
    three_transactions(tmp_path)
    segment_files(tmp_path)[1].unlink()
    with pytest.raises(JournalGap):
        journal(tmp_path).next_range(LSN(0x200), None, MUCH)


# Frames -------------------------------------------------------------------------------------------


def test_a_task_and_the_driver_decode_the_same(tmp_path):
    three_transactions(tmp_path)
    frames = journal(tmp_path)
    assert received(frames, run(frames)) == keys(list(frames.frames(ALL))) == [1, 2, 3]


def test_a_target_that_parses_text_gets_text(tmp_path):
    three_transactions(tmp_path)
    frames = journal(tmp_path, as_text=True)
    assert received(frames, run(frames)) == ["1", "2", "3"]


def test_executors_publish_what_they_have_decoded(tmp_path):
    three_transactions(tmp_path)
    frames = journal(
        tmp_path, publishing=Publishing((Publication("p", tables=(entry(TABLE, "a > 1"),)),), tables(TABLE))
    )
    assert received(frames, run(frames)) == [2, 3]


def test_an_error_is_the_last_result_after_the_good_frames(tmp_path, monkeypatch):
    """Spark would flatten it into text."""
    with writing(tmp_path) as opened:
        publish(opened, 0x200, transaction(0x200, T, insert(1)))
        publish(opened, 0x300, transaction(0x300, T, m.Insert(T.relation_id, values("s3cret", "x"))))
        publish(opened, 0x400, transaction(0x400, T, insert(3)))
    frames = journal(tmp_path)
    *good, error = run(frames)
    assert received(frames, good) == [1]
    assert isinstance(error, ProtocolError)
    assert (error.relation, error.column, error.sqlstate) == ("public.t", "a", "22P02")
    assert b"s3cret" not in pickle.dumps(error)


def test_a_journal_that_cannot_be_read_is_an_error_of_its_own_type(tmp_path):
    three_transactions(tmp_path)
    frames = journal(tmp_path)
    tasks = [frames.task(partition, None) for partition in frames.partitions(ALL)]
    segment_files(tmp_path)[1].write_bytes(b"no segment")
    assert isinstance([item for task in tasks for item in task(())][-1], JournalCorrupt)


def test_what_is_no_error_of_ours_is_not_hidden_in_a_result(tmp_path, monkeypatch):
    def broken(*_arguments: object, **_options: object) -> object:
        raise MemoryError

    three_transactions(tmp_path)
    monkeypatch.setattr(journal_frames, "decode_frames", broken)
    with pytest.raises(MemoryError):
        run(journal(tmp_path))


def test_a_frame_that_is_too_large_for_the_jvm_is_left_to_the_driver_with_all_after_it(tmp_path, monkeypatch):
    """bounded_memory, commit_order: of the partition's frames the second has more than
    sixteen thousand rows
    """
    with writing(tmp_path) as writer:
        publish(writer, 0x200, transaction(0x200, T, insert(1)))
        publish(writer, 0x300, transaction(0x300, T, *(insert(number) for number in range(2, 20_002))))
        publish(writer, 0x400, transaction(0x400, T, insert(20_002)))
    monkeypatch.setattr(journal_frames, "LARGEST_FRAME", 50_000)
    monkeypatch.setattr(decode_frames, "JOINED_ROWS", 16_384)
    frames = journal(tmp_path)
    first, last = run(frames)
    assert received(frames, [first]) == [1]
    assert isinstance(last, RemainingFrames)
    assert received(frames, [last]) == list(range(2, 20_003))


# Files --------------------------------------------------------------------------------------------


def test_frames_are_written_into_files_for_a_driver_on_the_same_machine(tmp_path, monkeypatch):
    """However large they are; without space on the disk they are sent."""
    folder, files = tmp_path / "journal", tmp_path / "frames"
    files.mkdir()
    three_transactions(folder)
    monkeypatch.setattr(journal_frames, "LARGEST_FRAME", 1)
    frames = journal(folder)
    results = run(frames, files)
    *written, seconds = results
    assert written == [FrameFile(str(path)) for path in files.iterdir()]
    assert set(seconds) == {"read", "decode"}
    assert received(frames, results) == [1, 2, 3]
    assert list(files.iterdir()) == []
    files.rmdir()
    assert [type(item) for item in run(frames, files)] == [RemainingFrames]


def test_a_file_is_read_once_and_what_nobody_has_read_is_removed(tmp_path):
    frame = Frame((), described=7)
    first, second = write_frame(tmp_path, frame), write_frame(tmp_path, frame)
    assert first is not None
    assert second is not None
    assert bytes(read_frame(first)) == frame.encode()
    remove_frames(tmp_path)
    assert list(tmp_path.iterdir()) == []
