"""The source's planning half, without Spark: offsets, limits, partitions."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from pyspark.sql.types import StructType

from subscriber.base.errors import JournalGap, NotSupportedError
from subscriber.base.lsn import LSN
from subscriber.spark import journal_frames, journal_stream, source
from subscriber.spark.journal_frames import group_ranges
from subscriber.spark.source import PgoutputSource, PgoutputStreamReader
from subscriber.stream.journal.message_rows import ROW_SCHEMA, Finish, read_finish
from subscriber.stream.journal.reader import SegmentRange
from subscriber.stream.journal.segment import EntryKind, Segment, journal_entries
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import transaction
from tests.journals import (
    T,
    commit_prepared,
    insert,
    prepare,
    publish,
    rows_of,
    segment_files,
    three_transactions,
    writing,
)


def stream_reader(folder, **options: str) -> PgoutputStreamReader:
    reader = PgoutputSource({"journal": str(folder), **options}).streamReader(None)  # type: ignore[arg-type]
    assert isinstance(reader, PgoutputStreamReader)
    return reader


def offset(lsn: str) -> dict[str, str]:
    return {"lsn": lsn}


def segments(number: int, size: int) -> SegmentRange:
    segment = Segment(LSN(number), LSN(number + 1), EntryKind.TRANSACTIONS, 0, size=size)
    return SegmentRange(segment, segment.end, segment)


def everything(reader: PgoutputStreamReader, start: str, end: str) -> list[dict[str, object]]:
    partitions = reader.partitions(offset(start), offset(end))
    return [row for partition in partitions for batch in reader.read(partition) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([5], [[5]]),
        ([5, 5], [[5, 5]]),
        ([5, 5, 1], [[5, 5], [1]]),
        ([50, 5, 5], [[50], [5, 5]]),
        ([5, 50, 5], [[5], [50], [5]]),
        ([1] * 25, [[1] * 10, [1] * 10, [1] * 5]),
    ],
)
def test_consecutive_segments_share_a_partition_up_to_its_size(sizes, expected):
    """A task costs a few hundred milliseconds before its first row."""
    ranges = [segments(number, size) for number, size in enumerate(sizes)]
    groups = group_ranges(ranges, 10)
    assert [[each.segment.size for each in group] for group in groups] == expected
    assert [each for group in groups for each in group] == ranges


def test_the_first_partition_is_small_so_that_its_rows_come_early_where_a_job_is_dear():
    ranges = [segments(number, 5) for number in range(12)]
    groups = group_ranges(ranges, 10, 20)
    assert [sum(each.segment.size for each in group) for group in groups] == [10, 20, 20, 10]
    assert [each for group in groups for each in group] == ranges


def test_a_query_without_checkpoint_begins_where_the_journal_does(tmp_path):
    three_transactions(tmp_path)
    assert stream_reader(tmp_path).initialOffset() == offset("0/100")


def test_a_query_may_begin_elsewhere(tmp_path):
    three_transactions(tmp_path)
    assert stream_reader(tmp_path, startingLsn="0/300").initialOffset() == offset("0/300")


def test_without_a_journal_the_first_offset_is_refused(tmp_path):
    with pytest.raises(JournalGap, match="there is no journal"):
        stream_reader(tmp_path).initialOffset()


def test_the_read_limit_is_what_the_options_say(tmp_path):
    assert stream_reader(tmp_path, maxBytes="1234").getDefaultReadLimit() == ReadMaxBytes(1234)


def test_the_latest_offset_admits_about_as_many_bytes_as_the_limit(tmp_path):
    three_transactions(tmp_path)
    reader = stream_reader(tmp_path)
    size = max(entry.size for entry in journal_entries(LocalStorage(tmp_path)))
    assert reader.latestOffset(offset("0/100"), ReadMaxBytes(2 * size)) == offset("0/300")
    assert reader.latestOffset(offset("0/300"), ReadMaxBytes(2 * size)) == offset("0/400")
    assert reader.latestOffset(offset("0/100"), ReadAllAvailable()) == offset("0/400")


def test_a_micro_batch_never_splits_an_entry(tmp_path):
    """Invariant commit_order: not even one that is larger than the limit."""
    begin, *changes, commit = transaction(0x200, T, insert(1), insert(2), xid=7)
    with writing(tmp_path) as journal:
        publish(journal, 0x200, [begin, *changes[:2]], [changes[2]], [commit], xid=7)
        publish(journal, 0x300, transaction(0x300, insert(3)), relations={T.relation_id: T})
    reader = stream_reader(tmp_path)
    assert reader.latestOffset(offset("0/100"), ReadMaxBytes(1)) == offset("0/200")
    assert [row["action"] for row in everything(reader, "0/100", "0/200")].count("C") == 1


def test_with_nothing_new_the_offset_stays_where_it_is(tmp_path, monkeypatch):
    three_transactions(tmp_path)
    monkeypatch.setattr(journal_stream, "PATIENCE_SECONDS", 0.0)
    assert stream_reader(tmp_path).latestOffset(offset("0/400"), ReadMaxBytes(1)) == offset("0/400")


def test_the_latest_offset_waits_for_something_to_arrive(tmp_path, monkeypatch):
    three_transactions(tmp_path)
    naps = []

    def arrives(seconds: float) -> None:
        naps.append(seconds)
        with writing(tmp_path) as journal:
            publish(journal, 0x500, transaction(0x500, T, insert(4)))

    monkeypatch.setattr("time.sleep", arrives)
    assert stream_reader(tmp_path).latestOffset(offset("0/400"), ReadMaxBytes(1)) == offset("0/500")
    assert len(naps) == 1


def test_a_missing_segment_ends_the_query(tmp_path):
    three_transactions(tmp_path)
    segment_files(tmp_path)[1].unlink()
    reader = stream_reader(tmp_path)
    with pytest.raises(JournalGap, match="between 0/200 and 0/300"):
        reader.latestOffset(offset("0/100"), ReadMaxBytes(1))
    with pytest.raises(JournalGap, match="between 0/200 and 0/300"):
        reader.partitions(offset("0/100"), offset("0/400"))


def test_a_batch_whose_last_segment_went_away_is_not_planned(tmp_path):
    """Spark plans a batch again after a crash, from its own log of offsets."""
    three_transactions(tmp_path)
    segment_files(tmp_path)[-1].unlink()
    with pytest.raises(JournalGap, match="up to 0/400"):
        stream_reader(tmp_path).partitions(offset("0/300"), offset("0/400"))


def test_partitions_read_every_row_once_and_in_order(tmp_path):
    three_transactions(tmp_path)
    with writing(tmp_path) as journal:
        begin, *changes, end = prepare(0x500, T, insert(4), insert(5), xid=8)
        publish(journal, 0x500, [begin, *changes[:2]], [changes[2], end], kind="p", xid=8)
        publish(journal, 0x600, transaction(0x600, T, insert(6)))
        publish(journal, 0x700, commit_prepared(0x700, xid=8), kind="k", xid=8)
    whole = rows_of(tmp_path)
    for size in ("1", "4000", "100000000"):
        assert everything(stream_reader(tmp_path, partitionBytes=size), "0/100", "0/700") == whole


def test_with_two_phase_a_prepared_transaction_comes_where_it_was_prepared(tmp_path):
    """C49; it finishes there"""
    with writing(tmp_path) as journal:
        publish(journal, 0x200, prepare(0x200, T, insert(4), xid=8), kind="p", xid=8)
        publish(journal, 0x300, transaction(0x300, T, insert(6)))
        publish(journal, 0x400, commit_prepared(0x400, xid=8), kind="k", xid=8)

    def seen(**options: str) -> list[tuple[object, object]]:
        rows = everything(stream_reader(tmp_path, **options), "0/100", "0/400")
        return [(row["action"], row["finish_lsn"]) for row in rows if row["action"] in ("b", "K", "I")]

    assert seen(twoPhase="true") == [("b", 0x200), ("I", 0x200), ("I", 0x300), ("K", 0x400)]
    assert seen() == [("I", 0x300), ("b", 0x400), ("I", 0x400), ("K", 0x400)]


def test_the_finish_of_a_transaction_in_parts_is_looked_up_once(tmp_path, monkeypatch):
    begin, *changes, commit = transaction(0x200, T, *(insert(key) for key in range(5)), xid=7)
    with writing(tmp_path) as journal:
        publish(journal, 0x200, [begin], *([change] for change in changes), [commit], xid=7)
    looked_up = []

    def counted(*arguments: Any) -> Finish | None:
        looked_up.append(1)
        return read_finish(*arguments)

    monkeypatch.setattr(journal_frames, "read_finish", counted)
    partitions = stream_reader(tmp_path, partitionBytes="1").partitions(offset("0/100"), offset("0/200"))
    assert len(partitions) == 8
    assert len(looked_up) == 1


def test_readers_and_partitions_travel_to_executors(tmp_path):
    """They are pickled; reading needs nothing else."""
    three_transactions(tmp_path)
    reader = stream_reader(tmp_path)
    partitions = reader.partitions(offset("0/100"), offset("0/400"))
    far = pickle.loads(pickle.dumps(reader))
    there = pickle.loads(pickle.dumps(partitions))
    assert [list(far.read(partition)) for partition in there] == [list(reader.read(p)) for p in partitions]


def test_spark_s_schema_names_the_rows_columns():
    assert [column.split()[0] for column in source.SPARK_SCHEMA.split(", ")] == ROW_SCHEMA.names
    assert PgoutputSource.name() == "pgoutput"


def test_with_available_now_a_query_ends_at_what_the_journal_has_at_its_start(tmp_path):
    three_transactions(tmp_path)
    reader = stream_reader(tmp_path)
    reader.prepareForTriggerAvailableNow()
    with writing(tmp_path) as journal:
        publish(journal, 0x500, transaction(0x500, T, insert(4)))
    assert reader.latestOffset(offset("0/100"), ReadMaxBytes(1)) == offset("0/200")
    assert reader.latestOffset(offset("0/200"), ReadAllAvailable()) == offset("0/400")
    assert reader.latestOffset(offset("0/400"), ReadMaxBytes(1)) == offset("0/400")


def test_a_batch_read_of_the_raw_feed_is_refused_with_what_to_do_instead(tmp_path):
    with pytest.raises(NotSupportedError, match="availableNow"):
        PgoutputSource({"journal": str(tmp_path)}).reader(StructType())


_STREAM = """
import pickle, sys
from importlib.machinery import ModuleSpec
sys.modules["__main__"].__spec__ = ModuleSpec("pyspark.sql.streaming.python_streaming_source_runner", None)
source, schema = pickle.load(sys.stdin.buffer)
reader = source.streamReader(schema)
begin = reader.initialOffset()
end = reader.latestOffset(begin, reader.getDefaultReadLimit())
rows = sum(batch.num_rows for part in reader.partitions(begin, end) for batch in reader.read(part))
print(rows, *(name for name in ("pandas", "psycopg", "sqlalchemy") if name in sys.modules))
"""


def test_the_process_of_a_stream_imports_neither_pandas_nor_drivers(tmp_path):
    """Spark starts one for every stream. They would take most of a second of processor time."""
    three_transactions(tmp_path)
    source = PgoutputSource({"journal": str(tmp_path), "table": "public.t"})
    pickled = pickle.dumps((source, source.schema()))
    printed = subprocess.run([sys.executable, "-c", _STREAM], input=pickled, capture_output=True, check=True).stdout
    rows, *imported = printed.decode().split()
    assert int(rows) > 0
    assert imported == []


def test_a_process_that_is_not_the_streams_recognizes_values_of_pandas(tmp_path):
    three_transactions(tmp_path)
    source = PgoutputSource({"journal": str(tmp_path), "table": "public.t"})
    pickled = pickle.dumps((source, source.schema()))
    script = _STREAM.replace("python_streaming_source_runner", "something_else")
    printed = subprocess.run([sys.executable, "-c", script], input=pickled, capture_output=True, check=True).stdout
    assert "pandas" in printed.decode().split()
