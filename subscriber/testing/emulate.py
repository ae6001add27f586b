"""Runs the same stages in one process without Spark, for tests of this package and of users."""

from __future__ import annotations

from collections.abc import Iterator

from subscriber.apply.applier import Applier, ApplyResult
from subscriber.apply.apply_batch import apply_batch, retry_with_column_defaults
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.decode.decode_frames import decode_frames
from subscriber.stream.journal.message_rows import read_finish, read_messages
from subscriber.stream.journal.reader import JournalReader


def emulate(
    journal: JournalReader,
    applier: Applier,
    start: LSN,
    end: LSN | None = None,
    *,
    publishing: Publishing | None = None,
) -> ApplyResult:
    """Apply the journal's entries after ``start`` as one batch, with the errors of Spark's
    pipeline. ``publishing`` are emulated publications; None if the server has filtered the changes.
    """
    stop = journal.latest(start) if end is None else end
    journal.require(start, stop)

    def read() -> Iterator[Frame]:
        readings = journal.plan(start, stop, two_phase=applier.two_phase)
        batches = (
            batch
            for reading in readings
            for batch in read_messages(journal.storage, reading, read_finish(journal.storage, reading))
        )
        return decode_frames(batches, as_text=applier.target.capabilities.postgresql_text, publishing=publishing)

    return retry_with_column_defaults(applier, lambda: apply_batch(applier, read, start, stop))
