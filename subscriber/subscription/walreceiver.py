"""The walreceiver's process: ``python -m subscriber.subscription.walreceiver``, started by the supervisor.

::

    supervisor ──stdin: one line of JSON (Assignment), then silence──▶ walreceiver ──▶ journal
               ◀─stdout: events, one line of JSON each──────────────┘

The connection string comes through the pipe, so it is on no command line. The end of stdin is the order to stop: it arrives
also when the supervisor was killed, so no receiver outlives its supervisor.
"""

from __future__ import annotations

import base64
import json
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from subscriber.errors import BinaryFormNotRead, SlotInUse, SubscriberError
from subscriber.journal.storage import open_storage
from subscriber.journal.writer import open_writer
from subscriber.lsn import LSN, format_lsn
from subscriber.receive.connection import ReplicationConnection
from subscriber.receive.publisher import Publisher, connect_publisher
from subscriber.receive.slots import StreamOptions, protocol_version, start_command
from subscriber.receive.walreceiver import WalReceiver
from subscriber.settings import Settings

Tell = Callable[..., None]

_RELEASE_SECONDS: Final = 10.0
"""How long a walsender may take to notice that its connection was closed."""
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one walreceiver is to do; travels as JSON."""

    subscription: str
    conninfo: str
    slot: str
    publications: tuple[str, ...]
    streaming: Literal["off", "on", "parallel"]
    two_phase: bool
    binary: bool
    origin: Literal["any", "none"]
    system_identifier: str
    journal: str
    applied_lsn: int
    messages: bool = False

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Assignment:
        """The inverse of :meth:`to_json`."""
        fields = json.loads(text)
        return cls(**{**fields, "publications": tuple(fields["publications"])})


def receive(assignment: Assignment, settings: Settings, stop: threading.Event, tell: Tell) -> None:
    """Check the publisher, open the journal, stream until ``stop``.

    A subscription with ``binary`` streams in binary until a table comes whose values that form would not tell (types of one's own,
    money, the names of catalogs' objects); then it begins anew where the journal ends, and asks for text. PostgreSQL's
    subscriber has such values in binary, too; what they are is the same.

    Args:
        assignment: what to do.
        settings: timeouts and sizes.
        stop: ends it in order.
        tell: told events (``streaming``, ``warning``) with their fields.

    Raises:
        SubscriberError: see :class:`~subscriber.receive.walreceiver.WalReceiver` and
            :func:`~subscriber.journal.writer.open_writer`.
    """
    with connect_publisher(assignment.conninfo, assignment.subscription) as server:
        publisher = Publisher(server)
        publisher.check_server()
        slot = publisher.check_slot(assignment.slot)
        for missing in publisher.check_publications(assignment.publications):
            tell("warning", message=f'skipped loading publication "{missing}": it does not exist on the publisher')
        system_identifier = publisher.system_identifier()
    options = StreamOptions(
        assignment.publications,
        streaming=assignment.streaming,
        two_phase=assignment.two_phase,
        binary=assignment.binary,
        origin=assignment.origin,
        messages=assignment.messages,
    )
    begin = partial(_stream, assignment, system_identifier, slot.confirmed_flush_lsn, settings, stop, tell)
    try:
        begin(options)
    except BinaryFormNotRead as found:
        tell("warning", message=f"values are received as text, because {found.message}")
        _begin_anew(partial(begin, replace(options, binary=False)), stop)


def _stream(
    assignment: Assignment,
    system_identifier: str,
    confirmed: LSN,
    settings: Settings,
    stop: threading.Event,
    tell: Tell,
    options: StreamOptions,
) -> None:
    """Open the journal and stream from its end."""
    with (
        open_writer(
            open_storage(assignment.journal),
            system_identifier=system_identifier,
            slot=assignment.slot,
            confirmed_lsn=confirmed,
            applied_lsn=LSN(assignment.applied_lsn),
            keep_size=settings.journal_keep_size,
        ) as journal,
        ReplicationConnection(assignment.conninfo, assignment.subscription) as stream,
    ):
        stream.start(start_command(stream.server_version, assignment.slot, journal.durable_lsn, options))
        tell("streaming", start=format_lsn(journal.durable_lsn))
        parallel = assignment.streaming == "parallel" and protocol_version(stream.server_version) >= 4
        receiver = WalReceiver(stream, journal, settings, write_abort_info=parallel, binary=options.binary)
        receiver.run(stop.is_set)


def _begin_anew(begin: Callable[[], None], stop: threading.Event) -> None:
    """Stream again after a connection that was just closed: its walsender may not have noticed yet."""
    deadline = time.monotonic() + _RELEASE_SECONDS
    while True:
        try:
            begin()
        except SlotInUse:
            if time.monotonic() > deadline:
                raise
            if stop.wait(_POLL_SECONDS):
                return
        else:
            return


def main() -> int:
    """Read the assignment, work, report how it ended."""
    # The terminal's Ctrl-C is the supervisor's to handle; it then closes our stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    assignment = Assignment.from_json(sys.stdin.readline())

    def watch() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    try:
        receive(assignment, Settings.from_environment(), stop, _emit)
    except SubscriberError as error:
        _emit("error", error=base64.b64encode(pickle.dumps(error)).decode())
        return 1
    return 0


def _emit(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
