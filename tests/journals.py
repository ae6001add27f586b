"""Journals for tests, written entry by entry without a receiver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from subscriber.base.lsn import INVALID_LSN, LSN, MAX_LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.stream.journal.builder import SegmentBuilder
from subscriber.stream.journal.message_rows import read_finish, read_rows
from subscriber.stream.journal.reader import JournalReader, SegmentRange
from subscriber.stream.journal.retention import Consumer, Purpose, write_consumer
from subscriber.stream.journal.segment import journal_entries
from subscriber.stream.journal.storage import LocalStorage, Storage
from subscriber.stream.journal.writer import KEEP_NOTHING_PASSED, JournalWriter, KeepRules, open_writer
from tests.frames import relation, transaction, values
from tests.streams import SLOT, SYSTEM, frame

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])
BEGIN = 0x100
"""The LSN at which the journals of these tests begin."""


def insert(key: int, text: str | None = "x", *, xid: int | None = None, shape: m.Relation = T) -> m.Insert:
    return m.Insert(shape.relation_id, values(str(key), text), xid)


@contextmanager
def writing(
    storage: Storage | Path,
    *,
    confirmed: int = 0,
    applied: int = BEGIN,
    system: str = SYSTEM,
    slot: str = SLOT,
    segment_bytes: int = 0,
    rules: KeepRules = KEEP_NOTHING_PASSED,
) -> Iterator[JournalWriter]:
    """A journal that is opened as a receiver opens it."""
    where = LocalStorage(storage) if isinstance(storage, Path) else storage
    with open_writer(
        where,
        system_identifier=system,
        slot=slot,
        confirmed_lsn=LSN(confirmed),
        applied_lsn=LSN(applied),
        segment_bytes=segment_bytes,
        rules=rules,
    ) as journal:
        yield journal


def filled(
    journal: JournalWriter, parts: Sequence[Sequence[m.Message]], relations: dict[int, m.Relation] | None = None
) -> SegmentBuilder:
    """A builder that contains ``parts``; all parts but the last are written to disk."""
    builder = journal.builder(relations or {}, in_stream=False)
    for number, part in enumerate(parts, start=1):
        builder.extend([frame(message, 0x10 * number + place) for place, message in enumerate(part)])
        if number < len(parts):
            builder.spill()
    return builder


def publish(
    journal: JournalWriter,
    end: int,
    *parts: Sequence[m.Message],
    kind: str = "t",
    xid: int = 0,
    relations: dict[int, m.Relation] | None = None,
) -> None:
    """Publish an entry with the messages, one segment for each of ``parts``."""
    builder = filled(journal, parts, relations)
    journal.publish(builder, LSN(end), kind=kind, xid=xid, finish=encode(parts[-1][-1]))


def prepare(end: int, *changes: m.Message, xid: int, gid: str = "g") -> list[m.Message]:
    """Begin Prepare, the changes, and a Prepare that ends at ``end``."""
    place = (LSN(end - 8), LSN(end), 5, xid, gid)
    return [m.BeginPrepare(*place), *changes, m.Prepare(*place)]


def commit_prepared(end: int, *, xid: int, gid: str = "g") -> list[m.Message]:
    return [m.CommitPrepared(LSN(end - 8), LSN(end), 9, xid, gid)]


def rollback_prepared(end: int, *, xid: int, gid: str = "g") -> list[m.Message]:
    return [m.RollbackPrepared(LSN(end - 16), LSN(end), 5, 9, xid, gid)]


def three_transactions(folder: Path) -> None:
    """Entries that end at 0/200, 0/300 and 0/400, and insert 1, 2 and 3."""
    with writing(folder) as journal:
        for number in (1, 2, 3):
            end = BEGIN * (number + 1)
            publish(journal, end, transaction(end, T, insert(number), xid=700 + number))


def three_large_transactions(folder: Path) -> None:
    """The same entries, each of which is one transaction that is not divided."""
    with writing(folder) as journal:
        for number in (1, 2, 3):
            end = BEGIN * (number + 1)
            publish(journal, end, transaction(end, T, insert(number), xid=700 + number), xid=700 + number)


def trim_after_planning(monkeypatch: pytest.MonkeyPatch, folder: Path, begin: LSN) -> None:
    """From now on a journal is trimmed up to ``begin`` between the planning and the reading."""
    plan = JournalReader.plan

    def trimming(self: JournalReader, start: LSN, end: LSN, **options: bool) -> list[SegmentRange]:
        planned = plan(self, start, end, **options)
        with writing(folder) as journal:
            journal.restart(begin)
        return planned

    monkeypatch.setattr(JournalReader, "plan", trimming)


def segment_files(folder: Path) -> list[Path]:
    """The segments of a journal, in stream order."""
    return [folder / segment.name for entry in journal_entries(LocalStorage(folder)) for segment in entry.segments]


def rows_of(storage: Storage | Path, start: int = INVALID_LSN, end: int = MAX_LSN) -> list[dict[str, object]]:
    """Every row that a reader of (``start``, ``end``] returns, in order."""
    reader = JournalReader(LocalStorage(storage) if isinstance(storage, Path) else storage)
    ranges = reader.plan(LSN(start), LSN(end))
    return [row for planned in ranges for batch in read(reader, planned) for row in batch.to_pylist()]


def read(reader: JournalReader, planned: SegmentRange) -> Iterator[pa.RecordBatch]:
    yield from read_rows(reader.storage, planned, read_finish(reader.storage, planned))


def keys_of(storage: Storage | Path, start: int = INVALID_LSN, end: int = MAX_LSN) -> list[int]:
    """The first column of every INSERT, in the order of the plan."""
    changes = [decode(row["message"]) for row in rows_of(storage, start, end)]  # type: ignore[arg-type]
    return [int(change.new[0].data) for change in changes if isinstance(change, m.Insert)]  # type: ignore[union-attr]


def consumer(subid: int = 1, purpose: Purpose = "apply") -> Consumer:
    """A consumer of a target."""
    return Consumer("8c1f" * 8, subid, purpose)


def passed(storage: Storage, lsn: int, who: Consumer | None = None) -> None:
    """Record that a consumer has applied everything up to ``lsn``."""
    write_consumer(storage, who or consumer(), LSN(lsn), subscription="s", place="sqlite:////srv/app.db")
