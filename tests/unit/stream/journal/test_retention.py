"""The entries that may be trimmed, and those that a consumer still needs."""

from __future__ import annotations

import pytest

from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.stream.journal.retention import (
    ConsumerPosition,
    Passed,
    consumer_files,
    list_consumers,
    read_consumer,
    remove_consumer,
    trimmable,
    undecided,
    without_kept,
    write_consumer,
)
from subscriber.stream.journal.retention import (
    passed as passed_by,
)
from subscriber.stream.journal.segment import Entry, EntryKind, Segment
from subscriber.stream.journal.storage import LocalStorage
from tests.journals import consumer, passed

A, B = consumer(1), consumer(2)


def entry(end: int, kind: str = "t", xid: int = 0) -> Entry:
    return Entry((Segment(LSN(end - 0x100), LSN(end), EntryKind(kind), xid),))


def ends(entries: list[Entry]) -> list[int]:
    return [each.end for each in entries]


def slowest(storage: LocalStorage) -> LSN:
    return passed_by(storage, consumer_files(storage, storage.names())).slowest


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def test_the_slowest_of_several_consumers_counts(storage):
    passed(storage, 0x300, A)
    passed(storage, 0x200, B)
    assert slowest(storage) == 0x200
    assert read_consumer(storage, A) == 0x300


def test_the_fastest_consumer_is_known_too(storage):
    passed(storage, 0x300, A)
    passed(storage, 0x200, B)
    assert passed_by(storage, [A.file, B.file]) == Passed(LSN(0x200), LSN(0x300), LSN(0x200))


def test_without_a_consumer_no_position_is_passed(storage):
    assert slowest(storage) == INVALID_LSN
    assert read_consumer(storage, A) == INVALID_LSN


def test_a_consumer_at_its_beginning_keeps_everything(storage):
    passed(storage, 0x300, A)
    passed(storage, 0, B)
    assert slowest(storage) == INVALID_LSN


def test_only_consumers_files_are_read(storage):
    for name in ("consumer-a.lsn", "consumer-a.lsn.77.tmp", "journal.json", "consumer-b"):
        (storage.folder / name).write_bytes(b"0/200")
    assert consumer_files(storage, storage.names()) == {"consumer-a.lsn"}


def test_a_known_consumer_that_a_listing_misses_counts_until_its_file_is_gone(storage):
    """A file that is replaced while its folder is listed need not be in the list."""
    passed(storage, 0x300, A)
    passed(storage, 0x200, B)
    known = consumer_files(storage, storage.names())
    without_b = [(name, size) for name, size in storage.names() if name != B.file]
    assert consumer_files(storage, without_b, known) == known
    storage.delete([B.file])
    assert consumer_files(storage, without_b, known) == {A.file}


def test_a_consumer_without_a_file_keeps_everything(storage):
    passed(storage, 0x300, A)
    assert passed_by(storage, [A.file, B.file]) == Passed(INVALID_LSN, LSN(0x300), INVALID_LSN)


def test_an_entry_may_be_trimmed_when_its_end_is_passed():
    entries = [entry(0x200), entry(0x300), entry(0x400)]
    assert ends(trimmable(entries, LSN(0x3FF))) == [0x200, 0x300]
    assert trimmable(entries, INVALID_LSN) == []


@pytest.mark.parametrize(("keep", "going"), [(0, [0x200, 0x300, 0x400]), (10, [0x200, 0x300]), (29, [0x200]), (30, [])])
def test_the_newest_entries_are_kept_up_to_a_size(keep, going):
    entries = [
        Entry((Segment(LSN(end - 0x100), LSN(end), EntryKind("t"), 0, size=10),)) for end in (0x200, 0x300, 0x400)
    ]
    assert ends(without_kept(entries, keep)) == going


def test_a_prepared_transaction_stays_until_its_commit_prepared_may_be_trimmed():
    entries = [entry(0x200, "p", 7), entry(0x300), entry(0x400, "k", 7)]
    assert ends(trimmable(entries, LSN(0x300))) == [0x300]
    assert ends(trimmable(entries, LSN(0x400))) == [0x200, 0x300, 0x400]


def test_a_prepared_transaction_stays_until_its_rollback_prepared_may_be_trimmed():
    assert ends(trimmable([entry(0x200, "p", 7), entry(0x300, "r", 7)], LSN(0x300))) == [0x200, 0x300]


def test_the_commit_prepared_of_another_transaction_does_not_matter():
    entries = [entry(0x200, "p", 7), entry(0x300, "p", 8), entry(0x400, "k", 8)]
    assert ends(trimmable(entries, LSN(0x400))) == [0x300, 0x400]


def test_a_prepared_transaction_is_undecided_until_a_commit_or_rollback_follows():
    """C52: the number may be used again after COMMIT PREPARED or ROLLBACK PREPARED."""
    entries = [
        entry(10, EntryKind.PREPARED, 7),
        entry(20, EntryKind.PREPARED, 8),
        entry(30, EntryKind.COMMIT_PREPARED, 7),
        entry(40, EntryKind.PREPARED, 9),
        entry(50, EntryKind.ROLLBACK_PREPARED, 9),
        entry(60, EntryKind.PREPARED, 7),
    ]
    assert ends(undecided(entries)) == [20, 60]
    assert undecided(entries[:1] + entries[2:3]) == []


def test_a_forgotten_consumer_keeps_nothing(storage):
    passed(storage, 10, A)
    passed(storage, 20, B)
    remove_consumer(storage, A)
    remove_consumer(storage, consumer(3))
    assert slowest(storage) == 20
    assert read_consumer(storage, A) == INVALID_LSN


# What a file says ---------------------------------------------------------------------------------


def test_a_consumers_file_has_its_subscription_and_its_target(storage):
    passed(storage, 0x300, consumer(7, "sync"))
    assert list_consumers(storage) == [
        ConsumerPosition(consumer(7, "sync").file, consumer(7, "sync"), LSN(0x300), "s", "sqlite:////srv/app.db")
    ]


def test_a_consumers_file_names_the_carrier_of_emulated_publications(storage):
    write_consumer(storage, consumer(), LSN(0x300), subscription="s", place="sqlite://", carrier="everything")
    assert [one.carrier for one in list_consumers(storage)] == ["everything"]


@pytest.mark.parametrize(
    ("file", "purpose"), [("consumer-a b.lsn", "apply"), ("consumer-a b (table sync).lsn", "sync")]
)
def test_a_file_of_an_earlier_version_counts_without_a_consumer(storage, file, purpose):
    (storage.folder / file).write_bytes(b"0/200")
    (found,) = list_consumers(storage)
    assert (found.consumer, found.subscription, found.purpose, found.lsn) == (None, "a b", purpose, 0x200)
    assert slowest(storage) == 0x200


@pytest.mark.parametrize(
    "content", [b"", b'{"lsn": "0/2', b'{"lsn": 7, "subscription": "s", "place": ""}', b"\xff", b"zz"]
)
def test_a_file_that_a_crash_has_damaged_keeps_everything(storage, content):
    """It is not synced, so a power failure may leave it empty. Its name still has the consumer."""
    passed(storage, 0x300, A)
    (storage.folder / B.file).write_bytes(content)
    assert [(one.consumer, one.lsn) for one in list_consumers(storage)] == [(A, 0x300), (B, INVALID_LSN)]
    assert slowest(storage) == INVALID_LSN
