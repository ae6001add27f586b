"""The file of a segment is read only if its content is what was written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.base.errors import JournalCorrupt, JournalUnavailable
from subscriber.base.lsn import INVALID_LSN, MAX_LSN
from subscriber.stream.journal.message_rows import read_finish, read_rows
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import relation, transaction
from tests.journals import (
    T,
    insert,
    publish,
    read,
    segment_files,
    three_transactions,
    writing,
)

U = relation('Some "schema".Tab', {"a": "int4", "b": "text"}, key=["a"], oid=20000)


def large_transaction(folder) -> None:
    begin, *changes, commit = transaction(0x200, T, *(insert(key, "text") for key in range(50)), xid=7)
    with writing(folder) as journal:
        publish(journal, 0x200, [begin, *changes], [commit], xid=7)


@pytest.mark.parametrize("damage", ["empty", "cut", "zeroed", "foreign", "no metadata"])
@pytest.mark.parametrize("part", [0, 1])
def test_a_damaged_segment_is_corrupt(tmp_path, damage, part):
    large_transaction(tmp_path)
    file = segment_files(tmp_path)[part]
    whole = file.read_bytes()
    reader = JournalReader(LocalStorage(tmp_path))
    readings = reader.plan(INVALID_LSN, MAX_LSN)
    if damage == "no metadata":
        table = pa.ipc.open_file(whole).read_all().replace_schema_metadata(None)
        with pa.ipc.new_file(str(file), table.schema) as writer:
            writer.write_table(table)
    else:
        content = {"empty": b"", "cut": whole[: len(whole) // 2], "zeroed": bytes(len(whole)), "foreign": b"x" * 5000}
        file.write_bytes(content[damage])
    with pytest.raises(JournalCorrupt, match=r"segment \".*\" cannot be read") as caught:
        list(read(reader, readings[part]))
    assert (caught.value.lsn, caught.value.transient, caught.value.sqlstate) == (0x200, False, "XX001")
    assert caught.value.hint


@pytest.mark.parametrize("part", [0, 1])
def test_a_segment_that_was_removed_after_planning_is_corrupt(tmp_path, part):
    large_transaction(tmp_path)
    reader = JournalReader(LocalStorage(tmp_path))
    readings = reader.plan(INVALID_LSN, MAX_LSN)
    segment_files(tmp_path)[part].unlink()
    with pytest.raises(JournalCorrupt):
        list(read(reader, readings[part]))


def test_a_flipped_byte_is_reported_or_changes_no_row(tmp_path):
    """Arrow has no checksums and follows offsets blindly: no flip may end in other values, or in an
    error not ours.
    """
    large_transaction(tmp_path)
    file = segment_files(tmp_path)[0]
    whole = file.read_bytes()
    reader = JournalReader(LocalStorage(tmp_path))
    reading = reader.plan(INVALID_LSN, MAX_LSN)[0]
    finish = read_finish(reader.storage, reading)
    expected = list(read_rows(reader.storage, reading, finish))
    refused = 0
    for place in range(0, len(whole), 3):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            assert list(read_rows(reader.storage, reading, finish)) == expected, place
        except JournalCorrupt:
            refused += 1
    assert refused > 500


def test_a_storage_that_does_not_answer_is_a_transient_error(tmp_path, monkeypatch):
    three_transactions(tmp_path)
    reader = JournalReader(LocalStorage(tmp_path))
    (first, *_) = reader.plan(INVALID_LSN, MAX_LSN)

    def down(self, name):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(LocalStorage, "open", down)
    with pytest.raises(JournalUnavailable, match="cannot be reached: Input/output error") as caught:
        list(read(reader, first))
    assert caught.value.transient
