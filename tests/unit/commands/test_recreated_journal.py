"""Which journals are removed when a slot is recreated."""

from __future__ import annotations

import pytest

from subscriber.base.lsn import LSN
from subscriber.commands.recreate_slot import _hinders
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import transaction
from tests.journals import T, insert, publish, writing


@pytest.mark.parametrize(
    ("received_on", "begin", "timeline", "hinders"),
    [
        (1, 0x400, 1, False),
        (1, 0x300, 1, True),
        (1, 0x400, 2, True),
        (0, 0x400, 2, False),
    ],
    ids=["ends before", "ends after", "of the timeline before a failover", "of an unknown timeline"],
)
def test_a_journal_that_a_receiver_would_refuse_hinders(tmp_path, received_on, begin, timeline, hinders):
    """slot_after_disk"""
    with writing(tmp_path) as journal:
        publish(journal, 0x300, transaction(0x300, T, insert(1)))
        journal.receive_on(received_on, ["p"])
    assert _hinders(LocalStorage(tmp_path), LSN(begin), timeline) is hinders


def test_no_journal_hinders_nobody(tmp_path):
    assert not _hinders(LocalStorage(tmp_path / "journal"), LSN(0x100), 2)
