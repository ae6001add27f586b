"""The prompt's history: no secret reaches its file (names_are_data), and nobody else reads it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from subscriber.cli.prompt_history import history_file, open_history


def test_the_file_belongs_to_its_owner_and_gets_no_password_while_the_prompt_recalls_what_was_typed(tmp_path):
    file = tmp_path / "state" / "sql_history"
    typed = "CREATE SUBSCRIPTION s\n  CONNECTION 'host=h password=hush'\n  PUBLICATION p;"
    history = open_history(file)
    history.append_string(typed)
    assert history.get_strings() == [typed]
    assert file.stat().st_mode & 0o777 == 0o600
    assert "hush" not in file.read_text()
    assert list(open_history(file).load_history_strings()) == [typed.replace(" password=hush", "")]


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path):
    file = tmp_path / "sql_history"
    file.touch(mode=0o644)
    open_history(file)
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_a_place_for_the_file_the_history_lasts_as_long_as_the_prompt(tmp_path):
    (tmp_path / "file").touch()
    history = open_history(tmp_path / "file" / "sql_history")
    history.append_string("SELECT 1;")
    assert history.get_strings() == ["SELECT 1;"]


def test_a_file_that_cannot_be_written_any_more_does_not_stop_the_prompt(tmp_path):
    file = tmp_path / "folder" / "sql_history"
    history = open_history(file)
    file.unlink()
    os.rmdir(file.parent)
    history.append_string("SELECT 1;")
    assert history.get_strings() == ["SELECT 1;"]


@pytest.mark.parametrize(
    ("environment", "platform", "place"),
    [
        ({"HOME": "/home/ann"}, "linux", "/home/ann/.local/state"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "/state"}, "linux", "/state"),
        ({"HOME": "/home/ann", "XDG_STATE_HOME": "relative"}, "linux", "/home/ann/.local/state"),
        ({"HOME": "/Users/ann", "XDG_STATE_HOME": "/state"}, "darwin", "/Users/ann/Library/Application Support"),
    ],
)
def test_the_file_is_in_the_users_state_folder(environment, platform, place):
    assert history_file(environment, platform) == Path(place) / "subscriber" / "sql_history"
