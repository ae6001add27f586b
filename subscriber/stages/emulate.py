"""The same stages in one process, without Spark: for tests, and for people who want the semantics
in their own pytest.
"""

from __future__ import annotations

from collections.abc import Iterator

from subscriber.apply.applier import Applier, ApplyResult
from subscriber.apply.apply_batch import apply_batch, asking
from subscriber.journal.reader import JournalReader, read_finish, read_rows
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
    """Apply what the journal holds after ``start`` (up to ``end``) as one micro-batch.

    Args:
        journal: what was received.
        applier: applies it.
        start: the end of the batch before.
        end: the end of this one; None: of the journal.
        publishing: what the changes are published by; None: the server has done that.

    Raises:
        SubscriberError: what the Spark pipeline would end with.
    """
    stop = journal.latest(start) if end is None else end
    journal.require(start, stop)

    def read() -> Iterator[Frame]:
        batches = (
            batch
            for reading in journal.plan(start, stop, two_phase=applier.two_phase)
            for batch in read_rows(journal.storage, reading, read_finish(journal.storage, reading))
        )
        return decode_frames(batches, as_text=applier.target.capabilities.postgresql_text, publishing=publishing)

    return asking(applier, lambda: apply_batch(applier, read, start, stop))
