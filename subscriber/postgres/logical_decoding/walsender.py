"""A walsender in this process: it decodes records and sends frames to a receiver.

::

    records ──▶ decoding ──▶ plugin ──▶ frames ──read()──▶ receiver
                   ▲                                          │
                   └── slot.confirmed_flush ◀──send(update)───┘

It is a :class:`subscriber.stream.receive.walreceiver.ReplicationStream`, so the project's own
receiver reads it as it reads a connection. Nothing waits here: when there is no more record, the
receiver gets a keepalive that requests a reply, and then nothing.

A session that ends loses the transactions in progress. The next session reads the records from the
first one, and sends the transactions that committed after the confirmed position, as a server does
from ``restart_lsn`` (rule E18).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from subscriber.base.errors import WalRecordError
from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.context import PluginOption, ReplicationSlot
from subscriber.postgres.logical_decoding.decoding import LogicalDecoding
from subscriber.postgres.logical_decoding.historic_catalog import HistoricCatalog
from subscriber.postgres.logical_decoding.reorder_txn import ReorderSettings
from subscriber.postgres.protocol import envelope


class WalSenderWriter:
    """Sends XLogData, with a position only in the last write of a callback (rule A34)."""

    def __init__(self, send: Callable[[bytes], None], clock: Callable[[], int] = lambda: 0) -> None:
        self._send = send
        self._clock = clock

    def write(self, lsn: int, xid: int, data: bytes, last_write: bool) -> None:  # noqa: ARG002 - the frame has no xid
        position = lsn if last_write else 0
        self._send(envelope.encode_envelope(envelope.XLogData(position, position, self._clock(), data)))

    def update_progress(self, lsn: int, xid: int, skipped_xact: bool) -> None:
        """Keepalives are sent by whoever knows the connection."""


class WalSender:
    """One session of START_REPLICATION. Its ``replies`` are the status updates of the receiver.

    Records may be added to ``records`` at any time, and none removed. Status updates move the
    ``confirmed_flush`` of ``slot``. ``start_lsn`` is 0 for the slot's position, ``catalog`` the
    catalogs at the first record, and ``clock`` counts microseconds since 2000-01-01 UTC.
    OutputPluginError if a required callback is missing, or the plugin refuses the options.
    """

    def __init__(
        self,
        records: Sequence[wal.WalRecord],
        plugin: object,
        slot: ReplicationSlot,
        options: Mapping[str, str | None] | Sequence[PluginOption] = (),
        start_lsn: int = 0,
        *,
        catalog: HistoricCatalog | None = None,
        settings: ReorderSettings | None = None,
        clock: Callable[[], int] = lambda: 0,
    ) -> None:
        self.slot = slot
        self.replies: list[envelope.StandbyStatusUpdate] = []
        self._records = records
        self._clock = clock
        self._place = 0
        self._frames: list[bytes] = []
        self._announced = 0
        writer = WalSenderWriter(self._frames.append, clock)
        self.decoding = LogicalDecoding(plugin, slot, writer, options, start_lsn, catalog=catalog, settings=settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.decoding.__exit__(kind, error, traceback)

    def close(self) -> None:
        self.decoding.close()

    @property
    def caught_up(self) -> bool:
        return self._place == len(self._records) and not self._frames and self._announced == self.decoding.read_lsn

    def read(self) -> list[bytes]:
        """The frames of the next record that has any. After the last record they are a keepalive,
        and then nothing.

        A commit gives the frames of its whole transaction, in memory together, because a plugin
        does not wait. WalRecordError if records were removed, or are not in order; after any error
        nothing of the record is returned.
        """
        if len(self._records) < self._place:
            raise WalRecordError(
                "records that were decoded have been removed",
                hint="Keep the list as it is, or begin a session with the rest of it and with the catalogs of its first record.",
            )
        while not self._frames and self._place < len(self._records):
            try:
                self.decoding.process(self._records[self._place])
            except BaseException:
                self._frames.clear()
                raise
            self._place += 1  # never past a record that failed: a keepalive would confirm it
        if not self._frames and not self.caught_up:
            self._announced = self.decoding.read_lsn
            return [envelope.encode_envelope(envelope.Keepalive(self._announced, self._clock(), reply_requested=True))]
        frames = self._frames.copy()
        self._frames.clear()
        return frames

    def wait(self, seconds: float, *, more: bool) -> None:
        """Return at once: who writes the records runs in this thread, and cannot be waited for."""

    def send(self, data: bytes) -> None:
        """Confirm the slot up to what the receiver has flushed (rule A35)."""
        reply = envelope.decode_reply(data)
        if isinstance(reply, envelope.StandbyStatusUpdate):
            self.replies.append(reply)
            self.slot.confirmed_flush = max(self.slot.confirmed_flush, reply.flushed_lsn)
