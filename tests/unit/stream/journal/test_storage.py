"""Storages: all do the same. Where journals are, and who may read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs as arrow_fs

from subscriber.base.errors import JournalUnavailable, UsageError
from subscriber.stream.journal.storage import (
    LocalStorage,
    RemoteStorage,
    journal_folders,
    journal_url,
    open_storage,
    open_to_others,
)
from tests.armed import armed

TABLE = pa.table({"a": [1, 2]})


@pytest.fixture(params=["local", "mock", "subtree"])
def storage(request, tmp_path):
    if request.param == "local":
        folder = tmp_path / "journal"
        folder.mkdir()
        return LocalStorage(folder)
    if request.param == "mock":
        filesystem, path = arrow_fs.FileSystem.from_uri("mock:///bucket/journal")
        return RemoteStorage("mock:///bucket/journal", filesystem, path)
    filesystem = arrow_fs.SubTreeFileSystem(str(tmp_path), arrow_fs.LocalFileSystem())
    return RemoteStorage("s3://bucket/journal", filesystem, "journal/")


def names(storage) -> set[str]:
    return {name for name, _ in storage.names()}


def test_an_empty_storage_has_no_names(storage):
    assert storage.names() == []


def test_a_file_of_arrow_is_created_published_and_read_back(storage):
    size = storage.create("x.tmp", TABLE)
    assert storage.names() == [("x.tmp", size)]
    storage.publish([("x.tmp", "x.arrow")])
    assert storage.names() == [("x.arrow", size)]
    with storage.open("x.arrow") as file:
        assert pa.ipc.open_file(file).read_all() == TABLE


def test_several_files_are_published_in_the_order_given(storage):
    for number in range(3):
        storage.create(f"{number}.tmp", TABLE)
    storage.publish([(f"{number}.tmp", f"{number}.arrow") for number in range(3)])
    assert names(storage) == {"0.arrow", "1.arrow", "2.arrow"}


def test_a_small_file_is_replaced_whole(storage):
    assert storage.read("small") is None
    for content in (b"first, longer", b"second"):
        storage.replace("small", content, durable=True)
        assert storage.read("small") == content
    assert names(storage) == {"small"}


def test_deleting_a_missing_file_is_no_error(storage):
    storage.create("x.tmp", TABLE)
    storage.delete(["gone", "x.tmp", "x.tmp"])
    assert storage.names() == []


def test_a_segment_that_is_gone_is_a_file_not_found(storage):
    with pytest.raises(FileNotFoundError):
        storage.open("gone.arrow")


@pytest.mark.parametrize("point", ["journal.sync.before", "journal.sync.after"])
def test_a_full_disk_is_a_transient_error_with_the_place(storage, point):
    with armed(f"{point}=enospc"), pytest.raises(JournalUnavailable) as caught:
        storage.create("x.tmp", TABLE)
    assert storage.url in caught.value.message
    assert "No space left on device" in caught.value.message
    assert (caught.value.transient, caught.value.sqlstate) == (True, "53100")
    assert caught.value.hint


def test_publishing_on_a_full_disk_publishes_nothing(storage):
    storage.create("x.tmp", TABLE)
    with armed("journal.rename.before=enospc"), pytest.raises(JournalUnavailable):
        storage.publish([("x.tmp", "x.arrow")])
    assert names(storage) == {"x.tmp"}


@pytest.mark.parametrize("url", ["/var/j", "file:///var/j"])
def test_a_path_and_a_file_url_are_local(url):
    storage = open_storage(url)
    assert isinstance(storage, LocalStorage)
    assert storage.folder == Path("/var/j")


def test_a_url_of_pyarrow_is_remote():
    assert isinstance(open_storage("mock:///bucket/x"), RemoteStorage)


@pytest.mark.parametrize("look", [open_storage, journal_folders])
def test_an_unknown_url_is_refused(look):
    with pytest.raises(UsageError, match='no file system for the journal URL "what://x"') as caught:
        look("what://x")
    assert caught.value.hint


def test_each_slot_has_its_folder():
    assert journal_url("s3://bucket/j/", "7301", "s1") == "s3://bucket/j/7301_s1"


def test_only_a_journal_that_others_may_read_is_reported(tmp_path):
    for name, folder_mode, file_mode in (("a", 0o755, 0o600), ("b", 0o700, 0o640), ("c", 0o700, 0o600)):
        LocalStorage(tmp_path / name).replace("journal.json", b"{}", durable=False)
        (tmp_path / name / "journal.json").chmod(file_mode)
        (tmp_path / name).chmod(folder_mode)
    (tmp_path / "no journal").mkdir(mode=0o755)
    assert open_to_others(str(tmp_path)) == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert open_to_others(f"file://{tmp_path}/b") == [f"{tmp_path}/b"]
    assert open_to_others("mock:///bucket") == []
    assert open_to_others(str(tmp_path / "nowhere")) == []
