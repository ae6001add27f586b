"""The SQL functions of a logical slot: ``pg_logical_slot_get_changes`` and its three siblings
(``logicalfuncs.c``).

::

    slot = ReplicationSlot("s", "test_decoding")
    functions = SlotFunctions(TestDecoding(), slot, RecordedWal.of(publisher))
    for lsn, xid, data in functions.peek_changes(None, None, "include-xids", "0"):
        print(format_lsn(lsn), xid, data)
    functions.get_changes()

``get`` moves the slot, so that the next call continues after it; ``peek`` does not, nor does a call
that fails. Every call reads the records from the first, as the server reads the WAL from the slot's
``restart_lsn``, and leaves out the transactions that committed before ``confirmed_flush``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from subscriber.base.errors import OutputPluginError, UsageError
from subscriber.postgres.logical_decoding.context import OutputType, PluginOption, ReplicationSlot
from subscriber.postgres.logical_decoding.decoding import LogicalDecoding
from subscriber.postgres.logical_decoding.historic_catalog import HistoricCatalog
from subscriber.postgres.logical_decoding.memory_database import MemoryDatabase
from subscriber.postgres.logical_decoding.reorder_txn import DidAbort, ReorderSettings
from subscriber.postgres.logical_decoding.wal_records import WalRecord


@dataclass(frozen=True, slots=True)
class Output:
    lsn: int
    xid: int
    data: bytes = field(repr=False)
    last_write: bool = True


class CollectingWriter:
    """Collects the output in memory, in a list that its user may clear."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []

    def write(self, lsn: int, xid: int, data: bytes, last_write: bool) -> None:
        self.outputs.append(Output(lsn, xid, data, last_write))

    def update_progress(self, lsn: int, xid: int, skipped_xact: bool) -> None:
        """The SQL functions have nobody to tell."""

    @property
    def texts(self) -> list[str]:
        return [output.data.decode() for output in self.outputs]


@dataclass(frozen=True, slots=True)
class RecordedWal:
    """The records that a slot's functions read.

    ``records`` returns them from the first, and is called once for each call; ``catalog`` has the
    catalogs before the first. ``commit_order``: they are in the order of the commits, as in a
    journal. ``did_abort`` replaces :attr:`ReorderSettings.did_abort`, unless it is None.
    """

    records: Callable[[], Iterable[WalRecord]]
    catalog: HistoricCatalog = field(default_factory=HistoricCatalog, repr=False)
    commit_order: bool = False
    did_abort: DidAbort | None = field(default=None, repr=False)

    @classmethod
    def of(cls, publisher: MemoryDatabase) -> RecordedWal:
        """The records of a publisher in memory, with those that are still to come."""
        return cls(lambda: publisher.records, publisher.first_catalog, did_abort=publisher.did_abort)


class TextChange(NamedTuple):
    lsn: int
    xid: int
    data: str


class BinaryChange(NamedTuple):
    lsn: int
    xid: int
    data: bytes


class SlotFunctions:
    """The SQL functions of one slot.

    Every function takes PostgreSQL's arguments after the slot's name:

    - ``upto_lsn``: reading ends with the record that reaches this position; None or 0 for the end.
    - ``upto_nchanges``: reading ends with the record after which there are so many rows. A whole
      transaction is returned, so there may be more; None or 0 for no limit.
    - ``options``: names and values for the plugin, in turn (rule E11).

    A function for text raises OutputPluginError (0A000) if the plugin writes binary data;
    ``output_type`` is what the plugin has declared in the last call (rule E10).
    """

    def __init__(
        self, plugin: object, slot: ReplicationSlot, wal: RecordedWal, *, settings: ReorderSettings | None = None
    ) -> None:
        self.slot = slot
        self.output_type: OutputType = "binary"
        self._plugin = plugin
        self._wal = wal
        self._settings = settings

    def get_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object
    ) -> list[TextChange]:
        return list(self.iterate_changes(upto_lsn, upto_nchanges, *options, peek=False))

    def peek_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object
    ) -> list[TextChange]:
        return list(self.iterate_changes(upto_lsn, upto_nchanges, *options, peek=True))

    def get_binary_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object
    ) -> list[BinaryChange]:
        return list(self.iterate_binary_changes(upto_lsn, upto_nchanges, *options, peek=False))

    def peek_binary_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object
    ) -> list[BinaryChange]:
        return list(self.iterate_binary_changes(upto_lsn, upto_nchanges, *options, peek=True))

    def iterate_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object, peek: bool
    ) -> Iterator[TextChange]:
        """As the text functions, row by row; the slot moves when all rows have been taken."""
        name = f"pg_logical_slot_{'peek' if peek else 'get'}_changes"
        for lsn, xid, data in self._changes(name, upto_lsn, upto_nchanges, options, peek=peek, binary=False):
            yield TextChange(lsn, xid, data.decode())

    def iterate_binary_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object, peek: bool
    ) -> Iterator[BinaryChange]:
        name = f"pg_logical_slot_{'peek' if peek else 'get'}_binary_changes"
        return self._changes(name, upto_lsn, upto_nchanges, options, peek=peek, binary=True)

    def _changes(
        self,
        name: str,
        upto_lsn: int | None,
        upto_nchanges: int | None,
        options: Sequence[object],
        *,
        peek: bool,
        binary: bool,
    ) -> Iterator[BinaryChange]:
        """``pg_logical_slot_get_changes_guts``"""
        pairs = options_of(options)
        writer = CollectingWriter()
        settings = self._settings or ReorderSettings()
        if self._wal.did_abort is not None:
            settings = replace(settings, did_abort=self._wal.did_abort)
        returned = 0
        with LogicalDecoding(
            self._plugin,
            self.slot,
            writer,
            pairs,
            catalog=self._wal.catalog,
            settings=settings,
            commit_order=self._wal.commit_order,
        ) as decoding:
            self.output_type = decoding.ctx.options.output_type
            if not binary and self.output_type != "textual":
                raise _binary_output(self.slot.plugin, name)
            for record in self._wal.records():
                # In commit order records are missing between this one and the one before.
                if upto_lsn and record.lsn >= upto_lsn:
                    break
                decoding.process(record)
                returned += len(writer.outputs)
                for output in writer.outputs:
                    yield BinaryChange(output.lsn, output.xid, output.data)
                writer.outputs.clear()
                if (upto_lsn and upto_lsn <= decoding.read_lsn) or (upto_nchanges and upto_nchanges <= returned):
                    break
        if not peek:
            self.slot.confirmed_flush = max(self.slot.confirmed_flush, decoding.read_lsn)


def options_of(array: Sequence[object]) -> tuple[PluginOption, ...]:
    """A plugin's options from an array (rule E11); UsageError (0A000) for a malformed one."""
    texts = [one for one in array if isinstance(one, str)]
    if any(isinstance(one, list | tuple) for one in array):
        message = "array must be one-dimensional"
    elif len(texts) < len(array):
        message = "array must not contain nulls"
    elif len(texts) % 2:
        message = "array must have even number of elements"
    else:
        return tuple(zip(texts[::2], texts[1::2], strict=True))
    raise UsageError(message, sqlstate="0A000", hint='Give names and values in turn, such as "include-xids", "0".')


def _binary_output(plugin: str, function: str) -> OutputPluginError:
    binary = function.replace("_changes", "_binary_changes")
    return OutputPluginError(
        f'logical decoding output plugin "{plugin}" produces binary output, but function '
        f'"{function}(name,pg_lsn,integer,text[])" expects textual data',
        sqlstate="0A000",
        hint=f"Use {binary}.",
    )
