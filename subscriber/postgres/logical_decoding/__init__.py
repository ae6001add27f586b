"""Output plugins: logical decoding in Python, from the records of the WAL to a plugin's output.

::

    records                decoding            reorder_buffer            callbacks         plugin
    wal_records ─────────▶ which records ────▶ transactions, memory, ──▶ callbacks, ─────▶ an OutputPlugin
       ▲                   count               files                     error context        │
       │                                         │ replay                   ▲                 │ ctx.out
    memory_database                              └── historic_catalog ──────┘                 ▼
                                                     tables at a position       sql_functions, walsender

It is the publisher's half of logical replication, for tests and for people who write a plugin
without a server. The output depends on the records, the options and the settings only: there is no
clock and no thread. In the order in which data passes:

* ``memory_database`` is a small publisher in memory, whose sessions write rows and DDL.
* ``wal_records`` has the records, ``heap_tuples`` the rows in them.
* ``decoding`` reads records (``decode.c``) and owns the session: :class:`LogicalDecoding`.
* ``reorder_buffer`` collects transactions, ``replay`` replays one, ``reorder_txn`` has the
  classes that a plugin receives, the settings and the files.
* ``historic_catalog`` has the tables, types and publications at a position in the WAL.
* ``callbacks`` is the interface of a plugin, ``context`` what it shares with the host.
* ``sql_functions`` returns the output as rows, ``walsender`` sends it to a receiver.
* ``plugins`` has the plugins that PostgreSQL ships.
"""

from subscriber.postgres.logical_decoding.callbacks import OutputPlugin, callbacks_of, load_output_plugin
from subscriber.postgres.logical_decoding.context import (
    LogicalDecodingContext,
    OutputPluginOptions,
    OutputWriter,
    ReplicationSlot,
)
from subscriber.postgres.logical_decoding.decoding import LogicalDecoding, create_slot
from subscriber.postgres.logical_decoding.heap_tuples import Datum, HeapTuple, heap_tuple
from subscriber.postgres.logical_decoding.historic_catalog import (
    CatalogChange,
    HistoricCatalog,
    Invalidation,
    RelationData,
)
from subscriber.postgres.logical_decoding.memory_database import MemoryDatabase, Session
from subscriber.postgres.logical_decoding.memory_tables import Column, Toasted
from subscriber.postgres.logical_decoding.reorder_buffer import ReorderBuffer
from subscriber.postgres.logical_decoding.reorder_txn import (
    Action,
    ReorderBufferChange,
    ReorderBufferTXN,
    ReorderSettings,
)
from subscriber.postgres.logical_decoding.sql_functions import (
    BinaryChange,
    CollectingWriter,
    Output,
    RecordedWal,
    SlotFunctions,
    TextChange,
)
from subscriber.postgres.logical_decoding.walsender import WalSenderWriter

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
    "MemoryDatabase",
    "Output",
    "OutputPlugin",
    "OutputPluginOptions",
    "OutputWriter",
    "RecordedWal",
    "RelationData",
    "ReorderBuffer",
    "ReorderBufferChange",
    "ReorderBufferTXN",
    "ReorderSettings",
    "ReplicationSlot",
    "Session",
    "SlotFunctions",
    "TextChange",
    "Toasted",
    "WalSenderWriter",
    "callbacks_of",
    "create_slot",
    "heap_tuple",
    "load_output_plugin",
]
