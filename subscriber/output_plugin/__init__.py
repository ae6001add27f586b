"""Output plugins: logical decoding in Python, from the records of the WAL to a plugin's output.

::

    records                decoding            reorder_buffer            wrappers          plugin
    wal_records ─────────▶ which records ────▶ transactions, memory, ──▶ callbacks, ─────▶ an OutputPlugin
       ▲                   count               spill_file                error context        │
       │                                         │ replay                   ▲                 │ ctx.out
    publisher                                    └── historic_catalog ──────┘                 ▼
                                                     tables at a position                  writers

It is the publisher's half of logical replication for people who write a plugin and have no server
at hand, and for tests. The model is the manual's chapter "Logical Decoding Output Plugins", and the
names are PostgreSQL's. The modules, in the order in which data passes:

* ``publisher`` is a small database in memory, whose sessions write rows and DDL;
  ``replica_identity`` says which old tuples are logged.
* ``wal_records`` has the records, ``heap_tuples`` the rows in them.
* ``decoding`` reads records (``decode.c``) and owns the session: :class:`LogicalDecoding`.
* ``reorder_buffer`` collects transactions (``reorderbuffer.c``), within the memory of
  ``reorder_settings``; ``replay`` replays one, ``spill_file`` holds it on disk, ``reorder_txn`` has
  the classes that a plugin receives.
* ``historic_catalog`` has the tables, types and publications at a position in the WAL.
* ``callbacks`` is the interface of a plugin, ``callback_registry`` what it has registered,
  ``context`` what it shares with the host, ``wrappers`` the calls. ``load`` finds a plugin by name.
* ``writers`` take the output; ``sql_functions`` returns it as rows, as the SQL functions of a slot
  do, and ``walsender`` sends it to a receiver in this process.
* ``plugins`` has the plugins that PostgreSQL ships.

Invariants:

1. The output depends on the records, the options and the settings only. There is no clock, no
thread and no randomness.
2. A plugin sees a row with the catalogs of the row's position.
3. Memory is bounded by ``logical_decoding_work_mem`` (bounded_memory), except one row, and the
rows of catalogs.
4. After an error nothing more is written.

What joins this package with journals and targets is above it, in :mod:`subscriber.stages` and
:mod:`subscriber.cli`.
"""

from subscriber.output_plugin.callback_registry import OutputPluginOptions
from subscriber.output_plugin.callbacks import OutputPlugin, callbacks_of
from subscriber.output_plugin.context import LogicalDecodingContext, OutputWriter, Slot
from subscriber.output_plugin.decoding import LogicalDecoding, create_slot
from subscriber.output_plugin.heap_tuples import Datum, HeapTuple, heap_tuple
from subscriber.output_plugin.historic_catalog import CatalogChange, HistoricCatalog, Invalidation, Relation
from subscriber.output_plugin.load import load_output_plugin
from subscriber.output_plugin.publisher.publisher import Publisher
from subscriber.output_plugin.publisher.session import Session
from subscriber.output_plugin.publisher.tables import Column
from subscriber.output_plugin.publisher.values import Toasted
from subscriber.output_plugin.reorder_buffer import ReorderBuffer
from subscriber.output_plugin.reorder_settings import ReorderSettings
from subscriber.output_plugin.reorder_txn import Action, ReorderBufferChange, ReorderBufferTXN
from subscriber.output_plugin.sql_functions import BinaryChange, RecordedWal, SlotFunctions, TextChange
from subscriber.output_plugin.writers import CollectingWriter, Output, WalSenderWriter

__all__ = [
    "Action",
    "BinaryChange",
    "CatalogChange",
    "CollectingWriter",
    "Column",
    "Datum",
    "HeapTuple",
    "HistoricCatalog",
    "Invalidation",
    "LogicalDecoding",
    "LogicalDecodingContext",
    "Output",
    "OutputPlugin",
    "OutputPluginOptions",
    "OutputWriter",
    "Publisher",
    "RecordedWal",
    "Relation",
    "ReorderBuffer",
    "ReorderBufferChange",
    "ReorderBufferTXN",
    "ReorderSettings",
    "Session",
    "Slot",
    "SlotFunctions",
    "TextChange",
    "Toasted",
    "WalSenderWriter",
    "callbacks_of",
    "create_slot",
    "heap_tuple",
    "load_output_plugin",
]
