"""Consumers of a plugin's output: a list in memory, and the frames of a walsender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from subscriber.protocol.envelope import XLogData, encode_envelope


@dataclass(frozen=True, slots=True)
class Output:
    """One piece of output: a row of ``pg_logical_slot_get_binary_changes``."""

    lsn: int
    xid: int
    data: bytes = field(repr=False)
    last_write: bool = True


class CollectingWriter:
    """Collects the output in memory, as the SQL functions do.

    Attributes:
        outputs: the output; its user may clear it.
    """

    def __init__(self) -> None:
        self.outputs: list[Output] = []

    def write(self, lsn: int, xid: int, data: bytes, last_write: bool) -> None:
        """Add one piece."""
        self.outputs.append(Output(lsn, xid, data, last_write))

    def update_progress(self, lsn: int, xid: int, skipped_xact: bool) -> None:
        """Do nothing: the SQL functions have nobody to tell."""

    @property
    def texts(self) -> list[str]:
        """The output as text, for plugins with textual output."""
        return [output.data.decode() for output in self.outputs]


class WalSenderWriter:
    """Sends the output as a walsender does: as XLogData, without a position unless it is the last
    write of its callback (rule A34).

    Args:
        send: takes the payload of a CopyData message.
        clock: the time in microseconds since 2000-01-01 UTC.
    """

    def __init__(self, send: Callable[[bytes], None], clock: Callable[[], int] = lambda: 0) -> None:
        self._send = send
        self._clock = clock

    def write(self, lsn: int, xid: int, data: bytes, last_write: bool) -> None:  # noqa: ARG002 - the frame has no xid
        """Send one piece."""
        position = lsn if last_write else 0
        self._send(encode_envelope(XLogData(position, position, self._clock(), data)))

    def update_progress(self, lsn: int, xid: int, skipped_xact: bool) -> None:
        """Do nothing: keepalives are sent by whoever knows the connection."""
