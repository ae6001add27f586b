"""Inspection of journals: lists them, and shows the messages of one (like pg_waldump)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from subscriber.base.lsn import LSN, format_lsn
from subscriber.postgres.protocol import messages
from subscriber.postgres.protocol.decode_message import decode
from subscriber.stream.journal.control import JournalControl, read_control
from subscriber.stream.journal.message_rows import read_finish, read_rows
from subscriber.stream.journal.named_consumers import NamedConsumer, list_named
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.retention import ConsumerPosition, list_consumers
from subscriber.stream.journal.segment import Entry, Segment, journal_entries
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
    for reading in reader.plan(start, end):
        for batch in read_rows(reader.storage, reading, read_finish(reader.storage, reading)):
            yield from _lines(batch, relations, show_values=show_values)


def segments_of(summary: JournalSummary) -> list[Segment]:
    return [segment for entry in summary.entries for segment in entry.segments]


def _lines(
    batch: pa.RecordBatch, relations: dict[int, messages.Relation], *, show_values: bool
) -> Iterator[JournalLine]:
    for row in batch.to_pylist():
        message = decode(row["message"])
        if isinstance(message, messages.Relation):
            relations[message.relation_id] = message
        yield JournalLine(
            LSN(row["finish_lsn"]),
            LSN(row["lsn"]),
            row["xid"],
            row["action"],
            row["relation"],
            describe(message, relations, show_values=show_values),
        )


def describe(message: messages.Message, relations: dict[int, messages.Relation], *, show_values: bool) -> str:
    """One message in words, by default without values: output is often kept in logs."""
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
            return f"INSERT {_tuple(relations.get(relation_id), new, show_values=show_values)}"
        case messages.Update(relation_id=relation_id, old_kind=kind, old=old, new=new):
            before = ""
            if kind is not None and old is not None:
                before = f"{_OLD[kind]} {_tuple(relations.get(relation_id), old, show_values=show_values)} "
            return f"UPDATE {before}{_tuple(relations.get(relation_id), new, show_values=show_values)}"
        case messages.Delete(relation_id=relation_id, old_kind=kind, old=old):
            return f"DELETE {_OLD[kind]} {_tuple(relations.get(relation_id), old, show_values=show_values)}"
        case _:
            return type(message).__name__


_OLD = {"K": "old key", "O": "old row"}


def _name(relations: dict[int, messages.Relation], relation_id: int) -> str:
    relation = relations.get(relation_id)
    return relation.qualified_name if relation else f"relation {relation_id}"


def _tuple(relation: messages.Relation | None, values: tuple[messages.ColumnValue, ...], *, show_values: bool) -> str:
    names = (
        [column.name for column in relation.columns] if relation else [str(index + 1) for index in range(len(values))]
    )
    cells = [f"{name}: {_value(value, show_values=show_values)}" for name, value in zip(names, values, strict=False)]
    return f"({', '.join(cells)})"


def _value(value: messages.ColumnValue, *, show_values: bool) -> str:
    match value:
        case messages.TextValue(data=data):
            return f"'{data.decode('utf-8', 'replace')}'" if show_values else f"{len(data)} bytes"
        case messages.BinaryValue(data=data):
            return f"\\x{data.hex()}" if show_values else f"{len(data)} bytes, binary"
        case _:
            return "null" if value is messages.NULL else "unchanged" if value is messages.UNCHANGED else "?"
