"""The file of a slot: what is kept, and what is refused."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.stream.journal.control import JournalControl
from subscriber.stream.replay_journal import read_slot, write_slot

CONTROL = JournalControl("1", "s", LSN(0x100), LSN(0x100), LSN(0x100))


def test_a_slot_is_read_as_it_was_written(tmp_path):
    file = tmp_path / "slot"
    slot = read_slot(file, CONTROL, "test_decoding")
    assert (slot.name, slot.plugin, slot.two_phase, slot.confirmed_flush) == ("s", "test_decoding", True, 0)
    slot.confirmed_flush = 0x1_0000_0200
    write_slot(file, CONTROL, slot)
    assert read_slot(file, CONTROL, "test_decoding") == slot
    assert [path.name for path in tmp_path.iterdir()] == ["slot"]


def test_without_a_file_the_slot_is_new():
    assert read_slot(None, CONTROL, "pgoutput").confirmed_flush == 0


@pytest.mark.parametrize(
    "content", ["", "[]", "5", "{}", '{"format": 2}', '{"format": 1, "confirmed_flush": "x"}', "\0", '{"format": 1, "confirmed_flush": "0/1"}']
)  # fmt: skip
def test_any_other_file_is_refused_and_kept(tmp_path, content):
    file = tmp_path / "notes"
    file.write_text(content)
    with pytest.raises(UsageError, match="is not a file of a slot"):
        read_slot(file, CONTROL, "test_decoding")
    assert file.read_text() == content


@pytest.mark.parametrize(
    ("control", "plugin"),
    [
        (JournalControl("2", "s", LSN(0), LSN(0), LSN(0)), "test_decoding"),
        (JournalControl("1", "t", LSN(0), LSN(0), LSN(0)), "test_decoding"),
        (CONTROL, "pgoutput"),
    ],
)
def test_the_file_of_another_journal_or_plugin_is_refused(tmp_path, control, plugin):
    file = tmp_path / "slot"
    write_slot(file, CONTROL, read_slot(None, CONTROL, "test_decoding"))
    with pytest.raises(UsageError) as caught:
        read_slot(file, control, plugin)
    assert caught.value.sqlstate == "55000"
    assert 'belongs to plugin "test_decoding" and the journal of slot "s" of system 1' in caught.value.message


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(UsageError, match="could not write file"):
        write_slot(tmp_path / "none" / "slot", CONTROL, read_slot(None, CONTROL, "test_decoding"))
