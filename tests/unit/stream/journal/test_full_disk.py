"""A journal on a disk without a free byte: nothing is lost, and what the target has applied makes
room again.

On a file system of its own, filled to the last byte before each kind of write; skipped where none
may be mounted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.base.errors import JournalUnavailable
from subscriber.base.lsn import LSN
from subscriber.commands.consumers import JournalConsumers
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.retention import read_consumer
from subscriber.stream.journal.storage import RESERVE_BYTES, RESERVE_FILE, LocalStorage, is_out_of_space
from tests.crash.conftest import small_file_system
from tests.frames import transaction
from tests.journals import T, consumer, filled, insert, keys_of, passed, publish, writing

SIZE = 2 * 1024 * 1024
LARGE = "x" * 200_000


@pytest.fixture
def storage(tmp_path) -> Iterator[LocalStorage]:
    with small_file_system(tmp_path / "disk", str(SIZE)) as mounted:
        if not mounted:
            pytest.skip("mounting a tmpfs is not allowed here")
        yield LocalStorage(tmp_path / "disk" / "7300_s")


@contextlib.contextmanager
def full(storage: LocalStorage) -> Iterator[None]:
    """Not a byte is free when the block begins."""
    filler = storage.folder.parent / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(os.statvfs(filler).f_frsize))
    assert os.statvfs(filler).f_bavail == 0
    try:
        yield
    finally:
        filler.unlink()


def three_large(storage: LocalStorage) -> None:
    with writing(storage) as journal:
        for number, end in enumerate((0x200, 0x300, 0x400), start=1):
            publish(journal, end, transaction(end, T, insert(number, LARGE)))


def large(key: int):
    return transaction(0x100 * (key + 1), T, insert(key, LARGE))


def test_a_consumer_is_written_from_the_reserve(storage):
    three_large(storage)
    consumers = JournalConsumers(storage.url, consumer().target, 1, subscription="s", place="")
    with full(storage):
        consumers.record_applied(LSN(0x300))
        assert read_consumer(storage, consumer()) == 0x300
        assert (storage.folder / RESERVE_FILE).stat().st_size < RESERVE_BYTES


def test_what_is_received_meanwhile_leaves_space_for_the_positions_of_consumers(storage):
    """The receiver and the apply work at once: a segment takes what a position has freed."""
    three_large(storage)
    consumers = JournalConsumers(storage.url, consumer().target, 1, subscription="s", place="")
    with writing(storage) as journal, full(storage):
        consumers.record_applied(LSN(0x1F0))  # nothing can be trimmed
        end = 0x500
        with pytest.raises(JournalUnavailable):
            while True:
                publish(journal, end, transaction(end, T, insert(end, "small")))
                end += 0x100
        consumers.record_applied(LSN(0x1F8))
        assert read_consumer(storage, consumer()) == 0x1F8
        journal.advance(LSN(end))
        consumers.record_applied(LSN(0x300))
        publish(journal, 0x90000, large(4))
    assert keys_of(storage, 0x300)[:1] == [3]
    assert keys_of(storage, 0x300)[-1] == 4


def test_applied_entries_are_trimmed_and_the_reserve_is_created_again(storage):
    """The control file is written first, on a disk without a byte."""
    three_large(storage)
    with writing(storage) as journal:
        passed(storage, 0x300)
        with full(storage):
            journal.trim()
            assert keys_of(storage, 0x300) == [3]
            assert (storage.folder / RESERVE_FILE).stat().st_size == RESERVE_BYTES
        control = read_control(storage)
        assert control is not None
        assert control.begin == 0x300


def test_an_idle_position_is_written_from_the_reserve(storage):
    three_large(storage)
    with writing(storage) as journal, full(storage):
        journal.advance(LSN(0x900))
        assert journal.durable_lsn == 0x900


def test_a_segment_uses_the_space_that_trimming_frees(storage):
    three_large(storage)
    with writing(storage) as journal:
        with full(storage):
            passed(storage, 0x400)
            publish(journal, 0x500, large(4))
        assert keys_of(storage, 0x400) == [4]


@pytest.mark.parametrize("parts", [1, 3])
def test_an_entry_that_finds_no_space_is_invisible_and_can_be_written_again(storage, parts):
    """slot_after_disk: what is not durable is not confirmed."""
    three_large(storage)
    with writing(storage) as journal:
        with full(storage), pytest.raises(JournalUnavailable) as caught:
            publish(journal, 0x500, *([large(4)] if parts == 1 else [large(4)[:2], large(4)[2:3], large(4)[3:]]))
        assert is_out_of_space(caught.value)
        assert journal.durable_lsn == 0x400
    with writing(storage) as journal:
        publish(journal, 0x500, large(4))
    assert keys_of(storage) == [1, 2, 3, 4]


def test_a_receiver_that_starts_on_a_full_disk_trims_before_it_streams(storage):
    """Its predecessor ended because nothing could be written; the target has gone on since."""
    three_large(storage)
    passed(storage, 0x300)
    with full(storage), writing(storage, confirmed=0x400) as journal:
        publish(journal, 0x500, large(4))
    assert keys_of(storage, 0x300) == [3, 4]


def test_a_position_that_finds_no_space_is_written_when_there_is_some(storage):
    """The reserve is gone as well: the target's commit stands, and nothing fails."""
    three_large(storage)
    consumers = JournalConsumers(storage.url, consumer().target, 1, subscription="s", place="")
    storage.delete([RESERVE_FILE])
    with full(storage):
        consumers.record_applied(LSN(0x400))
        assert read_consumer(storage, consumer()) == 0
        storage.make_reserve()
        assert (storage.folder / RESERVE_FILE).stat().st_size == 0
    consumers.write_late()
    assert read_consumer(storage, consumer()) == 0x400
    with writing(storage, applied=0x400) as journal:
        assert (storage.folder / RESERVE_FILE).stat().st_size == RESERVE_BYTES
        publish(journal, 0x500, large(4))
    assert keys_of(storage, 0x400) == [4]


def test_a_spool_that_finds_no_space_leaves_no_file(storage):
    with writing(storage) as journal:
        with full(storage), pytest.raises(JournalUnavailable):
            filled(journal, [large(1)[:2], large(1)[2:]])
        assert [path for path in Path(storage.folder).iterdir() if path.suffix == ".tmp"] == []
