"""Frames pass from an executor to the driver in files, which nobody leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from subscriber.pipeline.frame_files import leave_frame, remove_frames, take_frame


@pytest.mark.parametrize("frame", [b"x", bytes(range(256)) * 10_000])
def test_a_frame_is_taken_as_it_was_left_and_its_file_is_removed(tmp_path, frame):
    path = leave_frame(tmp_path, frame)
    assert path is not None
    taken = take_frame(path)
    assert list(tmp_path.iterdir()) == []
    assert bytes(taken) == frame


def test_every_frame_has_a_file_of_its_own(tmp_path):
    paths = [leave_frame(tmp_path, b"%d" % number) for number in range(10)]
    assert [bytes(take_frame(path)) for path in paths if path] == [b"%d" % number for number in range(10)]


def test_a_frame_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    """The disk is full."""

    def full(path: Path, frame: bytes) -> None:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert leave_frame(tmp_path, b"x") is None
    assert list(tmp_path.iterdir()) == []


def test_frames_that_nobody_has_taken_are_removed(tmp_path):
    leave_frame(tmp_path, b"x")
    leave_frame(tmp_path, b"y")
    remove_frames(tmp_path)
    assert list(tmp_path.iterdir()) == []
