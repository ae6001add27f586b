"""Inspection of journals: lists them, and shows the messages of one (like pg_waldump), all of them
(:func:`browse`) or a page at a time. A page reads few segments, and as few rows as it can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.decode_message import decode
from subscriber.stream.journal.control import JournalControl, read_control
from subscriber.stream.journal.message_rows import ROW_SCHEMA, finish_time, read_finish, read_rows
from subscriber.stream.journal.named_consumers import NamedConsumer, list_named
from subscriber.stream.journal.reader import JournalReader, SegmentRange
from subscriber.stream.journal.retention import ConsumerPosition, list_consumers
from subscriber.stream.journal.segment import Entry, EntryKind, Segment, journal_entries
from subscriber.stream.journal.storage import journal_folders, open_storage


@dataclass(frozen=True, slots=True)
class JournalSummary:
    url: str
    control: JournalControl
    entries: list[Entry]
    consumers: list[ConsumerPosition]
    named: list[NamedConsumer]
    """Also those that were dropped."""

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def end(self) -> LSN:
        """End LSN of the last entry; the journal's ``begin`` where it has no entries."""
        return LSN(max([self.control.begin, *(entry.end for entry in self.entries)]))

    def behind(self, consumer: ConsumerPosition | NamedConsumer) -> int:
        """The bytes of WAL between a consumer's position and the last entry."""
        return max(0, self.end - consumer.lsn)

    def holds_back(self, consumer: ConsumerPosition | NamedConsumer) -> bool:
        """Whether this consumer is the slowest, and is behind the end."""
        keeping = [one.lsn for one in self.consumers] + [one.lsn for one in self.named if one.dropped is None]
        slowest = min(keeping)
        return consumer.lsn == slowest and self.behind(consumer) > 0


@dataclass(frozen=True, slots=True)
class JournalLine:
    finish_lsn: LSN
    lsn: LSN
    xid: int
    action: str
    relation: str | None
    description: str


def list_journals(base: str) -> list[JournalSummary]:
    """The journals directly below the configured folder or URL, and the one at the URL itself."""
    summaries = []
    for url in (base, *journal_folders(base)):
        storage = open_storage(url)
        control = read_control(storage)
        if control is not None:
            consumers, named = list_consumers(storage), list_named(storage)
            summaries.append(JournalSummary(url, control, journal_entries(storage), consumers, named))
    return summaries


def browse(url: str, start: LSN, end: LSN, *, show_values: bool) -> Iterator[JournalLine]:
    """The messages of entries that finished in (``start``, ``end``], in commit order."""
    reader = JournalReader(open_storage(url))
    start = LSN(max(start, reader.control().begin))
    relations: dict[int, messages.Relation] = {}
    with reader.unless_trimmed():
        for reading in reader.plan(start, end):
            for batch in read_rows(reader.storage, reading, read_finish(reader.storage, reading)):
                yield from _lines(batch, relations, show_values=show_values)


# A page at a time ---------------------------------------------------------------------------------

_DECODED: Final = 64
"""Rows that are decoded at once: a page may end soon, and rows may be large."""


@dataclass(frozen=True, slots=True)
class JournalTransaction:
    """A transaction that has finished, or a message outside of a transaction (``xid`` 0).

    Attributes:
        committed_at: by the publisher's clock; None for a message.
        messages: None for a large transaction, whose messages are not counted.
        relations: that it changes, as far as they are known without reading a large transaction.
        size: the bytes of its messages; of a large transaction, those of its segments.
    """

    finish_lsn: LSN
    xid: int
    kind: EntryKind
    committed_at: datetime | None
    messages: int | None
    relations: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class TransactionPage:
    """Transactions, newest first. Those before ``older`` are older ones; None if there are none."""

    transactions: list[JournalTransaction]
    older: LSN | None


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages of a transaction. ``following`` is where the next page begins, as ``part`` and
    ``row``; None after the last message.
    """

    lines: list[JournalLine]
    following: tuple[int, int] | None


def newest_transactions(url: str, before: LSN, most: int) -> TransactionPage:
    """At most ``most`` transactions that finished before ``before``. A prepared transaction is
    listed at its COMMIT PREPARED.
    """
    reader = JournalReader(open_storage(url))
    begin, last = reader.control().begin, LSN(before - 1)
    # Each has a transaction, but for a run of which only transactions after ``last`` are left.
    entries = [one for one in reader.entries(begin) if _has_finished(one, last)][-most - 2 :]
    if not entries:
        return TransactionPage([], None)
    start, end = LSN(max(begin, entries[0].begin)), LSN(min(last, entries[-1].end))
    with reader.unless_trimmed():
        planned = [list(ranges) for _, ranges in groupby(reader.plan(start, end), attrgetter("end"))]
        found = list(islice(_newest_first(reader, planned, most + 1), most + 1))
    return TransactionPage(found[:most], None if len(found) <= most else found[most - 1].finish_lsn)


def _has_finished(entry: Entry, last: LSN) -> bool:
    if entry.segments[0].is_run:
        return entry.begin < last
    return entry.end <= last and entry.kind is not EntryKind.PREPARED


def _newest_first(reader: JournalReader, planned: list[list[SegmentRange]], most: int) -> Iterator[JournalTransaction]:
    for ranges in reversed(planned):
        if ranges[0].segment.is_run:
            yield from _of_run(reader, ranges[0], most)
        elif (finish := read_finish(reader.storage, ranges[0])) is not None:
            size = sum(one.segment.size for one in ranges)
            committed_at = finish_time(finish)
            yield JournalTransaction(ranges[0].end, finish.xid, ranges[0].finish.kind, committed_at, None, (), size)


def _of_run(reader: JournalReader, planned: SegmentRange, most: int) -> Iterator[JournalTransaction]:
    """The last transactions of a run, newest first."""
    batches = [_sent(batch) for batch in read_rows(reader.storage, planned)]
    rows = pa.Table.from_batches(batches, ROW_SCHEMA)
    ends = rows["finish_lsn"].to_numpy()
    firsts = np.flatnonzero(np.diff(ends, prepend=-1)).tolist()
    for first, after in [*zip(firsts, [*firsts[1:], len(ends)], strict=False)][: -most - 1 : -1]:
        part = rows.slice(first, after - first)
        (finish_lsn, xid, committed_at) = (part[name][0].as_py() for name in ROW_SCHEMA.names[:3])
        names = tuple(sorted(name for name in part["relation"].unique().to_pylist() if name is not None))
        size = pc.sum(pc.binary_length(part["message"])).as_py()
        yield JournalTransaction(LSN(finish_lsn), xid, EntryKind.TRANSACTIONS, committed_at, len(part), names, size)


def _sent(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that were sent at their place, without the relation messages from before."""
    return batch.filter(pc.greater(batch["lsn"], 0))


def transaction_messages(
    url: str,
    finish_lsn: LSN,
    *,
    part: int = 0,
    row: int = 0,
    most: int,
    show_values: bool,
    longest: int | None = None,
) -> MessagePage:
    """At most ``most`` messages of the transaction that ended at ``finish_lsn``, from ``row`` of
    its segment ``part`` on. Values are cut to ``longest`` bytes. UsageError if there is none.
    """
    reader = JournalReader(open_storage(url))
    with reader.unless_trimmed():
        ranges = reader.plan(LSN(finish_lsn - 1), finish_lsn)
        placed = list(islice(_placed(reader, ranges[part:], row, show_values=show_values, longest=longest), most + 1))
    if not placed and not part and not row:
        raise UsageError(
            f"the journal has no transaction that ends at {format_lsn(finish_lsn)}",
            hint="It may have been applied and trimmed. The list of transactions has those that are left.",
        )
    following = None if len(placed) <= most else (part + placed[most][0], placed[most][1])
    return MessagePage([line for _, _, line in placed[:most]], following)


def _placed(
    reader: JournalReader, ranges: list[SegmentRange], row: int, *, show_values: bool, longest: int | None
) -> Iterator[tuple[int, int, JournalLine]]:
    """The messages with the number of their segment and of their row, from ``row`` on."""
    finish = read_finish(reader.storage, ranges[0]) if ranges else None
    for part, planned in enumerate(ranges):
        relations: dict[int, messages.Relation] = {}
        at = 0
        for batch in read_rows(reader.storage, planned, finish):
            skipped = min(max((row if part == 0 else 0) - at, 0), batch.num_rows)
            described = batch.slice(0, skipped).filter(pc.equal(batch["action"].slice(0, skipped), "R"))
            for _ in _lines(described, relations, show_values=False):
                pass  # it learns the names of the relations
            lines = _lines(batch.slice(skipped), relations, show_values=show_values, longest=longest)
            for place, line in enumerate(lines, at + skipped):
                if line.lsn:  # others are relation messages from before
                    yield part, place, line
            at += batch.num_rows


def segments_of(summary: JournalSummary) -> list[Segment]:
    return [segment for entry in summary.entries for segment in entry.segments]


def _lines(
    batch: pa.RecordBatch, relations: dict[int, messages.Relation], *, show_values: bool, longest: int | None = None
) -> Iterator[JournalLine]:
    for row in _decoded(batch):
        message = decode(row["message"])
        if isinstance(message, messages.Relation):
            relations[message.relation_id] = message
        yield JournalLine(
            LSN(row["finish_lsn"]),
            LSN(row["lsn"]),
            row["xid"],
            row["action"],
            row["relation"],
            describe(message, relations, show_values=show_values, longest=longest),
        )


def _decoded(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for offset in range(0, batch.num_rows, _DECODED):
        yield from batch.slice(offset, _DECODED).to_pylist()


def describe(
    message: messages.Message,
    relations: dict[int, messages.Relation],
    *,
    show_values: bool,
    longest: int | None = None,
) -> str:
    """One message in words, by default without values: output is often kept in logs."""

    def row(relation_id: int, values: tuple[messages.ColumnValue, ...]) -> str:
        return _tuple(relations.get(relation_id), values, show_values=show_values, longest=longest)

    match message:
        case messages.Begin(final_lsn=lsn):
            return f"BEGIN, commits at {format_lsn(lsn)}"
        case messages.Commit(commit_lsn=lsn, end_lsn=end):
            return f"COMMIT at {format_lsn(lsn)}, ends at {format_lsn(end)}"
        case messages.BeginPrepare(gid=gid):
            return f"BEGIN PREPARE '{gid}'"
        case messages.Prepare(gid=gid):
            return f"PREPARE TRANSACTION '{gid}'"
        case messages.CommitPrepared(gid=gid):
            return f"COMMIT PREPARED '{gid}'"
        case messages.RollbackPrepared(gid=gid):
            return f"ROLLBACK PREPARED '{gid}'"
        case messages.Origin(name=name, origin_lsn=lsn):
            return f'ORIGIN "{name}" at {format_lsn(lsn)}'
        case messages.Relation(columns=columns, replica_identity=identity):
            names = ", ".join(f"{column.name}{'*' if column.is_identity else ''}" for column in columns)
            return f"RELATION {message.qualified_name} ({names}), replica identity {identity}"
        case messages.Type(namespace=namespace, name=name, type_oid=oid):
            return f"TYPE {namespace}.{name} ({oid})"
        case messages.Truncate(relation_ids=ids, cascade=cascade, restart_identity=restart):
            names = ", ".join(_name(relations, relation_id) for relation_id in ids)
            return f"TRUNCATE {names}{' CASCADE' if cascade else ''}{' RESTART IDENTITY' if restart else ''}"
        case messages.LogicalMessage(prefix=prefix, content=content, transactional=transactional):
            kind = "transactional" if transactional else "non-transactional"
            return f'MESSAGE "{prefix}", {kind}, {len(content)} bytes'
        case messages.Insert(relation_id=relation_id, new=new):
            return f"INSERT {row(relation_id, new)}"
        case messages.Update(relation_id=relation_id, old_kind=kind, old=old, new=new):
            before = ""
            if kind is not None and old is not None:
                before = f"{_OLD[kind]} {row(relation_id, old)} "
            return f"UPDATE {before}{row(relation_id, new)}"
        case messages.Delete(relation_id=relation_id, old_kind=kind, old=old):
            return f"DELETE {_OLD[kind]} {row(relation_id, old)}"
        case _:
            return type(message).__name__


_OLD = {"K": "old key", "O": "old row"}


def _name(relations: dict[int, messages.Relation], relation_id: int) -> str:
    relation = relations.get(relation_id)
    return relation.qualified_name if relation else f"relation {relation_id}"


def _tuple(
    relation: messages.Relation | None,
    values: tuple[messages.ColumnValue, ...],
    *,
    show_values: bool,
    longest: int | None,
) -> str:
    names = (
        [column.name for column in relation.columns] if relation else [str(index + 1) for index in range(len(values))]
    )
    cells = [
        f"{name}: {_value(value, show_values=show_values, longest=longest)}"
        for name, value in zip(names, values, strict=False)
    ]
    return f"({', '.join(cells)})"


def _value(value: messages.ColumnValue, *, show_values: bool, longest: int | None) -> str:
    match value:
        case messages.TextValue(data=data):
            shown = data[:longest].decode("utf-8", "replace")
            return f"'{shown}'{_cut(data, longest)}" if show_values else f"{len(data)} bytes"
        case messages.BinaryValue(data=data):
            return f"\\x{data[:longest].hex()}{_cut(data, longest)}" if show_values else f"{len(data)} bytes, binary"
        case _:
            return "null" if value is messages.NULL else "unchanged" if value is messages.UNCHANGED else "?"


def _cut(data: bytes, longest: int | None) -> str:
    return "" if longest is None or len(data) <= longest else f"… ({len(data):,} bytes)"
