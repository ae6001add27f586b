"""Feeds a journal to an output plugin: from the messages of pgoutput back to records of the WAL.

::

    journal ──messages──▶ ReplayedWal ──records, in commit order──▶ LogicalDecoding ──▶ any plugin

pgoutput sends less than a plugin sees on the server. What it has left out is not made up here
(:attr:`ReplayedWal.missing` tells it):

=====================================  ==============================================================
what                                   what the plugin gets
=====================================  ==============================================================
what no publication publishes          nothing: rows, columns, operations, whole transactions
old values outside of the key          NULL in the old tuple, as on the server
an unchanged value out of line         ``UNCHANGED``, as on the server
subtransactions                        the changes of the top-level transaction, in their order
positions of descriptions, of begin    that of the transaction's first change
a message outside of a transaction     transaction 0, as on the server without one
a user-defined type's name             that of its base type; a domain over a built-in type is ``???``
a type that was described earlier      ``???``, as ``format_type`` prints
the version of the server              18, unless the caller knows better
dropped columns, partitions' parents   none
=====================================  ==============================================================

A description holds for whatever follows it in the journal, whether or not its transaction commits,
so it is a change of the catalogs outside of transactions. The journal is read from its beginning:
prepared transactions and the names of types must be known.

*Rejected: calling the callbacks directly.* It would be shorter, but the host's rules (E2, E6,
E14-E18) would be written a second time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from subscriber.base.errors import SubscriberError, UsageError
from subscriber.base.files import replace_file
from subscriber.base.lsn import INVALID_LSN, format_lsn, parse_lsn
from subscriber.postgres.logical_decoding import historic_catalog
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.context import ReplicationSlot
from subscriber.postgres.logical_decoding.heap_tuples import ColumnDatum, Datum, HeapTuple, heap_tuple
from subscriber.postgres.logical_decoding.sql_functions import RecordedWal
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.schema.publisher_tables import Identity, PublisherColumn, PublisherTable
from subscriber.postgres.types.arrays import output_text
from subscriber.postgres.types.registry import decode_column
from subscriber.stream.journal.control import JournalControl
from subscriber.stream.journal.message_rows import read_messages
from subscriber.stream.journal.reader import JournalReader

UNKNOWN: Final = "???"
"""The name of a type that is not known, as ``format_type`` prints it."""

_IDENTITIES: Final[dict[str, Identity]] = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
_SYSTEM_SCHEMA: Final = "pg_catalog"


class ReplayedCatalog:
    """The catalogs after the messages so far; ``missing`` takes what these do not tell."""

    def __init__(self, catalog: historic_catalog.HistoricCatalog, missing: list[str]) -> None:
        self._catalog = catalog
        self._missing = missing
        self._types: dict[int, m.Type] = {}
        self._described: dict[int, m.Relation] = {}
        self._oids: dict[tuple[str, str], int] = {}
        self._arrays: dict[tuple[str, str], int] = {}
        self._change = historic_catalog.CatalogChange()

    def describe(self, message: m.Relation | m.Type) -> None:
        if isinstance(message, m.Type):
            if self._types.get(message.type_oid) != message:
                self._types[message.type_oid] = message
                self._add(historic_catalog.CatalogChange(types=(*self._type_lines(message),)))
        elif self._described.get(message.relation_id) != message:
            self._add(self._relation(message))

    def take_change(self) -> historic_catalog.CatalogChange | None:
        change, self._change = self._change, historic_catalog.CatalogChange()
        return None if change == historic_catalog.CatalogChange() else change

    def row(self, relation_id: int, values: m.TupleData) -> HeapTuple:
        """A row of a described relation; NotSupportedError for an unknown binary format."""
        columns = self._described[relation_id].columns
        return heap_tuple(
            (self._value(relation_id, number, value) for number, value in enumerate(values)),
            [column.type_oid for column in columns],
        )

    def _value(self, relation_id: int, number: int, value: m.ColumnValue) -> ColumnDatum:
        if isinstance(value, m.Absence):
            return value
        if isinstance(value, m.TextValue):
            return Datum(value.data)
        relation = self._described[relation_id]
        column = relation.columns[number]
        try:
            array = decode_column(column.type_oid, pa.array([value.data], pa.binary()), binary=True, column=number + 1)
        except SubscriberError as error:
            raise error.replace(relation=relation.qualified_name, column=column.name) from error.__cause__
        text = output_text(array[0])
        assert text is not None
        return Datum(text.encode(), value.data)

    # Changes of catalogs --------------------------------------------------------------------------

    def _add(self, change: historic_catalog.CatalogChange) -> None:
        self._catalog = self._catalog.apply(change)
        before = self._change
        gone = {relation.oid for relation in change.relations}.union(change.dropped_relations)
        kept = tuple(relation for relation in before.relations if relation.oid not in gone)
        self._change = historic_catalog.CatalogChange(
            relations=(*kept, *change.relations),
            dropped_relations=(*before.dropped_relations, *change.dropped_relations),
            types=(*before.types, *change.types),
        )

    def _type_lines(self, message: m.Type) -> Iterator[str]:
        """A type as lines of :attr:`PublisherTables.own_objects`.

        The name is that of the base type. If that is built in, the type is a domain whose own name
        was not sent. PostgreSQL names an array type by its elements' type and an underscore, and
        prints it as that type with brackets. The elements' type may be sent later, or never.
        """
        oid = message.type_oid
        if message.namespace in ("", _SYSTEM_SCHEMA):
            base = next(
                (
                    one
                    for one in historic_catalog.types_in(self._catalog.tables).catalog.types.values()
                    if (one.schema, one.name) == (_SYSTEM_SCHEMA, message.name)
                ),
                None,
            )
            self._missing.append(f'type {oid} is a domain over "{message.name}", and its name was not sent')
            yield _line(oid, _SYSTEM_SCHEMA, UNKNOWN, "d" if base else "b", base.oid if base else 0)
            return
        self._missing.append(
            f'type {oid} is called "{message.namespace}.{message.name}", which is the name of its base type if it is a domain'
        )
        element = (message.namespace, message.name.removeprefix("_"))
        if message.name.startswith("_"):
            known = (one.type_oid for one in self._types.values() if (one.namespace, one.name) == element)
            element_oid = next(known, 0)
            if not element_oid:
                self._arrays[element] = oid
                element_oid = -oid
                yield _line(element_oid, *element, "b", 0)
            yield _line(oid, message.namespace, message.name, "b", 0, element_oid)
            return
        array = self._arrays.pop(element, 0)
        if array:
            yield _line(-array, _SYSTEM_SCHEMA, UNKNOWN, "b", 0)
            yield _line(array, message.namespace, f"_{message.name}", "b", 0, oid)
        yield _line(oid, message.namespace, message.name, "b", 0)

    def _relation(self, message: m.Relation) -> historic_catalog.CatalogChange:
        known = historic_catalog.types_in(self._catalog.tables).catalog.types
        unknown = {column.type_oid: column.name for column in message.columns if column.type_oid not in known}
        if unknown:
            self._add(
                historic_catalog.CatalogChange(
                    types=tuple(_line(oid, _SYSTEM_SCHEMA, UNKNOWN, "b", 0) for oid in unknown)
                )
            )
            self._missing += [
                f'the name of type {oid}, which column "{name}" of "{message.qualified_name}" has, was sent before the '
                "journal begins"
                for oid, name in unknown.items()
            ]
        self._described[message.relation_id] = message
        replaced = self._oids.get((message.namespace, message.name), message.relation_id)
        self._oids[message.namespace, message.name] = message.relation_id
        dropped = () if replaced == message.relation_id else (replaced,)
        return historic_catalog.CatalogChange(
            relations=(historic_catalog.RelationData(self._table(message)),), dropped_relations=dropped
        )

    def _table(self, message: m.Relation) -> PublisherTable:
        types = historic_catalog.types_in(self._catalog.tables)
        columns = tuple(
            PublisherColumn(
                column.name,
                number,
                column.type_oid,
                column.type_modifier,
                types.name_with_modifier(column.type_oid, column.type_modifier),
            )
            for number, column in enumerate(message.columns, start=1)
        )
        return PublisherTable(
            message.relation_id,
            message.namespace,
            message.name,
            "table",
            columns,
            _IDENTITIES[message.replica_identity],
            tuple(column.name for column in message.columns if column.is_identity),
        )


def _line(oid: int, schema: str, name: str, kind: str, base: int, element: int = 0) -> str:
    return historic_catalog.type_line(oid, schema, name, kind, "A" if element else "U", element=element, base=base)


_LATEST: Final = 180000


class ReplayedWal:
    """The records of a journal. ``publications`` are names for the plugin pgoutput: each publishes
    everything, because the journal has only what was published. ``missing`` has sentences about
    what pgoutput has not sent, and is filled while the records are read.
    """

    def __init__(
        self, journal: JournalReader, publications: Sequence[str] = (), *, server_version: int = _LATEST
    ) -> None:
        self._journal = journal
        empty = historic_catalog.HistoricCatalog()
        self._catalog = historic_catalog.HistoricCatalog(
            replace(empty.tables, server_version=server_version),
            publications={name: Publication(name, all_tables=True) for name in publications},
        )
        self.missing: list[str] = []

    @property
    def recorded(self) -> RecordedWal:
        return RecordedWal(self.records, self._catalog, commit_order=True)

    def records(self) -> Iterator[wal.WalRecord]:
        """The records from the beginning of the journal to its end. NotSupportedError tells that a
        value in binary format cannot be turned into text.
        """
        self.missing.clear()
        converter = _Converter(ReplayedCatalog(self._catalog, self.missing), self.missing)
        begin = self._journal.control().begin
        for reading in self._journal.plan(begin, self._journal.latest(begin), two_phase=True):
            for batch in read_messages(self._journal.storage, reading):
                lsns, frames = batch.column("lsn").to_pylist(), batch.column("message").to_pylist()
                for lsn, frame in zip(lsns, frames, strict=True):
                    yield from converter.take(lsn, decode(frame))


class _Converter:
    """Makes records of messages. The first ones of a transaction wait for one with a position."""

    def __init__(self, catalog: ReplayedCatalog, missing: list[str]) -> None:
        self._catalog = catalog
        self._missing = missing
        self._waiting: list[m.Message] = []
        self._begin: m.Begin | m.BeginPrepare | None = None
        self._lsn = 0
        self._is_empty = True
        self._origin: m.Origin | None = None
        self._origins: dict[str, int] = {}
        self._prepared: set[int] = set()

    def take(self, lsn: int, message: m.Message) -> Iterator[wal.WalRecord]:
        """The records that are known after one more message."""
        match message:
            case m.Relation() | m.Type() if self._begin is None:
                self._catalog.describe(message)  # the next transaction takes it
            case m.LogicalMessage(transactional=False):
                yield _message(message, 0)
            case m.CommitPrepared() | m.RollbackPrepared():
                yield from self._finish_prepared(message)
            case m.Begin() | m.BeginPrepare():
                self._begin, self._lsn, self._origin, self._is_empty = message, lsn, None, True
                if lsn:
                    yield from self._begun()
            case m.Commit() | m.Prepare():
                if not self._lsn:
                    self._lsn = message.commit_lsn if isinstance(message, m.Commit) else message.prepare_lsn
                    yield from self._begun()
                if self._is_empty:
                    # It was not empty at the publisher, so that its begin and its end were sent.
                    nothing = historic_catalog.CatalogChange()
                    yield wal.SchemaChangeRecord(lsn=self._lsn, end_lsn=self._lsn, xid=self._xid, change=nothing)
                yield self._end(message)
                self._begin = None
            case m.Origin() if self._lsn:
                yield from self._change(self._lsn, message)
            case _ if lsn and not self._lsn:
                self._lsn = lsn
                yield from self._begun()
                yield from self._change(lsn, message)
            case _ if not self._lsn:
                self._waiting.append(message)
            case _:
                self._lsn = max(self._lsn, lsn)
                yield from self._change(self._lsn, message)

    @property
    def _xid(self) -> int:
        assert self._begin is not None
        return self._begin.xid

    @property
    def _origin_id(self) -> int:
        return 0 if self._origin is None else self._origins[self._origin.name]

    def _named(self, lsn: int, name: str) -> Iterator[wal.WalRecord]:
        """Give an origin a number. The number at the publisher is not sent."""
        if name not in self._origins:
            self._origins[name] = len(self._origins) + 1
            yield wal.OriginChangeRecord(lsn=lsn, end_lsn=lsn, number=self._origins[name], name=name)

    def _begun(self) -> Iterator[wal.WalRecord]:
        yield wal.BeginRecord(lsn=self._lsn, end_lsn=self._lsn, xid=self._xid)
        yield from self._catalog_change(self._lsn)
        for message in self._waiting:
            yield from self._change(self._lsn, message)
        self._waiting.clear()

    def _catalog_change(self, lsn: int) -> Iterator[wal.WalRecord]:
        change = self._catalog.take_change()
        if change is not None:
            yield wal.SchemaChangeRecord(lsn=lsn, end_lsn=lsn, xid=0, change=change)

    def _change(self, lsn: int, message: m.Message) -> Iterator[wal.WalRecord]:
        xid, origin_id, catalog = self._xid, self._origin_id, self._catalog
        self._is_empty = self._is_empty and isinstance(message, m.Relation | m.Type | m.Origin)
        match message:
            case m.Relation() | m.Type():
                catalog.describe(message)
                yield from self._catalog_change(lsn)
            case m.Origin():
                self._origin = message
                yield from self._named(lsn, message.name)
            case m.Insert(oid, new):
                row = catalog.row(oid, new)
                yield wal.InsertRecord(lsn=lsn, end_lsn=lsn, xid=xid, origin_id=origin_id, relation_oid=oid, new=row)
            case m.Update(oid, _, old, new):
                rows: dict[str, Any] = {
                    "old": None if old is None else catalog.row(oid, old),
                    "new": catalog.row(oid, new),
                }
                yield wal.UpdateRecord(lsn=lsn, end_lsn=lsn, xid=xid, origin_id=origin_id, relation_oid=oid, **rows)
            case m.Delete(oid, _, old):
                row = catalog.row(oid, old)
                yield wal.DeleteRecord(lsn=lsn, end_lsn=lsn, xid=xid, origin_id=origin_id, relation_oid=oid, old=row)
            case m.Truncate(oids, cascade, restart):
                flags = {"cascade": cascade, "restart_seqs": restart}
                yield wal.TruncateRecord(
                    lsn=lsn, end_lsn=lsn, xid=xid, origin_id=origin_id, relation_oids=oids, **flags
                )
            case m.LogicalMessage():
                yield _message(message, xid, origin_id)
            case _:
                raise AssertionError(f"a journal does not contain {type(message).__name__}")

    def _end(self, message: m.Commit | m.Prepare) -> wal.CommitRecord | wal.PrepareRecord:
        origin_lsn = 0 if self._origin is None else self._origin.origin_lsn
        origin: dict[str, Any] = {"origin_id": self._origin_id, "origin_lsn": origin_lsn}
        if isinstance(message, m.Commit):
            return wal.CommitRecord(
                lsn=message.commit_lsn,
                end_lsn=message.end_lsn,
                xid=self._xid,
                timestamp=message.commit_timestamp,
                **origin,
            )
        self._prepared.add(message.xid)
        return wal.PrepareRecord(
            lsn=message.prepare_lsn, end_lsn=message.end_lsn, xid=message.xid, timestamp=message.prepare_timestamp,
            gid=message.gid, **origin,
        )  # fmt: skip

    def _finish_prepared(self, message: m.CommitPrepared | m.RollbackPrepared) -> Iterator[wal.WalRecord]:
        xid, gid = message.xid, message.gid
        if xid not in self._prepared:
            self._missing.append(
                f'transaction {xid} was prepared as "{gid}" before the journal begins: its changes are missing, and its '
                f"end at {format_lsn(message.end_lsn)} is left out"
            )
            return
        self._prepared.remove(xid)
        if isinstance(message, m.CommitPrepared):
            yield wal.CommitPreparedRecord(
                lsn=message.commit_lsn, end_lsn=message.end_lsn, xid=xid, timestamp=message.commit_timestamp, gid=gid
            )
        else:
            # The start of the record is not sent; it is only used in the context of errors.
            yield wal.RollbackPreparedRecord(
                lsn=message.end_lsn, end_lsn=message.end_lsn, xid=xid, timestamp=message.rollback_timestamp, gid=gid
            )


def _message(message: m.LogicalMessage, xid: int, origin_id: int = 0) -> wal.LogicalMessageRecord:
    """The record of a message, of which only the end is sent."""
    lsn = message.lsn or INVALID_LSN + 1
    return wal.LogicalMessageRecord(
        lsn=lsn, end_lsn=lsn, xid=xid, origin_id=origin_id, transactional=message.transactional,
        prefix=message.prefix, content=message.content,
    )  # fmt: skip


# A slot in a file, for the next time. A journal keeps nothing for it: what the journal's consumers
# have passed is removed, and decoding from a position before that is an error.

_FORMAT: Final = 1


def read_slot(file: Path | None, control: JournalControl, plugin: str) -> ReplicationSlot:
    """The slot of a journal and a plugin; a new one if there is no file. ``file`` is None for a
    slot that nothing keeps.

    Raises:
        UsageError: 55000, the file is for another plugin or another journal; 22023, it is no such
            file, or cannot be read.
    """
    slot = ReplicationSlot(control.slot, plugin, two_phase=True)
    if file is None or not file.exists():
        return slot
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        known = fields["format"] == _FORMAT
        slot.confirmed_flush = parse_lsn(fields["confirmed_flush"])
        theirs = fields["system_identifier"], fields["slot"], fields["plugin"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, UsageError):
        known = False
    if not known:
        raise UsageError(
            f'"{file}" is not a file of a slot',
            hint="Name a file that `subscriber decode --slot` has written, or a new one.",
        )
    if theirs != (control.system_identifier, control.slot, plugin):
        raise UsageError(
            f'"{file}" belongs to plugin "{theirs[2]}" and the journal of slot "{theirs[1]}" of system {theirs[0]}, '
            f'not to plugin "{plugin}" and slot "{control.slot}" of system {control.system_identifier}',
            sqlstate="55000",
            hint="Use a file for each journal and plugin.",
        )
    return slot


def write_slot(file: Path, control: JournalControl, slot: ReplicationSlot) -> None:
    """Store a slot; the file is replaced as a whole, or UsageError 22023 is raised."""
    fields = {
        "format": _FORMAT,
        "system_identifier": control.system_identifier,
        "slot": control.slot,
        "plugin": slot.plugin,
        "confirmed_flush": format_lsn(slot.confirmed_flush),
    }
    try:
        replace_file(file, f"{json.dumps(fields, indent=1)}\n".encode(), mode=0o666)
    except OSError as error:
        raise UsageError(
            f'could not write file "{file}": {error.strerror}', hint="Name a file in a folder that you may write."
        ) from error
