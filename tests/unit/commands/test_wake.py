"""A command changes the time of the folder of the journals, which a run looks at."""

from __future__ import annotations

import os

import pytest

from subscriber.base.settings import Settings
from subscriber.commands.wake import wake_run, watched_folder


def test_a_command_changes_the_time_of_the_folder_and_leaves_nothing_in_it(tmp_path):
    settings = Settings(str(tmp_path))
    assert watched_folder(settings) == tmp_path
    os.utime(tmp_path, (1, 1))
    wake_run(settings)
    assert tmp_path.stat().st_mtime > 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("journal", ["", "s3://bucket/journal"])
def test_a_remote_journal_has_no_such_folder(journal):
    assert watched_folder(Settings(journal)) is None
    wake_run(Settings(journal))


def test_without_a_folder_of_journals_nobody_is_woken(tmp_path):
    wake_run(Settings(str(tmp_path / "missing")))
    assert list(tmp_path.iterdir()) == []
