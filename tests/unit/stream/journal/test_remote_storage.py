"""An object store. What it does as a local storage does is in test_storage.py."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from subscriber.base.errors import SlotInUse, UsageError
from subscriber.stream.journal.storage import RemoteStorage, filesystem, open_storage

TABLE = pa.table({"a": [1, 2]})


def test_an_object_store_needs_no_lock():
    storage = open_storage("mock:///bucket")
    with storage.lock() as locked:
        assert locked


def test_a_small_object_needs_no_reserve():
    storage = open_storage("mock:///bucket/j")
    storage.make_reserve()
    assert storage.names() == []
    storage.replace("small", b"1", durable=True, from_reserve=False)
    assert storage.names() == [("small", 1)]
    assert storage.change_token() is None


def test_a_url_has_a_file_system_and_a_path():
    _, path = filesystem("mock:///bucket/journals")
    assert path == "bucket/journals"
    with pytest.raises(UsageError, match='no file system for the journal URL "what://x"'):
        filesystem("what://x")


def test_a_writer_that_was_taken_over_from_changes_nothing(tmp_path):
    """Its process was stopped for a while, and woke up when another receiver had the slot."""
    files = LocalFileSystem()
    late, successor = (RemoteStorage("s3://bucket/j", files, str(tmp_path)) for _ in range(2))
    with late.lock():
        size = late.create("a.tmp", TABLE)
        late.publish([("a.tmp", "a.arrow")])
        late.create("b.tmp", TABLE)
        with successor.lock():
            successor.replace("journal.json", b"newer", durable=True)
            for change in (
                lambda: late.publish([("b.tmp", "b.arrow")]),
                lambda: late.replace("journal.json", b"older", durable=True),
                lambda: late.delete(["a.arrow"]),
            ):
                with pytest.raises(SlotInUse, match="another receiver writes the journal"):
                    change()
            assert successor.read("journal.json") == b"newer"
            assert ("a.arrow", size) in successor.names()
            assert "b.arrow" not in dict(successor.names())
    with late.lock():
        late.publish([("b.tmp", "b.arrow")])


def test_a_consumer_is_no_writer_and_needs_no_lock(tmp_path):
    consumer, writer = (RemoteStorage("s3://bucket/j", LocalFileSystem(), str(tmp_path)) for _ in range(2))
    with writer.lock():
        consumer.replace("consumer", b"0/100", durable=True)
        consumer.delete(["consumer"])
