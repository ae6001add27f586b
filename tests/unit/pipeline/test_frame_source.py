"""Frames travel as rows, an error is the last of them, and what the options say is what the
executors do.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

from subscriber.errors import JournalCorrupt, ProtocolError
from subscriber.journal.control import read_control, write_control
from subscriber.journal.local_storage import LocalStorage
from subscriber.lsn import LSN
from subscriber.pipeline import frame_source
from subscriber.pipeline.frame_source import FRAME_SCHEMA, FrameSource, FrameStreamReader, as_option, encode_frames
from subscriber.pipeline.source import JournalPartition
from subscriber.protocol import messages as m
from subscriber.protocol.changes import Frame
from subscriber.protocol.encode import encode
from subscriber.publication.definition import Publication
from subscriber.publication.publishing import Publishing
from subscriber.stages import decode_frames
from tests.frames import transaction, values
from tests.journals import T, insert, publish, segment_files, three_transactions, writing
from tests.publications import entry, table, tables


def batch(*messages: m.Message | bytes) -> pa.RecordBatch:
    raw = [message if isinstance(message, bytes) else encode(message) for message in messages]
    lsns = pa.array(range(len(raw)), pa.int64())
    return pa.record_batch([lsns, lsns, pa.array(raw, pa.binary())], ["lsn", "finish_lsn", "message"])


def encoded(*batches: pa.RecordBatch) -> list[dict[str, bytes | None]]:
    rows = []
    for row in encode_frames(iter(batches), as_text=False, rest=lambda done: b"%d" % done):
        assert row.schema == FRAME_SCHEMA
        rows += row.to_pylist()
    return rows


def test_small_batches_of_rows_become_one_encoded_frame():
    rows = encoded(batch(*transaction(0x200, T, insert(1))), batch(*transaction(0x300, insert(2))))
    assert [row["error"] for row in rows] == [None]
    frames = [Frame.decode(row["frame"] or b"") for row in rows]
    assert [group.positions.tolist() for frame in frames for group in frame.groups] == [[2, 5]]


def test_an_error_is_handed_over_as_a_row_after_the_good_frames():
    """Spark would flatten it into text."""
    bad = m.Insert(T.relation_id, values("s3cret", "x"))
    rows = encoded(batch(T, insert(1)), batch(bad), batch(insert(3)))
    assert [(row["frame"] is None, row["error"] is None) for row in rows] == [(False, True), (True, False)]
    error = pickle.loads(rows[1]["error"] or b"")
    assert isinstance(error, ProtocolError)
    assert (error.relation, error.column, error.lsn, error.sqlstate) == ("public.t", "a", 0, "22P02")
    assert b"s3cret" not in (rows[1]["error"] or b"")


def test_what_is_no_error_of_ours_is_not_hidden_in_a_row(monkeypatch):
    def broken(*_arguments: object, **_options: object) -> Iterator[Frame]:
        raise MemoryError

    monkeypatch.setattr("subscriber.stages.decode_frames.decode_frames", broken)
    with pytest.raises(MemoryError):
        encoded(batch(T))


# As Spark opens it --------------------------------------------------------------------------------

TABLE = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=T.relation_id)


def read(folder, **options: str) -> list[dict[str, bytes | None]]:
    """The rows of a journal with three transactions, of which each inserts one row of t."""
    source = FrameSource({"journal": str(folder), **options})
    reader = pickle.loads(pickle.dumps(source.streamReader(None)))  # type: ignore[arg-type]
    partitions = reader.partitions({"lsn": "0/100"}, {"lsn": "0/400"})
    rows = [row for partition in partitions for part in reader.read(partition) for row in part.to_pylist()]
    assert all(list(row) == [column.split()[0] for column in source.schema().split(", ")] for row in rows)
    return rows


def keys(rows: list[dict[str, bytes | None]]) -> list[object]:
    """What is inserted into column a."""
    groups = [group for row in rows for group in Frame.decode(row["frame"] or b"").groups]
    return [key for group in groups if group.new is not None for key in group.new.column("a").to_pylist()]


def test_a_task_reads_and_decodes(tmp_path):
    three_transactions(tmp_path)
    assert keys(read(tmp_path)) == [1, 2, 3]


def test_a_target_that_parses_text_gets_text(tmp_path):
    three_transactions(tmp_path)
    assert keys(read(tmp_path, asText="true")) == ["1", "2", "3"]


def test_a_frame_that_is_too_large_for_the_jvm_is_left_to_the_driver_with_all_after_it(tmp_path, monkeypatch):
    """bounded_memory, commit_order: of the partition's frames the second has more than
    sixteen thousand rows
    """
    with writing(tmp_path) as writer:
        publish(writer, 0x200, transaction(0x200, T, insert(1)))
        publish(writer, 0x300, transaction(0x300, T, *(insert(number) for number in range(2, 20_002))))
        publish(writer, 0x400, transaction(0x400, T, insert(20_002)))
    monkeypatch.setattr(frame_source, "LARGEST_FRAME", 50_000)
    monkeypatch.setattr(decode_frames, "JOINED_ROWS", 16_384)
    first, last = read(tmp_path)
    assert keys([first]) == [1]
    rest = pickle.loads(last["rest"] or b"")
    groups = [group for frame in rest.frames() for group in frame.groups]
    assert [key for group in groups for key in group.new.column("a").to_pylist()] == list(range(2, 20_003))


def test_frames_are_left_in_files_for_a_driver_on_the_same_machine(tmp_path, monkeypatch):
    """However large they are; without space on the disk they are sent."""
    journal, folder = tmp_path / "journal", tmp_path / "frames"
    folder.mkdir()
    three_transactions(journal)
    monkeypatch.setattr(frame_source, "LARGEST_FRAME", 1)
    rows = read(journal, frameFolder=str(folder))
    assert [row["frame"] for row in rows] == [None]
    assert [str(path).encode() for path in folder.iterdir()] == [row["file"] for row in rows]
    assert keys([{"frame": next(folder.iterdir()).read_bytes()}]) == [1, 2, 3]
    folder.rename(tmp_path / "other")
    assert [row["rest"] is None for row in read(journal, frameFolder=str(folder))] == [False]


def test_executors_publish_what_they_have_decoded(tmp_path):
    three_transactions(tmp_path)
    publishing = Publishing((Publication("p", tables=(entry(TABLE, "a > 1"),)),), tables(TABLE))
    assert keys(read(tmp_path, publishing=as_option(publishing))) == [2, 3]


def test_a_journal_that_cannot_be_read_is_an_error_of_its_own_type(tmp_path):
    three_transactions(tmp_path)
    reader = FrameSource({"journal": str(tmp_path)}).streamReader(None)  # type: ignore[arg-type]
    assert isinstance(reader, FrameStreamReader)
    partitions = reader.partitions({"lsn": "0/100"}, {"lsn": "0/400"})
    segment_files(tmp_path)[1].write_bytes(b"no segment")
    rows = [row for partition in partitions for part in reader.read(partition) for row in part.to_pylist()]
    assert isinstance(pickle.loads(rows[-1]["error"]), JournalCorrupt)


# The planner --------------------------------------------------------------------------------------


def planner(folder: Path, progress: str | None = None) -> FrameStreamReader:
    file = folder.parent / "progress"
    if progress is not None:
        file.write_text(progress)
    reader = FrameSource({"journal": str(folder), "progressFile": str(file)}).streamReader(None)  # type: ignore[arg-type]
    assert isinstance(reader, FrameStreamReader)
    return reader


def test_an_empty_batch_is_planned_when_nothing_is_new(tmp_path):
    """In it the driver waits for the end of the journal to move; Spark begins a batch when the
    offset is another one.
    """
    folder = tmp_path / "journal"
    three_transactions(folder)
    reader, limit = planner(folder, "0/100"), ReadMaxBytes(10**6)
    first = reader.latestOffset({"lsn": "0/400"}, limit)
    second = reader.latestOffset(first, limit)
    assert (first["lsn"], second["lsn"]) == ("0/400", "0/400")
    assert len({str(offset) for offset in ({"lsn": "0/400"}, first, second)}) == 3
    assert list(reader.partitions(first, second)) == []
    assert reader.latestOffset({"lsn": "0/200"}, limit) == {"lsn": "0/400"}


def test_batches_are_empty_until_the_driver_has_said_how_far_it_has_read(tmp_path):
    """Their beginning may have been trimmed from the journal."""
    folder = tmp_path / "journal"
    three_transactions(folder)
    reader, limit = planner(folder), ReadMaxBytes(10**6)
    control = read_control(LocalStorage(folder))
    assert control is not None
    write_control(LocalStorage(folder), replace(control, begin=LSN(0x300)))
    end = reader.latestOffset({"lsn": "0/200"}, limit)
    assert end["lsn"] == "0/200"
    assert end != {"lsn": "0/200"}
    assert list(reader.partitions({"lsn": "0/200"}, end)) == []
    assert planner(folder, "0/300").latestOffset(end, limit) == {"lsn": "0/400"}


def test_a_batch_begins_where_the_driver_has_read_to(tmp_path):
    """What is before may have been trimmed from the journal."""
    folder = tmp_path / "journal"
    three_transactions(folder)
    reader = planner(folder, "0/300")
    segment_files(folder)[0].unlink()
    segment_files(folder)[0].unlink()
    control = read_control(LocalStorage(folder))
    assert control is not None
    write_control(LocalStorage(folder), replace(control, begin=LSN(0x300)))
    end = reader.latestOffset({"lsn": "0/200"}, ReadMaxBytes(10**6))
    assert end == {"lsn": "0/400"}
    (partition,) = reader.partitions({"lsn": "0/200"}, end)
    assert isinstance(partition, JournalPartition)
    assert [reading.segment.begin for reading, _ in partition.readings] == [0x300]
