"""Files that are replaced as a whole."""

from __future__ import annotations

import pytest

from subscriber.base.files import replace_file


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path, durable):
    file = tmp_path / "f"
    for content in (b"old", b"new"):
        replace_file(file, content, durable=durable)
        assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def test_a_new_file_is_readable_by_its_owner_only(tmp_path):
    replace_file(tmp_path / "f", b"")
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"theirs")
    (tmp_path / "f").symlink_to(tmp_path / "elsewhere")
    replace_file(tmp_path / "f", b"ours")
    assert (tmp_path / "elsewhere").read_bytes() == b"theirs"
    assert (tmp_path / "f").read_bytes() == b"ours"


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path):
    (tmp_path / "f").mkdir()
    with pytest.raises(OSError):
        replace_file(tmp_path / "f", b"new")
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]
