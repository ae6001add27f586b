"""The progress of copies: in memory for the terminal, in a file for other processes."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from subscriber.base.errors import JournalUnavailable
from subscriber.catalog.table_states import RelationState, SubscriptionRelation
from subscriber.spark.copy import CopyProgress
from subscriber.stream.journal.storage import LocalStorage
from subscriber.worker.copy_progress import Copies, copies_file, read_copies

TARGET = "8c1f" * 8
A = SubscriptionRelation("public", "a", RelationState.DATASYNC, None)
B = SubscriptionRelation("s", "b", RelationState.DATASYNC, None)


def progress(rows: int) -> CopyProgress:
    return CopyProgress(rows=rows, bytes=10 * rows, estimated_rows=20, estimated_bytes=200)


@pytest.fixture
def storage(tmp_path) -> LocalStorage:
    return LocalStorage(tmp_path)


@pytest.fixture
def copies(storage) -> Copies:
    return Copies(storage, TARGET, 1, "s")


def saved(storage) -> list[tuple[str, int]]:
    """The table and the rows of each copy in the file."""
    return [(copy.name, copy.rows) for copy in read_copies(storage, TARGET, 1)]


def test_a_copy_is_shown_with_its_figures_while_its_block_runs(copies):
    before = datetime.now(UTC)
    with copies.showing(A):
        assert copies.current() == []
        copies.record(A, progress(5))
        (status,) = copies.current()
        assert (status.schema, status.name, status.rows, status.bytes) == ("public", "a", 5, 50)
        assert (status.estimated_rows, status.estimated_bytes) == (20, 200)
        assert status.rows_per_second > 0
        assert abs((datetime.fromisoformat(status.started_at) - before).total_seconds()) < 60
    assert copies.current() == []


def test_copies_are_shown_in_the_order_in_which_they_began(copies):
    with copies.showing(B), copies.showing(A):
        copies.record(B, progress(1))
        copies.record(A, progress(1))
        copies.record(B, progress(2))
        assert [(copy.name, copy.rows) for copy in copies.current()] == [("b", 2), ("a", 1)]


def test_a_copy_that_fails_is_no_longer_shown(copies, storage):
    with pytest.raises(ZeroDivisionError), copies.showing(A):
        copies.record(A, progress(5))
        raise ZeroDivisionError
    assert (copies.current(), saved(storage)) == ([], [])


def test_another_process_reads_what_is_shown(copies, storage):
    with copies.showing(A):
        copies.record(A, progress(5))
        assert read_copies(storage, TARGET, 1) == copies.current()
    assert storage.read(copies_file(TARGET, 1)) is None


def test_the_file_is_written_at_most_once_a_second(copies, storage):
    with copies.showing(A):
        copies.record(A, progress(1))
        copies.record(A, progress(2))
        assert saved(storage) == [("a", 1)]
        copies._saved -= 1.0
        copies.record(A, progress(3))
        assert saved(storage) == [("a", 3)]


def test_the_end_of_a_copy_leaves_the_others_in_the_file(copies, storage):
    with copies.showing(A):
        with copies.showing(B):
            copies.record(A, progress(1))
            copies.record(B, progress(2))
        assert saved(storage) == [("a", 1)]


def test_the_progress_is_logged_every_minute(copies, caplog):
    with caplog.at_level(logging.INFO), copies.showing(A):
        copies.record(A, progress(1))
        assert not caplog.records
        copies._logged -= 60.0
        copies.record(A, progress(1234))
        copies.record(A, progress(1235))
    (record,) = caplog.records
    assert record.getMessage().startswith('table "public.a" of subscription "s": 1,234 of about 20 rows copied, ')


def test_a_table_without_an_estimate_is_logged_without_one(copies, caplog):
    with caplog.at_level(logging.INFO), copies.showing(A):
        copies._logged -= 60.0
        copies.record(A, CopyProgress(rows=5, bytes=50, estimated_rows=0, estimated_bytes=0))
    assert caplog.records[0].getMessage().startswith('table "public.a" of subscription "s": 5 rows copied, ')


def test_a_journal_that_cannot_be_written_does_not_end_the_copy(tmp_path):
    """The file only informs people."""

    class Full(LocalStorage):
        def replace(self, *_: object, **__: object) -> None:
            raise JournalUnavailable("no space left on device")

        def delete(self, *_: object, **__: object) -> None:
            raise JournalUnavailable("no space left on device")

    copies = Copies(Full(tmp_path), TARGET, 1, "s")
    with copies.showing(A):
        copies.record(A, progress(5))
        assert len(copies.current()) == 1


def test_without_a_file_no_copies_are_shown(storage):
    assert read_copies(storage, TARGET, 1) == []


def test_the_name_of_the_file_contains_only_identifiers():
    """names_are_data: nothing that a user can choose reaches the file system."""
    assert copies_file(TARGET, 12) == f"copy-{TARGET}-12.json"
