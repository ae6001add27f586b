from __future__ import annotations

from subscriber.base.lsn import LSN
from subscriber.stream.journal.control import read_control, write_control
from subscriber.stream.journal.positions import journal_positions, watched_positions
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import transaction
from tests.journals import BEGIN, T, insert, publish, writing


def test_no_journal_has_no_positions(tmp_path):
    assert journal_positions(str(tmp_path)) == (0, 0)


def test_an_empty_journal_has_received_up_to_its_begin(tmp_path):
    with writing(tmp_path):
        pass
    assert journal_positions(str(tmp_path)) == (BEGIN, BEGIN)


def test_the_last_entry_is_received(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
    assert journal_positions(str(tmp_path)) == (0x200, 0x200)


def test_an_idle_position_lies_beyond_the_last_entry(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
    storage = LocalStorage(tmp_path)
    control = read_control(storage)
    assert control is not None
    write_control(storage, control.moved(received=LSN(0x300)))
    assert journal_positions(str(tmp_path)) == (0x300, 0x200)


def test_watched_positions_of_a_local_journal_are_current(tmp_path):
    watched = watched_positions(str(tmp_path))
    assert watched.get() == (0, 0)
    with writing(tmp_path):
        pass
    assert watched.get() == (BEGIN, BEGIN)
