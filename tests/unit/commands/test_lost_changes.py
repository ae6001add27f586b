"""Whether a subscription can continue with its slot (slot_after_disk)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import SlotInUse
from subscriber.base.lsn import LSN
from subscriber.commands.lost_changes import lost_changes
from subscriber.publisher.client import Slot
from subscriber.publisher.history import Server
from subscriber.stream.journal.control import CONTROL_FILE, read_control
from subscriber.stream.journal.segment import journal_entries
from subscriber.stream.journal.storage import open_storage
from tests.frames import transaction
from tests.journals import T, insert, publish, writing
from tests.streams import SLOT, SYSTEM

WELL = Slot(SLOT, "pgoutput", "shop", None, LSN(0x300), two_phase=False, lost=None)
SERVER = Server(SYSTEM, timeline=1, flushed=LSN(0x900), is_standby=False)


@pytest.fixture
def storage(tmp_path):
    """A journal with transactions that end at 200, 300 and 400."""
    storage = open_storage(f"{tmp_path}/{SYSTEM}_{SLOT}")
    with writing(storage) as journal:
        for number in (2, 3, 4):
            publish(journal, number * 0x100, transaction(number * 0x100, T, insert(number)))
    return storage


def found(storage, slot: Slot | None = WELL, server: Server = SERVER, applied: int = 0x200) -> str | None:
    return lost_changes(storage, slot, server, LSN(applied), SLOT)


def test_nothing_is_lost_where_slot_journal_and_target_agree(storage):
    before = read_control(storage), len(journal_entries(storage))
    assert found(storage) is None
    assert (read_control(storage), len(journal_entries(storage))) == before


def test_a_missing_slot_is_a_loss(storage):
    assert found(storage, None) == f'replication slot "{SLOT}" does not exist'


def test_an_invalidated_slot_is_a_loss(storage):
    assert 'invalidated due to "wal_removed"' in str(found(storage, replace(WELL, lost="wal_removed")))


def test_a_slot_that_was_confirmed_beyond_the_journal_is_a_loss(storage):
    assert "the slot was confirmed up to 0/500" in str(found(storage, replace(WELL, confirmed_flush_lsn=LSN(0x500))))


def test_a_target_that_is_older_than_the_journal_is_a_loss(tmp_path):
    storage = open_storage(f"{tmp_path}/{SYSTEM}_{SLOT}")
    with writing(storage, applied=0x200) as journal:
        publish(journal, 0x300, transaction(0x300, T, insert(1)))
    assert "but the journal begins at 0/200" in str(found(storage, applied=0x100))
    assert found(storage, applied=0x200) is None


def test_a_missing_segment_is_a_loss(storage):
    second = journal_entries(storage)[1]
    storage.delete([segment.name for segment in second.segments])
    assert "the journal has no changes between 0/200 and 0/300" in str(found(storage))


def test_a_damaged_segment_is_a_loss(storage, tmp_path):
    (segment,) = journal_entries(storage)[2].segments
    file = tmp_path / f"{SYSTEM}_{SLOT}" / segment.name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    assert found(storage) is not None
    assert found(storage, applied=0x400) is None  # it is not needed any more


def test_a_damaged_control_file_is_a_loss(storage, tmp_path):
    (tmp_path / f"{SYSTEM}_{SLOT}" / CONTROL_FILE).write_text("{")
    assert "is not a journal's control file" in str(found(storage))


def test_a_history_that_differs_is_a_loss(storage):
    assert "the publisher's WAL ends at 0/350" in str(found(storage, server=replace(SERVER, flushed=LSN(0x350))))


def test_without_a_journal_only_what_the_target_has_applied_proves_that_nothing_is_lost(tmp_path):
    storage = open_storage(f"{tmp_path}/{SYSTEM}_{SLOT}")
    assert "there is no journal here with the changes after 0/200" in str(found(storage))
    assert found(storage, applied=0x300) is None
    assert not (tmp_path / f"{SYSTEM}_{SLOT}").exists()


def test_a_journal_that_a_receiver_writes_is_left_alone(storage):
    with writing(storage), pytest.raises(SlotInUse):
        found(storage)
