"""Records, and plugins that record what is called, for tests of the output plugin host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.context import CALLBACKS, LogicalDecodingContext, ReplicationSlot
from subscriber.postgres.logical_decoding.decoding import LogicalDecoding
from subscriber.postgres.logical_decoding.heap_tuples import Datum, HeapTuple, heap_tuple
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange, HistoricCatalog, RelationData
from subscriber.postgres.logical_decoding.reorder_txn import Action, ReorderBufferTXN, ReorderSettings
from subscriber.postgres.logical_decoding.sql_functions import CollectingWriter
from tests.publications import table

T = RelationData(table("public.t", {"a": "int4"}, key=["a"]))
U = RelationData(table("public.u", {"a": "int4"}, key=["a"], oid=16385))
WIDER = RelationData(table("public.t", {"a": "int4", "b": "text"}, key=["a"]))
CATALOG = HistoricCatalog().apply(CatalogChange(relations=(T, U)))
_R = TypeVar("_R", bound=wal.WalRecord)


def row(*texts: str, external: bool = False) -> HeapTuple:
    return heap_tuple(Datum(text.encode(), external=external) for text in texts)


class Wal:
    """A builder of records: each has 8 bytes, and the first is at 0/64."""

    def __init__(self) -> None:
        self.position = 100
        self.records: list[wal.WalRecord] = []

    def add(self, kind: Callable[..., _R], size: int = 8, **fields: Any) -> _R:
        record = kind(lsn=self.position, end_lsn=self.position + size, **fields)
        self.position += size
        self.records.append(record)
        return record

    def begin(self, xid: int) -> None:
        self.add(wal.BeginRecord, 0, xid=xid)

    def sub(self, top_xid: int, xid: int) -> None:
        self.add(wal.SubtransactionStartRecord, 0, top_xid=top_xid, xid=xid)

    def insert(self, xid: int, text: str, relation: RelationData = T, **fields: Any) -> wal.InsertRecord:
        return self.add(wal.InsertRecord, xid=xid, relation_oid=relation.oid, new=row(text), **fields)

    def commit(self, xid: int, **fields: Any) -> wal.CommitRecord:
        return self.add(wal.CommitRecord, xid=xid, timestamp=1000, **fields)

    def abort(self, xid: int, *subxids: int) -> wal.AbortRecord:
        return self.add(wal.AbortRecord, xid=xid, timestamp=2000, subxids=subxids)

    def abort_sub(self, xid: int, *subxids: int) -> wal.SubtransactionAbortRecord:
        return self.add(wal.SubtransactionAbortRecord, xid=xid, timestamp=2000, subxids=subxids)

    def prepare(self, xid: int, gid: str = "g", **fields: Any) -> wal.PrepareRecord:
        return self.add(wal.PrepareRecord, xid=xid, gid=gid, timestamp=3000, **fields)

    def commit_prepared(self, xid: int, gid: str = "g", **fields: Any) -> wal.CommitPreparedRecord:
        return self.add(wal.CommitPreparedRecord, xid=xid, gid=gid, timestamp=4000, **fields)

    def rollback_prepared(self, xid: int, gid: str = "g", **fields: Any) -> wal.RollbackPreparedRecord:
        return self.add(wal.RollbackPreparedRecord, xid=xid, gid=gid, timestamp=5000, **fields)

    def schema_change(self, xid: int, change: CatalogChange) -> None:
        self.add(wal.SchemaChangeRecord, xid=xid, change=change)


class Recorder:
    """What the callbacks of a plugin were called with.

    Attributes:
        calls: a line for each call: ``change 700 t 1`` is the transaction, the relation, the value.
        locations: the position, the transaction and the name of each call that may write.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.locations: list[tuple[str, int, int]] = []

    def called(self, name: str, ctx: LogicalDecodingContext, *arguments: Any) -> Any:
        if ctx.accept_writes:
            self.locations.append((name, ctx.write_location, ctx.write_xid))
        self.calls.append(" ".join([name, *(_words(one) for one in arguments if _words(one))]))


def _words(argument: Any) -> str:
    match argument:
        case ReorderBufferTXN():
            return str(argument.xid)
        case RelationData():
            return argument.name
        case tuple():
            return ",".join(_words(one) for one in argument)
        case bytes():
            return argument.decode()
        case str():
            return argument
    if getattr(argument, "action", None) in {Action.INSERT, Action.UPDATE}:
        sub = f"@{argument.txn.xid}" if argument.txn.is_subtransaction else ""
        return "/".join(value.text.decode() for value in argument.new_tuple.values if isinstance(value, Datum)) + sub
    return ""


def recording_plugin(without: Any = (), only: Any = CALLBACKS, **overrides: Callable[..., Any]) -> tuple[Any, Recorder]:
    """A plugin with some callbacks, of which each records its calls; the filters answer False."""
    recorder = Recorder()

    def method(name: str) -> Callable[..., Any]:
        def call(_self: object, ctx: LogicalDecodingContext, *arguments: Any) -> Any:
            recorder.called(name, ctx, *arguments)
            return overrides[name](ctx, *arguments) if name in overrides else None

        return call

    names = [name for name in only if name not in set(without)]
    return type("Recording", (), {name: method(name) for name in names})(), recorder


WITHOUT_FILTERS = ("filter_by_origin", "filter_prepare")
PLAIN = ("begin", "change", "commit")


def decode(
    plugin: object,
    wal_: Wal,
    *,
    slot: ReplicationSlot | None = None,
    catalog: HistoricCatalog = CATALOG,
    options: Any = (),
    start_lsn: int = 0,
    **settings: Any,
) -> CollectingWriter:
    """Decode all records of a :class:`Wal`."""
    writer = CollectingWriter()
    decoding = LogicalDecoding(
        plugin,
        slot or ReplicationSlot("s", "recording"),
        writer,
        options,
        start_lsn,
        catalog=catalog,
        settings=ReorderSettings(**settings),
    )
    with decoding:
        for record in wal_.records:
            decoding.process(record)
    return writer


def calls(plugin_and_recorder: tuple[Any, Recorder], wal_: Wal, **arguments: Any) -> list[str]:
    """What was called, without the filters, startup and shutdown."""
    plugin, recorder = plugin_and_recorder
    decode(plugin, wal_, **arguments)
    return [one for one in recorder.calls if one.split()[0] not in {*WITHOUT_FILTERS, "startup", "shutdown"}]
