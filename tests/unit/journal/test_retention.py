"""What may be removed, and what must wait."""

from __future__ import annotations

import pytest

from subscriber.journal.retention import (
    consumer_files,
    read_consumer,
    remove_consumer,
    slowest_consumer,
    trimmable,
    undecided,
    without_kept,
    write_consumer,
)
from subscriber.journal.segment import Entry, Kind, Segment
from subscriber.journal.storage import LocalStorage
from subscriber.lsn import INVALID_LSN, LSN


def entry(end: int, kind: str = "t", xid: int = 0) -> Entry:
    return Entry((Segment(LSN(end - 0x100), LSN(end), Kind(kind), xid),))


def ends(entries: list[Entry]) -> list[int]:
    return [each.end for each in entries]


def slowest(storage: LocalStorage) -> LSN:
    return slowest_consumer(storage, consumer_files(storage, storage.names()))


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def test_the_slowest_of_several_consumers_counts(storage):
    write_consumer(storage, "a", LSN(0x300))
    write_consumer(storage, "b", LSN(0x200))
    assert slowest(storage) == 0x200
    assert read_consumer(storage, "a") == 0x300


def test_without_a_consumer_nothing_was_passed(storage):
    assert slowest(storage) == INVALID_LSN
    assert read_consumer(storage, "a") == INVALID_LSN


def test_a_consumer_that_has_begun_holds_everything(storage):
    write_consumer(storage, "a", LSN(0x300))
    write_consumer(storage, "b", INVALID_LSN)
    assert slowest(storage) == INVALID_LSN


def test_only_consumers_files_are_read(storage):
    for name in ("consumer-a.lsn", "consumer-a.lsn.77.tmp", "journal.json", "consumer-b"):
        (storage.folder / name).write_bytes(b"0/200")
    assert consumer_files(storage, storage.names()) == {"consumer-a.lsn"}


def test_a_known_consumer_that_a_listing_missed_still_counts_until_its_file_is_gone(storage):
    """A file that is replaced while its folder is listed need not be in the list."""
    write_consumer(storage, "a", LSN(0x300))
    write_consumer(storage, "b", LSN(0x200))
    known = consumer_files(storage, storage.names())
    without_b = [(name, size) for name, size in storage.names() if name != "consumer-b.lsn"]
    assert consumer_files(storage, without_b, known) == known
    storage.delete(["consumer-b.lsn"])
    assert consumer_files(storage, without_b, known) == {"consumer-a.lsn"}


def test_a_consumer_whose_file_is_gone_holds_everything_until_it_is_forgotten(storage):
    write_consumer(storage, "a", LSN(0x300))
    assert slowest_consumer(storage, ["consumer-a.lsn", "consumer-b.lsn"]) == INVALID_LSN


def test_an_entry_may_go_once_it_was_passed_to_its_end():
    entries = [entry(0x200), entry(0x300), entry(0x400)]
    assert ends(trimmable(entries, LSN(0x3FF))) == [0x200, 0x300]
    assert trimmable(entries, INVALID_LSN) == []


@pytest.mark.parametrize(("keep", "going"), [(0, [0x200, 0x300, 0x400]), (10, [0x200, 0x300]), (29, [0x200]), (30, [])])
def test_the_newest_are_kept_as_far_as_they_fit(keep, going):
    entries = [Entry((Segment(LSN(end - 0x100), LSN(end), Kind("t"), 0, size=10),)) for end in (0x200, 0x300, 0x400)]
    assert ends(without_kept(entries, keep)) == going


def test_a_prepared_transaction_stays_until_its_verdict_may_go():
    entries = [entry(0x200, "p", 7), entry(0x300), entry(0x400, "k", 7)]
    assert ends(trimmable(entries, LSN(0x300))) == [0x300]
    assert ends(trimmable(entries, LSN(0x400))) == [0x200, 0x300, 0x400]


def test_a_rollback_is_a_verdict_too():
    assert ends(trimmable([entry(0x200, "p", 7), entry(0x300, "r", 7)], LSN(0x300))) == [0x200, 0x300]


def test_a_verdict_on_another_transaction_releases_nothing():
    entries = [entry(0x200, "p", 7), entry(0x300, "p", 8), entry(0x400, "k", 8)]
    assert ends(trimmable(entries, LSN(0x400))) == [0x300, 0x400]


def test_a_prepared_transaction_is_undecided_until_its_verdict_stands_behind_it():
    """C52: an xid is given again after the verdict."""
    entries = [
        entry(10, Kind.PREPARED, 7),
        entry(20, Kind.PREPARED, 8),
        entry(30, Kind.COMMIT_PREPARED, 7),
        entry(40, Kind.PREPARED, 9),
        entry(50, Kind.ROLLBACK_PREPARED, 9),
        entry(60, Kind.PREPARED, 7),
    ]
    assert ends(undecided(entries)) == [20, 60]
    assert undecided(entries[:1] + entries[2:3]) == []


def test_a_forgotten_consumer_holds_nothing(storage):
    write_consumer(storage, "a", LSN(10))
    write_consumer(storage, "b", LSN(20))
    remove_consumer(storage, "a")
    remove_consumer(storage, "unknown")
    assert slowest(storage) == 20
    assert read_consumer(storage, "a") == INVALID_LSN
