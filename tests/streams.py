"""Scripted replication streams: a receiver's connection, without a publisher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from subscriber.base.errors import PublisherUnavailable
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.envelope import (
    Keepalive,
    StandbyStatusUpdate,
    XLogData,
    decode_reply,
    encode_envelope,
)
from subscriber.stream.journal.storage import LocalStorage
from subscriber.stream.journal.writer import JournalWriter, open_writer
from subscriber.stream.receive.walreceiver import WalReceiver

SYSTEM = "7300000000000000001"
SLOT = "s"


def frame(message: m.Message | bytes, lsn: int = 0) -> bytes:
    """A message in its CopyData envelope."""
    payload = message if isinstance(message, bytes) else encode(message)
    return encode_envelope(XLogData(lsn, lsn, 0, payload))


def keepalive(wal_end: int, *, reply_requested: bool = False) -> bytes:
    return encode_envelope(Keepalive(wal_end, 0, reply_requested))


class ScriptedStream:
    """Returns frames in order, and keeps what is sent. None in the script means that nothing has
    arrived yet.
    """

    def __init__(self, script: Iterable[bytes | m.Message | None]) -> None:
        self._script = [item if item is None or isinstance(item, bytes) else frame(item) for item in script]
        self.replies: list[StandbyStatusUpdate] = []
        self.ended = False

    def read(self) -> list[bytes]:
        if not self._script:
            self.ended = True
            return []
        item = self._script.pop(0)
        return [] if item is None else [item]

    def wait(self, seconds: float, *, more: bool) -> None:
        pass

    def send(self, data: bytes) -> None:
        reply = decode_reply(data)
        assert isinstance(reply, StandbyStatusUpdate)
        self.replies.append(reply)


class EndingStream(ScriptedStream):
    """A scripted stream that ends as a stopped publisher ends it."""

    def read(self) -> list[bytes]:
        frames = super().read()
        if self.ended:
            raise PublisherUnavailable("data stream from publisher has ended")
        return frames


@contextmanager
def journal_at(folder: Path, *, confirmed: int = 0, applied: int = 0x100) -> Iterator[JournalWriter]:
    with open_writer(
        LocalStorage(folder),
        system_identifier=SYSTEM,
        slot=SLOT,
        confirmed_lsn=LSN(confirmed),
        applied_lsn=LSN(applied),
    ) as journal:
        yield journal


def receive(
    folder: Path,
    script: Iterable[bytes | m.Message | None],
    settings: Settings | None = None,
    *,
    clock: Callable[[], float] = lambda: 0.0,
    **options: bool,
) -> ScriptedStream:
    """Run a receiver with a script into the journal at ``folder``. Returns the stream, which has
    the replies.
    """
    stream = ScriptedStream(script)
    with journal_at(folder) as journal:
        receiver = WalReceiver(stream, journal, settings or Settings(journal=str(folder)), clock=clock, **options)
        receiver.run(lambda: stream.ended)
    return stream
