"""What a planner raises reaches the driver with its type, and nothing else does."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from subscriber.errors import JournalGap
from subscriber.pipeline.frame_source import FrameSource, FrameStreamReader
from subscriber.pipeline.planning_error import leaving_error, left_error
from tests.journals import segment_files, three_transactions


@pytest.fixture
def error_file(tmp_path: Path) -> Path:
    return tmp_path / "error"


def reader_of(journal: Path, error_file: Path) -> FrameStreamReader:
    source = FrameSource({"journal": str(journal), "errorFile": str(error_file)})
    reader = pickle.loads(pickle.dumps(source.streamReader(None)))  # type: ignore[arg-type]
    assert isinstance(reader, FrameStreamReader)
    return reader


def test_nothing_is_left_where_nothing_fails(tmp_path, error_file):
    three_transactions(tmp_path)
    reader = reader_of(tmp_path, error_file)
    reader.partitions({"lsn": "0/100"}, {"lsn": "0/400"})
    assert left_error(error_file) is None


def test_a_gap_that_the_planner_meets_is_told_with_its_type_its_state_and_its_hint(tmp_path, error_file):
    three_transactions(tmp_path)
    segment_files(tmp_path)[1].unlink()
    reader = reader_of(tmp_path, error_file)
    with pytest.raises(JournalGap) as raised:
        reader.partitions({"lsn": "0/100"}, {"lsn": "0/400"})
    left = left_error(error_file)
    assert isinstance(left, JournalGap)
    assert vars(left) == vars(raised.value)


@pytest.mark.parametrize("question", ["initialOffset", "latestOffset"])
def test_a_journal_that_is_not_there_is_told_by_every_question(tmp_path, error_file, question):
    reader = reader_of(tmp_path / "none", error_file)
    with pytest.raises(JournalGap):
        reader.initialOffset() if question == "initialOffset" else reader.latestOffset(
            {"lsn": "0/100"}, ReadAllAvailable()
        )
    assert isinstance(left_error(error_file), JournalGap)


def test_only_its_owner_may_read_what_is_left(error_file):
    with pytest.raises(JournalGap), leaving_error(str(error_file)):
        raise JournalGap("gone")
    assert error_file.stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_written_does_not_hide_the_error(tmp_path):
    with pytest.raises(JournalGap), leaving_error(str(tmp_path / "none" / "error")):
        raise JournalGap("gone")


def test_what_is_no_error_of_ours_is_not_left(error_file):
    with pytest.raises(MemoryError), leaving_error(str(error_file)):
        raise MemoryError
    assert left_error(error_file) is None
