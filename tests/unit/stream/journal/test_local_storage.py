"""A local storage is durable, for its user only, and keeps a reserve for a full disk."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from subscriber.base.errors import JournalUnavailable
from subscriber.base.files import replace_file
from subscriber.stream.journal import storage as local_storage
from subscriber.stream.journal.storage import (
    RESERVE_BYTES,
    RESERVE_FILE,
    LocalStorage,
    is_out_of_space,
    open_to_others,
)
from tests.armed import armed

TABLE = pa.table({"a": [1, 2]})


def names(storage) -> set[str]:
    return {name for name, _ in storage.names()}


def test_a_local_file_that_could_not_be_written_is_removed(tmp_path):
    storage = LocalStorage(tmp_path)
    with armed("journal.sync.before=enospc"), pytest.raises(JournalUnavailable):
        storage.create("x.tmp", TABLE)
    assert storage.names() == []


def test_a_small_file_keeps_its_content_when_the_new_one_cannot_be_written(tmp_path, monkeypatch):
    storage = LocalStorage(tmp_path)
    storage.replace("small", b"old", durable=True)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(JournalUnavailable):
        storage.replace("small", b"new", durable=True)
    assert storage.read("small") == b"old"
    assert storage.names() == [("small", 3)]


def test_a_file_is_synced_before_it_gets_its_name_and_the_folder_after(tmp_path, monkeypatch):
    """Invariant slot_after_disk."""
    storage = LocalStorage(tmp_path)
    steps: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def synced(descriptor: int) -> None:
        steps.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).relative_to(tmp_path.parent)}")
        fsync(descriptor)

    def renamed(path: Path, to: Path) -> Path:
        steps.append(f"rename {path.name} {to.name}")
        return rename(path, to)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    folder = tmp_path.name
    storage.create("x.tmp", TABLE)
    storage.publish([("x.tmp", "x.arrow")])
    assert steps == [f"fsync {folder}/x.tmp", "rename x.tmp x.arrow", f"fsync {folder}"]


def test_one_writer_at_a_time_holds_a_local_journal(tmp_path):
    with LocalStorage(tmp_path).lock() as first, LocalStorage(tmp_path).lock() as second:
        assert (first, second) == (True, False)
    with LocalStorage(tmp_path).lock() as third:
        assert third


def test_the_lock_makes_the_folder(tmp_path):
    with LocalStorage(tmp_path / "a" / "b").lock() as locked:
        assert locked
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalUnavailable, match="could not write the journal"), LocalStorage(tmp_path / "file").lock():
        pass


def test_a_place_that_cannot_be_read_is_an_error(tmp_path):
    """A file is in the place of the folder. Listing journals is an error with a message."""
    (tmp_path / "file").write_text("")
    storage = LocalStorage(tmp_path / "file")
    for look in (
        storage.names,
        lambda: storage.read("journal.json"),
        lambda: LocalStorage(tmp_path / "file" / "s").change_token(),
    ):
        with pytest.raises(JournalUnavailable, match="could not read the journal at") as caught:
            look()
        assert "SUBSCRIBER_JOURNAL" in str(caught.value.hint)


def test_listing_skips_folders(tmp_path):
    (tmp_path / "sub").mkdir()
    assert LocalStorage(tmp_path).names() == []


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.iterdir()}


@pytest.mark.usefixtures("umask")
def test_a_journal_is_readable_by_its_owner_only_whatever_the_umask(tmp_path):
    """Like PostgreSQL's data directory, because it has the publisher's rows."""
    base = tmp_path / "data" / "journals"
    storage = LocalStorage(base / "7300_s")
    with storage.lock():
        storage.create("x.tmp", TABLE)
        storage.publish([("x.tmp", "x.arrow")])
        storage.replace("small", b"1", durable=True)
        storage.replace("small", b"2", durable=False)
        storage.make_reserve()
    assert names(storage) == {"journal.lock", "journal.reserve", "small", "x.arrow"}
    assert modes(storage.folder) == {0o600}
    assert {folder.stat().st_mode & 0o777 for folder in (storage.folder, base, tmp_path / "data")} == {0o700}
    assert open_to_others(str(base)) == []


def test_a_journal_that_an_earlier_version_made_keeps_working(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "journal.lock").write_text("")
    (tmp_path / "small").write_text("old")
    (tmp_path / "small").chmod(0o644)
    storage = LocalStorage(tmp_path)
    with storage.lock() as locked:
        assert locked
        storage.replace("small", b"new", durable=False)
    assert (tmp_path / "small").stat().st_mode & 0o777 == 0o600


class FullDisk:
    """A disk on which a small file can be written only when the reserve has freed 16 KB."""

    def __init__(self, storage: LocalStorage, monkeypatch) -> None:
        self.reserve = storage.folder / RESERVE_FILE
        monkeypatch.setattr(local_storage, "replace_file", partial(self._write, replace_file))

    def _write(self, write, path: Path, *arguments, **options):
        if self.reserve.stat().st_size > RESERVE_BYTES - 16 * 1024:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, *arguments, **options)


def test_a_small_file_uses_as_much_of_the_reserve_as_it_needs_when_the_disk_is_full(tmp_path, monkeypatch):
    storage = LocalStorage(tmp_path)
    storage.make_reserve()
    assert (tmp_path / RESERVE_FILE).stat().st_blocks * 512 >= RESERVE_BYTES
    disk = FullDisk(storage, monkeypatch)
    with pytest.raises(JournalUnavailable) as caught:
        storage.replace("copies", b"1", durable=False, from_reserve=False)
    assert is_out_of_space(caught.value)
    assert disk.reserve.stat().st_size == RESERVE_BYTES
    storage.replace("small", b"1", durable=True)
    assert storage.read("small") == b"1"
    assert disk.reserve.stat().st_size == RESERVE_BYTES - 16 * 1024
    storage.make_reserve()
    assert disk.reserve.stat().st_size == RESERVE_BYTES


def test_the_reserve_stays_where_a_small_file_fails_for_another_reason(tmp_path, monkeypatch):
    storage = LocalStorage(tmp_path)
    storage.make_reserve()

    def refused(_path, _content, *, durable):
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(local_storage, "replace_file", refused)
    with pytest.raises(JournalUnavailable) as caught:
        storage.replace("small", b"1", durable=True)
    assert not is_out_of_space(caught.value)
    assert names(storage) == {RESERVE_FILE}


def test_a_reserve_that_is_too_short_is_filled_up(tmp_path):
    (tmp_path / RESERVE_FILE).write_bytes(b"x")
    LocalStorage(tmp_path).make_reserve()
    assert (tmp_path / RESERVE_FILE).stat().st_size == RESERVE_BYTES
