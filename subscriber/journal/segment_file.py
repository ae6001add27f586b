"""Open the file of a segment, and check its content.

A segment may have been merged with others (:mod:`subscriber.journal.compaction`) after it was
planned. It is then taken out of the file that covers it. So is a segment that never had a file: a
part of a run of transactions.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from subscriber.errors import RECREATE_SLOT, JournalCorrupt, JournalUnavailable, ProtocolError
from subscriber.journal.builder import CHECKSUM_KEY, FINISH_KEY, RELATIONS_KEY, checksum
from subscriber.journal.merge import extract
from subscriber.journal.segment import Segment, journal_entries
from subscriber.journal.storage import Storage
from subscriber.journal.storage_files import as_file

_ATTEMPTS: Final = 4
"""How often a file that covers a segment is looked for, if each one is merged before it is opened.
"""


def read_segment(storage: Storage, segment: Segment) -> pa.Table:
    """A whole segment, in one chunk, with its metadata.

    Raises:
        JournalCorrupt, JournalUnavailable: as :func:`opened`.
    """
    with opened(storage, segment) as file:
        return pa.Table.from_batches(list(checked(file, segment)), file.schema)


@contextlib.contextmanager
def opened(storage: Storage, segment: Segment) -> Iterator[pa.RecordBatchFileReader]:
    """An open segment. Every error in the block means a corrupt file, since its content was checked
    before it was written.

    Raises:
        JournalCorrupt: the file is missing, or its content was changed.
        JournalUnavailable: the file cannot be reached now.
    """
    file = _open(storage, segment)
    with _parsed(_covered(storage, segment) if file is None else file, segment) as parsed:
        yield parsed


@contextlib.contextmanager
def _parsed(file: pa.NativeFile, segment: Segment) -> Iterator[pa.RecordBatchFileReader]:
    try:
        with file:
            yield pa.ipc.open_file(file)
    except (pa.ArrowException, OSError, LookupError, ValueError, TypeError, ProtocolError) as error:
        raise _corrupt(segment) from error


def _open(storage: Storage, segment: Segment) -> pa.NativeFile | None:
    """The segment's own file; None if there is none."""
    try:
        return storage.open(segment.name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalUnavailable(
            f'the journal\'s segment "{segment.name}" cannot be reached: {error.strerror or error}',
            hint="Give the command again; `subscriber run` tries again by itself.",
            lsn=segment.end,
        ) from error


def _covered(storage: Storage, segment: Segment) -> pa.NativeFile:
    """A segment without a file, out of the file that covers it.

    Raises:
        JournalCorrupt: no file covers it, or that file cannot be read.
    """
    for _ in range(_ATTEMPTS):  # the covering file may be merged, too, before it is opened
        segments = (one for entry in journal_entries(storage) for one in entry.segments)
        covering = next((one for one in segments if one.covers(segment)), None)
        if covering is None:
            break
        file = _open(storage, covering)
        if file is not None:
            with _parsed(file, covering) as parsed:
                whole = pa.Table.from_batches(list(checked(parsed, covering)), parsed.schema)
                return as_file(extract(whole, segment.begin, segment.end))
    raise _corrupt(segment)


def _corrupt(segment: Segment) -> JournalCorrupt:
    return JournalCorrupt(
        f'the journal\'s segment "{segment.name}" cannot be read',
        hint=f"Restore it from a copy. Otherwise: {RECREATE_SLOT}",
        lsn=segment.end,
    )


def checked(file: pa.RecordBatchFileReader, segment: Segment) -> Iterator[pa.RecordBatch]:
    """The batches of an open segment. Their content is what was written.

    Raises:
        JournalCorrupt: it was changed.
    """
    for index in range(file.num_record_batches):
        batch = file.get_batch(index)
        batch.validate(full=True)  # numpy and Arrow do not check offsets
        if checksum(batch, file.schema.metadata) != file.schema.metadata[CHECKSUM_KEY]:
            raise _corrupt(segment)
        yield batch


def finish_message(file: pa.ipc.RecordBatchFileReader) -> bytes:
    """The message which finished the segment's entry."""
    return base64.b64decode(file.schema.metadata[FINISH_KEY])


def described_relations(file: pa.ipc.RecordBatchFileReader) -> pa.RecordBatch:
    """The relation messages that the segment needs."""
    messages = [base64.b64decode(text) for text in json.loads(file.schema.metadata[RELATIONS_KEY])]
    return pa.record_batch(
        [pa.array([0] * len(messages), pa.int64()), pa.array(messages, pa.binary())], ["lsn", "message"]
    )
