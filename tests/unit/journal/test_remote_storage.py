"""An object store. What it does as a local storage does is in test_storage.py."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.errors import UsageError
from subscriber.journal.remote_storage import filesystem
from subscriber.journal.storage import open_storage

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
