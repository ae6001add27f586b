"""Why a target's file cannot be opened."""

from __future__ import annotations

import os

import pytest

from subscriber.targets.place import hint_at, obstacle


def test_a_file_that_can_be_created_or_written_has_no_obstacle(tmp_path):
    assert obstacle(str(tmp_path / "t.db")) is None
    (tmp_path / "t.db").touch()
    assert obstacle(str(tmp_path / "t.db")) is None


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("missing/t.db", "There is no folder {}/missing."),
        ("file/t.db", "{}/file is not a folder."),
        ("folder", "{}/folder is a folder; a file is needed."),
    ],
)
def test_what_is_at_the_path_may_be_the_obstacle(tmp_path, path, sentence):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    assert obstacle(str(tmp_path / path)) == sentence.format(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write every file")
@pytest.mark.parametrize(
    ("place", "words"), [("t.db", "may not be read and written"), ("", "may make no files in the folder")]
)
def test_a_missing_permission_may_be_the_obstacle(tmp_path, place, words):
    (tmp_path / "t.db").touch()
    denied = tmp_path / place
    denied.chmod(0o400 if place else 0o500)
    found = obstacle(str(tmp_path / "t.db"))
    denied.chmod(0o700)
    assert words in str(found)


def test_a_hint_says_how_a_path_is_written_in_the_url():
    assert hint_at("There is no folder /x.", "sqlite") == (
        "There is no folder /x. Correct that, or the target URL: sqlite:////absolute/path or sqlite:///relative/path."
    )
