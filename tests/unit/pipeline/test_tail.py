"""The driver waits for the end of the journal to move, and leaves to Spark what is too much."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from subscriber.errors import JournalGap
from subscriber.lsn import LSN
from subscriber.pipeline import tail as tail_module
from subscriber.pipeline.apply_bound import ApplyBound
from subscriber.pipeline.frame_source import FrameSource, FrameStreamReader, read_progress
from subscriber.pipeline.tail import Tail
from tests.frames import transaction
from tests.journals import T, insert, publish, segment_files, three_large_transactions, three_transactions, writing


@pytest.fixture
def following(tmp_path) -> Iterator[SimpleNamespace]:
    journal = tmp_path / "journal"
    three_transactions(journal)
    reader = FrameSource({"journal": str(journal)}).streamReader(None)  # type: ignore[arg-type]
    assert isinstance(reader, FrameStreamReader)
    stop = threading.Event()
    progress = tmp_path / "progress"
    bound = ApplyBound()
    tail = Tail(reader, progress, stop, bound)
    yield SimpleNamespace(tail=tail, stop=stop, progress=progress, journal=journal, bound=bound)
    stop.set()


def test_what_waits_is_returned_at_once_and_as_a_whole(following):
    assert following.tail.next_end(LSN(0x100)) == 0x400


def test_an_entry_that_is_published_ends_the_wait(following):
    def later() -> None:
        with writing(following.journal, applied=0x400) as journal:
            publish(journal, 0x500, transaction(0x500, T, insert(4)))

    threading.Timer(0.1, later).start()
    assert following.tail.next_end(LSN(0x400)) == 0x500


def test_a_wait_ends_when_the_query_is_to_end(following):
    threading.Timer(0.1, following.stop.set).start()
    assert following.tail.next_end(LSN(0x400)) is None


def test_more_than_the_driver_reads_is_left_to_spark(following, monkeypatch):
    sizes = [file.stat().st_size for file in segment_files(following.journal)]
    monkeypatch.setattr(tail_module, "SMALL_BYTES", sum(sizes) - 1)
    assert following.tail.next_end(LSN(0x100)) is None
    assert following.tail.next_end(LSN(0x200)) == 0x400


def test_a_slice_has_the_entries_that_are_small_together(following, monkeypatch):
    sizes = [file.stat().st_size for file in segment_files(following.journal)]
    monkeypatch.setattr(tail_module, "SMALL_BYTES", sizes[0] + sizes[1])
    begun = threading.Event()
    assert following.tail.next_slice(LSN(0x100), begun) == 0x300
    assert following.tail.next_slice(LSN(0x300), begun) == 0x400
    monkeypatch.setattr(tail_module, "SMALL_BYTES", 1)
    assert following.tail.next_slice(LSN(0x100), begun) is None


def test_there_is_no_slice_after_spark_s_first_batch_has_begun(following):
    begun = threading.Event()
    threading.Timer(0.1, begun.set).start()
    assert following.tail.next_slice(LSN(0x400), begun) is None
    assert following.tail.next_slice(LSN(0x100), begun) is None


def test_a_gap_is_an_error(following):
    segment_files(following.journal)[1].unlink()
    with pytest.raises(JournalGap):
        following.tail.next_end(LSN(0x200))


def test_the_planner_finds_where_the_driver_has_stopped(following):
    assert read_progress(str(following.progress)) is None
    following.tail.leave(LSN(0x300))
    assert read_progress(str(following.progress)) == 0x300
    assert [file.name for file in Path(following.progress.parent).iterdir() if file.is_file()] == ["progress"]


# A bound ------------------------------------------------------------------------------------------


@pytest.fixture
def large(following: SimpleNamespace, tmp_path: Path) -> SimpleNamespace:
    """The same for a journal whose entries are not divided."""
    folder = tmp_path / "large"
    three_large_transactions(folder)
    reader = FrameSource({"journal": str(folder)}).streamReader(None)  # type: ignore[arg-type]
    assert isinstance(reader, FrameStreamReader)
    following.tail = Tail(reader, following.progress, following.stop, following.bound)
    return following


def test_nothing_beyond_the_bound_is_returned(large):
    large.bound.position = LSN(0x310)
    assert large.tail.next_end(LSN(0x100)) == 0x300
    assert large.tail.next_slice(LSN(0x200), threading.Event()) == 0x300
    large.bound.position = LSN(0x400)
    assert large.tail.next_end(LSN(0x300)) == 0x400


def test_a_run_of_transactions_is_returned_up_to_the_bound(following):
    following.bound.position = LSN(0x310)
    assert following.tail.next_end(LSN(0x100)) == 0x310
    assert following.tail.next_slice(LSN(0x300), threading.Event()) == 0x310


@pytest.mark.parametrize("bound", [0x300, 0x310], ids=["the bound is reached", "the next entry ends after the bound"])
def test_a_wait_goes_on_when_the_bound_is_gone(large, bound):
    def remove() -> None:
        large.bound.position = None

    large.bound.position = LSN(bound)
    threading.Timer(0.1, remove).start()
    assert large.tail.next_end(LSN(0x300)) == 0x400


def test_a_wait_at_the_bound_ends_when_the_query_is_to_end(following):
    following.bound.position = LSN(0x300)
    threading.Timer(0.1, following.stop.set).start()
    assert following.tail.next_end(LSN(0x300)) is None


def test_what_is_beyond_the_bound_does_not_count_as_too_much(following, monkeypatch):
    sizes = [file.stat().st_size for file in segment_files(following.journal)]
    monkeypatch.setattr(tail_module, "SMALL_BYTES", sizes[0])
    following.bound.position = LSN(0x200)
    assert following.tail.next_end(LSN(0x100)) == 0x200
    following.bound.position = LSN(0x300)
    assert following.tail.next_end(LSN(0x100)) is None
