"""The control file: the publisher and slot of a journal, and positions that never move back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from subscriber.base.errors import JournalCorrupt, JournalGap
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.stream.journal.control import CONTROL_FILE, JournalControl, check_identity, read_control, write_control
from subscriber.stream.journal.storage import LocalStorage

CONTROL = JournalControl(
    "7300",
    "s",
    begin=LSN(0x100),
    received=LSN(0x1_0000_0300),
    end=LSN(0x200),
    timeline=3,
    publications=("p", "q"),
    published_from=LSN(0x180),
)


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path / "journal")


def test_a_control_file_is_read_back(storage):
    write_control(storage, CONTROL)
    assert read_control(storage) == CONTROL


def test_without_a_control_file_there_is_no_journal(storage):
    assert read_control(storage) is None


def test_a_control_file_is_replaced_without_a_temporary_file_left(storage):
    write_control(storage, CONTROL)
    write_control(storage, CONTROL.moved(begin=LSN(0x200)))
    assert [name for name, _ in storage.names()] == [CONTROL_FILE]
    assert read_control(storage) == CONTROL.moved(begin=LSN(0x200))


def test_positions_are_stored_as_text(storage):
    write_control(storage, CONTROL)
    fields = json.loads(storage.read(CONTROL_FILE))
    assert fields == {
        "format": 3, "system_identifier": "7300", "slot": "s", "begin": "0/100", "received": "1/300", "end": "0/200",
        "timeline": 3, "publications": ["p", "q"], "published_from": "0/180",
    }  # fmt: skip


@pytest.mark.parametrize(("more", "timeline"), [({"format": 1}, 0), ({"format": 2, "timeline": 3}, 3)])
def test_a_file_of_an_earlier_format_does_not_say_which_publications_were_received(storage, more, timeline):
    positions = {"begin": "0/100", "received": "1/300", "end": "0/200"}
    content = {"system_identifier": "7300", "slot": "s", **positions, **more}
    storage.replace(CONTROL_FILE, json.dumps(content).encode(), durable=True)
    assert read_control(storage) == replace(CONTROL, timeline=timeline, publications=(), published_from=INVALID_LSN)


@pytest.mark.parametrize("lower", [0, 0x80])
def test_a_position_never_moves_back(lower):
    assert CONTROL.moved(begin=LSN(lower), received=LSN(lower), end=LSN(lower)) == CONTROL


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"format": 1}',
        b'{"format": 1, "system_identifier": "1", "slot": "s", "begin": "0/1", "received": "0/1"}',
        b'{"format": 1, "system_identifier": "1", "slot": "s", "begin": "x", "received": "0/1", "end": "0/1"}',
        b'{"format": 1, "system_identifier": "1", "slot": "s", "begin": 7, "received": "0/1", "end": "0/1"}',
        b'{"format": 1, "slot": "s", "begin": "0/1", "received": "0/1", "end": "0/1"}',
    ],
)
def test_a_file_that_is_no_control_file_is_corrupt_and_never_a_new_journal(storage, content):
    storage.replace(CONTROL_FILE, content, durable=True)
    with pytest.raises(JournalCorrupt, match="is not a journal's control file"):
        read_control(storage)


def test_a_later_format_is_refused(storage):
    storage.replace(CONTROL_FILE, b'{"format": 4}', durable=True)
    with pytest.raises(JournalCorrupt, match="a format that this version does not know"):
        read_control(storage)


@pytest.mark.parametrize(("system", "slot"), [("7301", "s"), ("7300", "other")])
def test_a_journal_of_another_publisher_or_slot_is_refused_by_both_names(system, slot):
    with pytest.raises(JournalGap) as caught:
        check_identity(CONTROL, system_identifier=system, slot=slot, url="/j")
    for word in ('slot "s" of system 7300', f'slot "{slot}" of system {system}', "/j"):
        assert word in caught.value.message


def test_a_journal_of_the_same_publisher_and_slot_is_accepted():
    check_identity(CONTROL, system_identifier="7300", slot="s", url="/j")
