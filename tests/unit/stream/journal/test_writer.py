"""The writer: it keeps the chain without gaps, removes the files of a crash, and refuses a journal
with missing entries.
"""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest

from subscriber.base.errors import JournalGap, JournalUnavailable, ProtocolError, SlotInUse
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.stream.journal.control import CONTROL_FILE, read_control
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.retention import list_consumers
from subscriber.stream.journal.segment import journal_entries
from subscriber.stream.journal.storage import LocalStorage, RemoteStorage, open_storage
from tests.armed import armed
from tests.frames import transaction
from tests.journals import (
    T,
    commit_prepared,
    consumer,
    filled,
    insert,
    keys_of,
    passed,
    prepare,
    publish,
    rollback_prepared,
    segment_files,
    three_transactions,
    writing,
)
from tests.waits import wait_until


def ends(folder) -> list[int]:
    return [entry.end for entry in journal_entries(LocalStorage(folder))]


def temporary(folder) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]


def consumed(folder, lsn: int, subid: int = 1) -> None:
    passed(LocalStorage(folder), lsn, consumer(subid))


# Opening ------------------------------------------------------------------------------------------


def test_a_new_journal_begins_at_the_target_s_position(tmp_path):
    with writing(tmp_path, applied=0x150) as journal:
        assert (journal.control.begin, journal.durable_lsn, journal.end) == (0x150, 0x150, 0x150)
    assert read_control(LocalStorage(tmp_path)) == journal.control


def test_a_second_writer_is_refused(tmp_path):
    with writing(tmp_path), pytest.raises(SlotInUse) as caught, writing(tmp_path):
        pass
    assert str(tmp_path) in caught.value.message
    assert caught.value.transient


def test_entries_form_a_chain_over_restarts(tmp_path):
    for number in (1, 2, 3):
        with writing(tmp_path) as journal:
            publish(journal, 0x100 * (number + 1), transaction(0x100 * (number + 1), T, insert(number)))
    assert [(entry.begin, entry.end) for entry in journal_entries(LocalStorage(tmp_path))] == [
        (0x100, 0x200), (0x200, 0x300), (0x300, 0x400),
    ]  # fmt: skip
    assert keys_of(tmp_path) == [1, 2, 3]


def test_a_lost_journal_is_refused_with_both_lsns(tmp_path):
    """Invariant slot_after_disk: the slot is confirmed further than the journal ends."""
    with pytest.raises(JournalGap) as caught, writing(tmp_path, confirmed=0x300, applied=0x200):
        pass
    assert caught.value.message == "the slot was confirmed up to 0/300, but the journal ends at 0/200"
    assert (caught.value.lsn, caught.value.transient) == (0x200, False)
    assert caught.value.hint
    assert not (tmp_path / CONTROL_FILE).exists()


def test_a_lost_last_segment_is_refused(tmp_path):
    three_transactions(tmp_path)
    segment_files(tmp_path)[-1].unlink()
    with (
        pytest.raises(JournalGap, match="confirmed up to 0/400, but the journal ends at 0/300"),
        writing(tmp_path, confirmed=0x400),
    ):
        pass


def test_a_lost_last_segment_is_refused_where_the_slot_is_confirmed_further(tmp_path):
    """The received position is after the segment, and would hide that it is missing."""
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        journal.advance(LSN(0x900))
    segment_files(tmp_path)[-1].unlink()
    with (
        pytest.raises(JournalGap, match="held changes up to 0/400, but now ends at 0/300"),
        writing(tmp_path, confirmed=0x900),
    ):
        pass


def test_a_lost_segment_that_the_target_has_applied_does_not_matter(tmp_path):
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        journal.advance(LSN(0x900))
    segment_files(tmp_path)[-1].unlink()
    with writing(tmp_path, confirmed=0x900, applied=0x400) as journal:
        publish(journal, 0xA00, transaction(0xA00, T, insert(9)))
    assert keys_of(tmp_path, 0x400) == [9]


def test_a_segment_that_was_never_confirmed_may_be_lost(tmp_path):
    """The publisher sends it again."""
    three_transactions(tmp_path)
    segment_files(tmp_path)[-1].unlink()
    with writing(tmp_path, confirmed=0x300) as journal:
        assert journal.durable_lsn == 0x300
        publish(journal, 0x400, transaction(0x400, T, insert(3)))
    assert keys_of(tmp_path) == [1, 2, 3]


def test_a_restored_target_is_refused_with_both_lsns(tmp_path):
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        consumed(tmp_path, 0x300)
        journal.trim()
    with pytest.raises(JournalGap) as caught, writing(tmp_path, confirmed=0x400, applied=0x200):
        pass
    assert caught.value.message == "the target has applied changes up to 0/200, but the journal begins at 0/300"
    assert caught.value.lsn == 0x200


@pytest.mark.parametrize(("system", "slot"), [("7301", "s"), ("7300000000000000001", "other")])
def test_a_journal_of_another_publisher_or_slot_is_not_written_to(tmp_path, system, slot):
    three_transactions(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(JournalGap, match="belongs to slot"), writing(tmp_path, system=system, slot=slot):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_journal_of_a_dropped_subscription_begins_again(tmp_path):
    """The initial copy has the earlier changes, and the slot has the later ones."""
    three_transactions(tmp_path)
    with writing(tmp_path, confirmed=0x900, applied=0x900) as journal:
        assert (journal.control.begin, journal.durable_lsn) == (0x900, 0x900)
        publish(journal, 0xA00, transaction(0xA00, T, insert(9)))
    assert ends(tmp_path) == [0xA00]
    assert keys_of(tmp_path, 0x900) == [9]


def test_a_journal_is_kept_where_the_target_is_not_ahead_of_it(tmp_path):
    """The slot was confirmed less than the journal has."""
    three_transactions(tmp_path)
    with writing(tmp_path, confirmed=0x300, applied=0x300):
        pass
    assert ends(tmp_path) == [0x200, 0x300, 0x400]


# Cleaning up --------------------------------------------------------------------------------------


def test_the_next_writer_removes_the_temporary_files_of_a_crash(tmp_path):
    three_transactions(tmp_path)
    (tmp_path / "spool-1-1.tmp").write_bytes(b"half")
    (tmp_path / "journal.json.77.tmp").write_bytes(b"half")
    with writing(tmp_path):
        assert temporary(tmp_path) == []
    assert keys_of(tmp_path) == [1, 2, 3]


def test_an_entry_without_all_of_its_parts_is_invisible_and_removed_by_the_next_writer(tmp_path):
    """A crash between two renames: the transaction comes again."""
    begin, *changes, commit = transaction(0x200, T, insert(1), insert(2), xid=7)
    parts = [[begin, *changes[:2]], [changes[2], commit]]
    with writing(tmp_path) as journal:
        publish(journal, 0x200, *parts, xid=7)
    segment_files(tmp_path)[1].unlink()
    assert keys_of(tmp_path) == []
    with writing(tmp_path) as journal:
        assert journal.durable_lsn == 0x100
        assert not list(tmp_path.glob("*.arrow"))
        publish(journal, 0x200, *parts, xid=7)
    assert keys_of(tmp_path) == [1, 2]


# Publishing ---------------------------------------------------------------------------------------


def test_an_entry_that_exists_is_not_written_again(tmp_path):
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        for end in (0x200, 0x400):
            publish(journal, end, transaction(end, T, insert(99)))
        assert journal.end == 0x400
        assert temporary(tmp_path) == []
    assert keys_of(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("point", ["journal.sync.before", "journal.sync.after", "journal.rename.before"])
def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path, point):
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        with armed(f"{point}=enospc"), pytest.raises(JournalUnavailable):
            publish(journal, 0x500, transaction(0x500, T, insert(4)))
        assert (journal.end, journal.durable_lsn) == (0x400, 0x400)
        assert keys_of(tmp_path) == [1, 2, 3]
    with writing(tmp_path) as journal:
        publish(journal, 0x500, transaction(0x500, T, insert(4)))
        assert temporary(tmp_path) == []
    assert keys_of(tmp_path) == [1, 2, 3, 4]


def test_a_message_that_does_not_decode_leaves_the_journal_as_it_was(tmp_path):
    with writing(tmp_path) as journal:
        builder = filled(journal, [transaction(0x200, insert(1))])
        with pytest.raises(ProtocolError, match="no relation map entry"):
            journal.publish(builder, LSN(0x200), kind="t", xid=0, finish=b"C")
        assert journal.durable_lsn == 0x100
    assert ends(tmp_path) == []


def test_an_idle_position_is_durable_at_once_and_never_moves_back(tmp_path):
    with writing(tmp_path) as journal:
        journal.advance(LSN(0x500))
        journal.advance(LSN(0x400))
        assert journal.durable_lsn == 0x500
        assert JournalReader(LocalStorage(tmp_path)).control().received == 0x500


def test_the_control_file_is_written_only_when_it_changes(tmp_path):
    with writing(tmp_path) as journal:
        journal.advance(LSN(0x500))
        before = (tmp_path / CONTROL_FILE).stat().st_ino
        journal.advance(LSN(0x500))
        assert (tmp_path / CONTROL_FILE).stat().st_ino == before


def test_an_entry_after_an_idle_time_continues_the_chain(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        journal.advance(LSN(0x800))
        publish(journal, 0x900, transaction(0x900, T, insert(2)))
    assert [(entry.begin, entry.end) for entry in journal_entries(LocalStorage(tmp_path))] == [
        (0x100, 0x200), (0x200, 0x900),
    ]  # fmt: skip


# Trimming -----------------------------------------------------------------------------------------


def test_trimming_follows_the_slowest_consumer(tmp_path):
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        journal.trim()
        assert len(ends(tmp_path)) == 3
        consumed(tmp_path, 0x400, 1)
        consumed(tmp_path, 0x280, 2)
        journal.trim()
        assert journal.applied() == 0x280
        assert ends(tmp_path) == [0x300, 0x400]
        assert journal.control.begin == 0x200
    assert keys_of(tmp_path, 0x280) == [2, 3]


def test_a_consumer_that_appears_between_two_trims_keeps_what_it_needs(tmp_path):
    """The consumers are listed before entries are removed."""
    three_transactions(tmp_path)
    consumed(tmp_path, 0x280, 1)
    with writing(tmp_path) as journal:
        journal.trim()
        consumed(tmp_path, 0x400, 1)
        consumed(tmp_path, 0x300, 2)
        wait_until(lambda: journal.applied() == 0x400)
        journal.trim()
        assert journal.applied() == 0x300
        assert ends(tmp_path) == [0x400]


def test_the_consumers_position_is_read_without_listing_the_folder(tmp_path, monkeypatch):
    """The receiver's loop asks for it each time, and the folder may have thousands of segments."""
    consumed(tmp_path, 0x200)
    with writing(tmp_path) as journal:
        monkeypatch.setattr(LocalStorage, "names", lambda self, known=(): pytest.fail("the folder was listed"))
        assert journal.applied() == 0x200
        consumed(tmp_path, 0x300)
        wait_until(lambda: journal.applied() == 0x300)  # it may be some milliseconds old


def test_a_folder_with_many_entries_is_listed_only_before_a_good_part_of_them_is_removed(tmp_path, monkeypatch):
    with writing(tmp_path) as journal:
        for number in range(1, 131):
            publish(journal, 0x100 + 0x100 * number, transaction(0x100 + 0x100 * number, T, insert(number)))
    consumed(tmp_path, 0x100)
    listings = []
    names = LocalStorage.names

    def listed(self, known=()):
        listings.append(self.url)
        return names(self, known or {})

    with writing(tmp_path) as journal:
        monkeypatch.setattr(LocalStorage, "names", listed)
        journal.trim()
        consumed(tmp_path, 0x300)
        journal.trim()
        assert listings == []
        consumed(tmp_path, 0x400)
        journal.trim()
        assert len(listings) == 1
        assert ends(tmp_path)[0] == 0x500


def test_a_removed_consumer_keeps_nothing(tmp_path):
    three_transactions(tmp_path)
    consumed(tmp_path, 0x400, 1)
    consumed(tmp_path, 0x200, 2)
    with writing(tmp_path) as journal:
        (tmp_path / consumer(2).file).unlink()
        journal.trim()
        assert (journal.applied(), ends(tmp_path)) == (0x400, [])


def test_a_trimmed_journal_continues(tmp_path):
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        consumed(tmp_path, 0x400)
        journal.trim()
        assert ends(tmp_path) == []
    with writing(tmp_path, confirmed=0x400, applied=0x400) as journal:
        publish(journal, 0x500, transaction(0x500, T, insert(4)))
    assert keys_of(tmp_path, 0x400) == [4]


@pytest.mark.parametrize("verdict", [commit_prepared, rollback_prepared])
def test_a_prepared_transaction_stays_longer_than_later_entries(tmp_path, verdict):
    """Its changes are read at COMMIT PREPARED, which may be much later."""
    with writing(tmp_path) as journal:
        publish(journal, 0x200, prepare(0x200, T, insert(1), xid=7), kind="p", xid=7)
        publish(journal, 0x300, transaction(0x300, T, insert(2)))
        consumed(tmp_path, 0x300)
        journal.trim()
        assert ends(tmp_path) == [0x200]
    with writing(tmp_path, confirmed=0x300, applied=0x300) as journal:
        message = verdict(0x400, xid=7)
        publish(journal, 0x400, message, kind="k" if verdict is commit_prepared else "r", xid=7)
        assert keys_of(tmp_path, 0x300) == ([1] if verdict is commit_prepared else [])
        consumed(tmp_path, 0x400)
        journal.trim()
    assert ends(tmp_path) == []


def cannot_delete(path: Path, missing_ok: bool = False) -> None:
    raise OSError(errno.EIO, f"{path} cannot be deleted")


def test_the_new_beginning_is_durable_before_files_are_removed(tmp_path, monkeypatch):
    """A crash in between leaves old files, and a reader finds no gap."""
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        consumed(tmp_path, 0x300)
        monkeypatch.setattr(Path, "unlink", cannot_delete)
        with pytest.raises(JournalUnavailable):
            journal.trim()
        monkeypatch.undo()
        control = read_control(LocalStorage(tmp_path))
        assert control is not None
        assert control.begin == 0x300
        assert len(ends(tmp_path)) == 3
        assert keys_of(tmp_path, 0x300) == [3]
        journal.trim()
        assert ends(tmp_path) == [0x400]


# Remote -------------------------------------------------------------------------------------------


def test_an_object_store_holds_a_journal_as_a_disk_does():
    storage = open_storage("mock:///bucket/7300_s")
    assert isinstance(storage, RemoteStorage)
    begin, *changes, commit = transaction(0x300, T, insert(2), insert(3), xid=7)
    with writing(storage) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        publish(journal, 0x300, [begin, *changes[:2]], [changes[2], commit], xid=7)
        publish(journal, 0x400, prepare(0x400, T, insert(4), xid=8), kind="p", xid=8)
        publish(journal, 0x500, commit_prepared(0x500, xid=8), kind="k", xid=8)
        journal.advance(LSN(0x600))
    assert keys_of(storage) == [1, 2, 3, 4]
    with writing(storage, confirmed=0x600, applied=0x300) as journal:
        assert journal.durable_lsn == 0x600
        passed(storage, 0x300)
        journal.trim()
    assert keys_of(storage, 0x300) == [4]
    assert json.loads(storage.read(CONTROL_FILE) or b"")["begin"] == "0/300"


def test_a_lost_object_is_refused_too():
    storage = open_storage("mock:///bucket/7300_s")
    with writing(storage) as journal:
        for end in (0x200, 0x300, 0x400):
            publish(journal, end, transaction(end, T, insert(end)))
    storage.delete([journal_entries(storage)[1].segments[0].name])
    with pytest.raises(JournalGap, match="between 0/200 and 0/300"):
        JournalReader(storage).latest(LSN(0x100))


def test_a_message_between_transactions_is_an_entry(tmp_path):
    """Rule A25."""
    with writing(tmp_path) as journal:
        publish(journal, 0x180, [m.LogicalMessage(False, LSN(0x180), "p", b"x")])
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
    assert ends(tmp_path) == [0x180, 0x200]


def test_a_journal_that_begins_again_forgets_its_consumers(tmp_path):
    """They would prevent trimming for ever, because the entries that they need do not exist."""
    three_transactions(tmp_path)
    storage = LocalStorage(tmp_path)
    passed(storage, 0x300, consumer(1))
    passed(storage, 0x280, consumer(1, "sync"))
    (tmp_path / "consumer-old.lsn").write_text("0/200")
    passed(storage, 0x500, consumer(2))
    with writing(tmp_path, confirmed=0x500, applied=0x500) as journal:
        assert [one.consumer for one in list_consumers(storage)] == [consumer(2)]
        publish(journal, 0x600, transaction(0x600, T, insert(6)))
        consumed(tmp_path, 0x600, 2)
        journal.trim()
    assert ends(tmp_path) == []


# A folder that was copied to another machine ------------------------------------------------------


@pytest.fixture
def copied(tmp_path):
    """A journal of three transactions and a copy of its folder; the original has received one more
    since.
    """
    original, copy = tmp_path / "original", tmp_path / "copy"
    three_transactions(original)
    shutil.copytree(original, copy)
    with writing(original, confirmed=0x400) as journal:
        publish(journal, 0x500, transaction(0x500, T, insert(5)))
    return original, copy


def test_a_copied_journal_that_the_slot_has_passed_is_refused(copied):
    """The original has received and confirmed changes that the copy would skip."""
    _, copy = copied
    with (
        pytest.raises(JournalGap, match="confirmed up to 0/500, but the journal ends at 0/400"),
        writing(copy, confirmed=0x500, applied=0x300),
    ):
        pass
    assert ends(copy) == [0x200, 0x300, 0x400]


def test_a_copied_journal_continues_where_the_slot_has_not_moved(copied):
    _, copy = copied
    with writing(copy, confirmed=0x400, applied=0x300) as journal:
        publish(journal, 0x500, transaction(0x500, T, insert(5)))
    assert ends(copy) == [0x200, 0x300, 0x400, 0x500]


def test_a_copied_journal_begins_again_where_the_target_has_applied_everything_confirmed(copied):
    """The original is refused when it is used again after the copy."""
    original, copy = copied
    with writing(copy, confirmed=0x500, applied=0x500) as journal:
        assert journal.durable_lsn == 0x500
        publish(journal, 0x600, transaction(0x600, T, insert(6)))
    assert ends(copy) == [0x600]
    with (
        pytest.raises(JournalGap, match="confirmed up to 0/600, but the journal ends at 0/500"),
        writing(original, confirmed=0x600, applied=0x500),
    ):
        pass


def test_each_entry_is_told_of_when_readers_see_it(tmp_path):
    with writing(tmp_path) as journal:
        seen: list[list[int]] = []
        journal.on_entry = lambda: seen.append(ends(tmp_path))
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        publish(journal, 0x300, transaction(0x300, T, insert(2)))
    assert seen == [[0x200], [0x200, 0x300]], "what the publisher has sent again is not another entry"
