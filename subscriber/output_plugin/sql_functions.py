"""The SQL functions of a logical slot: ``pg_logical_slot_get_changes`` and its three siblings
(``logicalfuncs.c``).

::

    slot = SlotFunctions(TestDecoding(), Slot("s", "test_decoding"), RecordedWal.of(publisher))
    for lsn, xid, data in slot.peek_changes(None, None, "include-xids", "0"):
        print(format_lsn(lsn), xid, data)
    slot.get_changes()

``get`` moves the slot, so that the next call continues after it; ``peek`` does not. Every call
reads the records from the first, as the server reads the WAL from the slot's ``restart_lsn``, and
leaves out the transactions that committed before the slot's ``confirmed_flush``. A call that fails
does not move the slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from subscriber.errors import OutputPluginError, UsageError
from subscriber.output_plugin.callback_registry import OutputType
from subscriber.output_plugin.context import PluginOption, Slot
from subscriber.output_plugin.decoding import LogicalDecoding
from subscriber.output_plugin.historic_catalog import HistoricCatalog
from subscriber.output_plugin.publisher.publisher import Publisher
from subscriber.output_plugin.reorder_settings import ReorderSettings
from subscriber.output_plugin.wal_records import WalRecord
from subscriber.output_plugin.writers import CollectingWriter


@dataclass(frozen=True, slots=True)
class RecordedWal:
    """The records that a slot's functions read.

    Attributes:
        records: returns the records, from the first; it is called once for each call.
        catalog: the catalogs before the first record.
        commit_order: whether the records are in the order of the commits, as in a journal.
    """

    records: Callable[[], Iterable[WalRecord]]
    catalog: HistoricCatalog = field(default_factory=HistoricCatalog, repr=False)
    commit_order: bool = False

    @classmethod
    def of(cls, publisher: Publisher) -> RecordedWal:
        """The records of a publisher in memory, with those that are still to come."""
        return cls(lambda: publisher.records, publisher.first_catalog)


class TextChange(NamedTuple):
    """A row of the functions for text."""

    lsn: int
    xid: int
    data: str


class BinaryChange(NamedTuple):
    """A row of the functions for binary data."""

    lsn: int
    xid: int
    data: bytes


class SlotFunctions:
    """The SQL functions of one slot.

    Every function takes PostgreSQL's arguments after the slot's name:

    - ``upto_lsn``: reading ends with the record that reaches this position; None or 0 for the end.
    - ``upto_nchanges``: reading ends with the record after which there are so many rows. A whole
      transaction is returned, so there may be more; None or 0 for no limit.
    - ``options``: names and values for the plugin, in turn.

    and raises:

    - UsageError: 0A000, the options are not a list of names and values (rule E11).
    - OutputPluginError: 0A000, a function for text is used with a plugin that writes binary data
      (rule E10).
    - SubscriberError: the error of decoding, or of the plugin.

    Args:
        plugin: the output plugin.
        slot: the slot, which ``get`` moves.
        wal: the records.
        settings: the server's settings.

    Attributes:
        output_type: what the plugin has declared in the last call (rule E10).
    """

    def __init__(
        self, plugin: object, slot: Slot, wal: RecordedWal, *, settings: ReorderSettings | None = None
    ) -> None:
        self.slot = slot
        self.output_type: OutputType = "binary"
        self._plugin = plugin
        self._wal = wal
        self._settings = settings

    def get_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object
    ) -> list[TextChange]:
        """``pg_logical_slot_get_changes``"""
        return list(self.iterate_changes(upto_lsn, upto_nchanges, *options, peek=False))

    def peek_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object
    ) -> list[TextChange]:
        """``pg_logical_slot_peek_changes``"""
        return list(self.iterate_changes(upto_lsn, upto_nchanges, *options, peek=True))

    def get_binary_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object
    ) -> list[BinaryChange]:
        """``pg_logical_slot_get_binary_changes``"""
        return list(self.iterate_binary_changes(upto_lsn, upto_nchanges, *options, peek=False))

    def peek_binary_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object
    ) -> list[BinaryChange]:
        """``pg_logical_slot_peek_binary_changes``"""
        return list(self.iterate_binary_changes(upto_lsn, upto_nchanges, *options, peek=True))

    def iterate_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object, peek: bool
    ) -> Iterator[TextChange]:
        """As the text functions, but the rows are returned while the WAL is read. The slot moves
        when all rows have been taken.
        """
        name = f"pg_logical_slot_{'peek' if peek else 'get'}_changes"
        for lsn, xid, data in self._changes(name, upto_lsn, upto_nchanges, options, peek=peek, binary=False):
            yield TextChange(lsn, xid, data.decode())

    def iterate_binary_changes(
        self, upto_lsn: int | None = None, upto_nchanges: int | None = None, *options: object, peek: bool
    ) -> Iterator[BinaryChange]:
        """As :meth:`iterate_changes`, for binary data."""
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
        returned = 0
        with LogicalDecoding(
            self._plugin,
            self.slot,
            writer,
            pairs,
            catalog=self._wal.catalog,
            settings=self._settings,
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
    """The options of a plugin from the array of names and values (rule E11).

    Raises:
        UsageError: 0A000, the array has several dimensions, NULL, or an odd number of elements.
    """
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
