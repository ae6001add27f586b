"""Runs the same stages in one process without Spark, for tests, and for users who want the
semantics in their own pytest.
"""

from __future__ import annotations

from collections.abc import Iterator

from subscriber.apply.applier import Applier, ApplyResult
from subscriber.apply.apply_batch import apply_batch, asking
from subscriber.journal.message_rows import read_finish, read_messages
from subscriber.journal.reader import JournalReader
from subscriber.lsn import LSN
from subscriber.protocol.changes import Frame
from subscriber.publication.publishing import Publishing
from subscriber.stages.decode_frames import decode_frames


def emulate(
    journal: JournalReader,
    applier: Applier,
    start: LSN,
    end: LSN | None = None,
    *,
    publishing: Publishing | None = None,
) -> ApplyResult:
    """Apply the entries of the journal after ``start`` (up to ``end``) as one micro-batch.

    Args:
        journal: the journal.
        applier: applies the batch.
        start: the end of the previous batch.
        end: the end of this batch; with None the end of the journal.
        publishing: the emulated publications; None if the server has filtered the changes.

    Raises:
        SubscriberError: the error that would end the Spark pipeline.
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

    return asking(applier, lambda: apply_batch(applier, read, start, stop))
