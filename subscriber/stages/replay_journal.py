"""Feeds a journal to an output plugin: from the messages of pgoutput back to records of the WAL.

::

    journal ──messages──▶ ReplayedWal ──records, in commit order──▶ LogicalDecoding ──▶ any plugin

pgoutput sends less than a plugin sees on the server. What it has left out is not made up here:

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
a type that was described earlier      ``???``
the version of the server              18, unless the caller knows better
dropped columns, partitions' parents   none
=====================================  ==============================================================

``???`` is what ``format_type`` prints for a type that it does not find. :attr:`ReplayedWal.missing`
tells such things, each once.

A description holds for whatever follows it in the journal, whether or not its transaction commits.
So it is a change of the catalogs outside of transactions.

The journal is read from its beginning, whatever the slot has confirmed, so that the changes of a
prepared transaction and the names of types are known. It is in the order of the commits, and no
transaction is in progress when another begins, except prepared ones.

*Rejected: calling the callbacks directly.* It would be shorter, but the host's rules (E2, E6,
E14-E18) would be written a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from subscriber.journal.message_rows import read_messages
from subscriber.journal.reader import JournalReader
from subscriber.lsn import INVALID_LSN, format_lsn
from subscriber.output_plugin import wal_records as wal
from subscriber.output_plugin.historic_catalog import CatalogChange, HistoricCatalog
from subscriber.output_plugin.sql_functions import RecordedWal
from subscriber.protocol import messages as m
from subscriber.protocol.decode import decode
from subscriber.publication.definition import Publication
from subscriber.stages.replayed_catalog import ReplayedCatalog

_LATEST: Final = 180000


class ReplayedWal:
    """The records of a journal.

    Args:
        journal: the journal.
        publications: names of publications for the plugin pgoutput. Each publishes everything,
            because the journal has only what was published.
        server_version: the version of the publisher's server, which the journal does not know.

    Attributes:
        missing: sentences about what pgoutput has not sent, in the order in which it was missed.
            It is filled while the records are read.
    """

    def __init__(
        self, journal: JournalReader, publications: Sequence[str] = (), *, server_version: int = _LATEST
    ) -> None:
        self._journal = journal
        empty = HistoricCatalog()
        self._catalog = HistoricCatalog(
            replace(empty.tables, server_version=server_version),
            publications={name: Publication(name, all_tables=True) for name in publications},
        )
        self.missing: list[str] = []

    @property
    def recorded(self) -> RecordedWal:
        """The records, for the functions of a slot."""
        return RecordedWal(self.records, self._catalog, commit_order=True)

    def records(self) -> Iterator[wal.WalRecord]:
        """The records, from the beginning of the journal to its end.

        Raises:
            JournalError: the journal cannot be read.
            NotSupportedError: a value in the binary format cannot be turned into text.
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
    """Makes records of messages.

    The first messages of a transaction have no position, so they wait for one that has.

    Args:
        catalog: makes the changes of catalogs.
        missing: takes sentences about what is missing.
    """

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
                    nothing = CatalogChange()
                    yield wal.SchemaChange(lsn=self._lsn, end_lsn=self._lsn, xid=self._xid, change=nothing)
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
            yield wal.OriginChange(lsn=lsn, end_lsn=lsn, number=self._origins[name], name=name)

    def _begun(self) -> Iterator[wal.WalRecord]:
        yield wal.Begin(lsn=self._lsn, end_lsn=self._lsn, xid=self._xid)
        yield from self._catalog_change(self._lsn)
        for message in self._waiting:
            yield from self._change(self._lsn, message)
        self._waiting.clear()

    def _catalog_change(self, lsn: int) -> Iterator[wal.WalRecord]:
        change = self._catalog.take_change()
        if change is not None:
            yield wal.SchemaChange(lsn=lsn, end_lsn=lsn, xid=0, change=change)

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
                yield wal.Insert(lsn=lsn, end_lsn=lsn, xid=xid, origin_id=origin_id, relation_oid=oid, new=row)
            case m.Update(oid, _, old, new):
                rows: dict[str, Any] = {
                    "old": None if old is None else catalog.row(oid, old),
                    "new": catalog.row(oid, new),
                }
                yield wal.Update(lsn=lsn, end_lsn=lsn, xid=xid, origin_id=origin_id, relation_oid=oid, **rows)
            case m.Delete(oid, _, old):
                row = catalog.row(oid, old)
                yield wal.Delete(lsn=lsn, end_lsn=lsn, xid=xid, origin_id=origin_id, relation_oid=oid, old=row)
            case m.Truncate(oids, cascade, restart):
                flags = {"cascade": cascade, "restart_seqs": restart}
                yield wal.Truncate(lsn=lsn, end_lsn=lsn, xid=xid, origin_id=origin_id, relation_oids=oids, **flags)
            case m.LogicalMessage():
                yield _message(message, xid, origin_id)
            case _:
                raise AssertionError(f"a journal does not contain {type(message).__name__}")

    def _end(self, message: m.Commit | m.Prepare) -> wal.Commit | wal.Prepare:
        origin_lsn = 0 if self._origin is None else self._origin.origin_lsn
        origin: dict[str, Any] = {"origin_id": self._origin_id, "origin_lsn": origin_lsn}
        if isinstance(message, m.Commit):
            return wal.Commit(
                lsn=message.commit_lsn,
                end_lsn=message.end_lsn,
                xid=self._xid,
                timestamp=message.commit_timestamp,
                **origin,
            )
        self._prepared.add(message.xid)
        return wal.Prepare(
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
            yield wal.CommitPrepared(
                lsn=message.commit_lsn, end_lsn=message.end_lsn, xid=xid, timestamp=message.commit_timestamp, gid=gid
            )
        else:
            # The start of the record is not sent; it is only used in the context of errors.
            yield wal.RollbackPrepared(
                lsn=message.end_lsn, end_lsn=message.end_lsn, xid=xid, timestamp=message.rollback_timestamp, gid=gid
            )


def _message(message: m.LogicalMessage, xid: int, origin_id: int = 0) -> wal.LogicalMessage:
    """The record of a message, of which only the end is sent."""
    lsn = message.lsn or INVALID_LSN + 1
    return wal.LogicalMessage(
        lsn=lsn, end_lsn=lsn, xid=xid, origin_id=origin_id, transactional=message.transactional,
        prefix=message.prefix, content=message.content,
    )  # fmt: skip
