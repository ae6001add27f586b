"""A walsender in this process: it decodes records and sends frames to a receiver.

::

    records ──▶ decoding ──▶ plugin ──▶ frames ──read()──▶ receiver
                   ▲                                          │
                   └── slot.confirmed_flush ◀──send(update)───┘

It has the three methods that :class:`subscriber.receive.contracts.ReplicationStream` requires, so
the project's own receiver reads it as it reads a connection. Nothing waits here: when there is no
more record, the receiver gets a keepalive that requests a reply, and then nothing.

A session that ends loses the transactions in progress. The next session reads the records from the
first one, and sends the transactions that committed after the confirmed position, as a server does
from ``restart_lsn`` (rule E18).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from subscriber.errors import WalRecordError
from subscriber.output_plugin import wal_records as wal
from subscriber.output_plugin.context import PluginOption, Slot
from subscriber.output_plugin.decoding import LogicalDecoding
from subscriber.output_plugin.historic_catalog import HistoricCatalog
from subscriber.output_plugin.reorder_settings import ReorderSettings
from subscriber.output_plugin.writers import WalSenderWriter
from subscriber.protocol.envelope import Keepalive, StandbyStatusUpdate, decode_reply, encode_envelope


class WalSender:
    """One session of START_REPLICATION.

    Args:
        records: the WAL. Records may be added at its end at any time, and none removed.
        plugin: the output plugin.
        slot: the slot; status updates move its ``confirmed_flush``.
        options: the client's options for the plugin.
        start_lsn: the position to start from; 0 for the slot's.
        catalog: the catalogs at the first record.
        settings: the server's settings.
        clock: the time in microseconds since 2000-01-01 UTC.

    Attributes:
        decoding: the session of logical decoding.
        slot: the slot.
        replies: the status updates that the receiver has sent.

    Raises:
        OutputPluginError: a required callback is missing, or the plugin refuses the options.
    """

    def __init__(
        self,
        records: Sequence[wal.WalRecord],
        plugin: object,
        slot: Slot,
        options: Mapping[str, str | None] | Sequence[PluginOption] = (),
        start_lsn: int = 0,
        *,
        catalog: HistoricCatalog | None = None,
        settings: ReorderSettings | None = None,
        clock: Callable[[], int] = lambda: 0,
    ) -> None:
        self.slot = slot
        self.replies: list[StandbyStatusUpdate] = []
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
        """End the session."""
        self.decoding.close()

    @property
    def caught_up(self) -> bool:
        """Whether all records are decoded and all frames have been read."""
        return self._place == len(self._records) and not self._frames and self._announced == self.decoding.read_lsn

    def read(self) -> list[bytes]:
        """The frames of the next record that has any. After the last record they are a keepalive,
        and then nothing.

        A commit gives the frames of its whole transaction. They are in memory together, because a
        plugin writes and does not wait.

        Raises:
            WalRecordError: records were removed, or are not in order.
            SubscriberError: decoding has failed. Nothing of the record is returned.
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
            return [encode_envelope(Keepalive(self._announced, self._clock(), reply_requested=True))]
        frames = self._frames.copy()
        self._frames.clear()
        return frames

    def wait(self, seconds: float, *, more: bool) -> None:
        """Return at once: who writes the records runs in this thread, and cannot be waited for."""

    def send(self, data: bytes) -> None:
        """Take a status update: the slot is confirmed up to what the receiver has flushed (rule
        A35).

        Raises:
            ProtocolError: the data is no message of a receiver.
        """
        reply = decode_reply(data)
        if isinstance(reply, StandbyStatusUpdate):
            self.replies.append(reply)
            self.slot.confirmed_flush = max(self.slot.confirmed_flush, reply.flushed_lsn)
