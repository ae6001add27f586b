"""Questions that are answered by reading the messages of a journal, from a position on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

from subscriber.journal.message_rows import POSTGRESQL_EPOCH_US, read_finish, read_rows
from subscriber.journal.reader import JournalReader, Reading
from subscriber.journal.segment import Kind, journal_entries
from subscriber.journal.storage import Storage
from subscriber.lsn import LSN


def changed_relations(storage: Storage, start: LSN) -> list[str]:
    """The names of the relations that have changes after ``start``, as far as the journal still has
    them.

    Raises:
        JournalCorrupt, JournalUnavailable: as :func:`~subscriber.journal.message_rows.read_rows`.
    """
    found: set[str] = set()
    for entry in journal_entries(storage):
        if entry.end > start:
            for segment in entry.segments:
                reading = Reading(segment, entry.end, entry.segments[-1])
                for rows in read_rows(storage, reading, read_finish(storage, reading)):
                    # A segment has a relation message for each changed or truncated relation.
                    found.update(name for name in rows.column("relation").unique().to_pylist() if name is not None)
    return sorted(found)


def oldest_commit(storage: Storage, start: LSN) -> datetime | None:
    """The commit time of the first transaction after ``start``, by the publisher's clock; None
    where the journal has no such transaction.

    Raises:
        JournalError: the journal cannot be read.
    """
    reader = JournalReader(storage)
    for reading in reader.plan(start, reader.latest(start)):
        finish = read_finish(storage, reading)
        if finish is not None:
            if reading.finish.kind is not Kind.ROLLBACK_PREPARED:
                return _datetime(finish.timestamp + POSTGRESQL_EPOCH_US)
            continue
        for rows in read_rows(storage, reading):
            columns = (rows.column("commit_timestamp").to_pylist(), rows.column("finish_lsn").to_pylist())
            for moment, lsn in zip(*columns, strict=True):
                # The first rows may be relation messages, which belong to no transaction.
                if moment is not None and lsn > start:
                    return cast(datetime, moment)
    return None


def _datetime(microseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
