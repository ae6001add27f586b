"""The process of a walreceiver: ``python -m subscriber.runtime.receiver_process``, started by the
supervisor.

::

    supervisor ──stdin: one line of JSON (Assignment), then "go"──▶ walreceiver ──▶ journal
               ◀─stdout: events, one line of JSON each────────────┘

    walreceiver   which server? check it ─ open journal ─ START_REPLICATION ─ check again ── "ready"─┐ nothing is received
    supervisor    read the catalog again:    is the subscription still the one that was assigned? ────┤ or confirmed until here
    walreceiver   receive, confirm ◀── "go" ───────────────────────────────────────────────────────────┘

While it runs, the process sends a beat once a second, so that the supervisor notices a process that
was stopped (SIGSTOP) or does not get any processor time.

The connection string is sent through the pipe, so it is in no command line. The end of stdin is the
order to stop. It also arrives if the supervisor was killed, so no receiver outlives its supervisor.

Two checks are made twice, because what they check may change before the walsender holds the slot,
and cannot change afterwards:

- The slot. The first check uses a separate connection. Another receiver may have confirmed a
  position between this check and START_REPLICATION.
- The catalog. A command that changes what is streamed (ALTER SUBSCRIPTION … ADD PUBLICATION)
  returns when no receiver that was started before the command holds the slot any more
  (:func:`subscriber.commands.publisher_slots.end_receiver`). The command would miss a receiver that
  is just about to take the slot. Therefore a receiver that holds the slot waits for "go", which the
  supervisor writes after it has read the catalog.

A receiver also waits for "go" after the publisher has said that it skips a publication that does
not exist. The supervisor writes it when the catalog has the record that rows may be missing
(:mod:`subscriber.runtime.publisher_notices`). What comes after this notice is neither stored nor
confirmed before. So the record cannot be lost: after a crash the publisher says it again.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from subscriber.errors import BinaryFormNotRead, HistoryDiverged, SlotInUse, Stopped, SubscriberError
from subscriber.journal.control import read_control
from subscriber.journal.scan import changed_relations
from subscriber.journal.storage import Storage, open_storage
from subscriber.journal.writer import open_writer
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.protocol.notice import Notice
from subscriber.publisher.blockers import standbys_of
from subscriber.publisher.connection import ReplicationConnection
from subscriber.publisher.conninfo import wants_standby
from subscriber.publisher.history import (
    UNKNOWN_TIMELINE,
    Server,
    check_history,
    check_is_primary,
    check_system,
    explain,
    identify,
    naming_server,
)
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.publisher.slots import StreamOptions, start_command
from subscriber.receive.quiet import Quiet
from subscriber.receive.walreceiver import WalReceiver
from subscriber.schema.server_features import ServerFeatures
from subscriber.settings import Settings
from subscriber.signals import set_by_signals
from subscriber.waiting import told_by
from subscriber.without_pandas import use_arrow_without_pandas

Tell = Callable[..., None]

GO: Final = "go\n"
"""What the supervisor writes to a receiver that is ready, to let it receive and confirm."""
_RELEASE_SECONDS: Final = 10.0
"""How long a walsender may take to notice that its connection was closed."""
_POLL_SECONDS: Final = 0.1
BEAT_SECONDS: Final = 1.0
"""The time between two signs of life."""
_ALIVE_SECONDS: Final = 5.0
"""How often a receiver that waits for "go" tells the publisher that it is there."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one walreceiver is to do; it is sent to the process as JSON."""

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
        """Return the assignment as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Assignment:
        """Return the assignment that :meth:`to_json` has written."""
        fields = json.loads(text)
        return cls(**{**fields, "publications": tuple(fields["publications"])})


def receive(
    assignment: Assignment, settings: Settings, stop: threading.Event, tell: Tell, go: threading.Event | None = None
) -> None:
    """Check the publisher, open the journal, and stream until ``stop`` is set.

    A subscription with the option ``binary`` streams in binary format until a table appears whose
    values cannot be read in that form (user-defined types, money, the names of catalogs' objects).
    Then the stream is restarted at the end of the journal, and the values are requested as text.
    PostgreSQL's subscriber receives such values in binary format, too; the values are the same.

    Args:
        assignment: what to do.
        settings: timeouts and sizes.
        stop: ends the stream in order.
        tell: called with events (``ready``, ``streaming``, ``warning``, ``notice``) and their
            fields.
        go: an event that is waited for after ``ready``, and after a ``notice`` that a publication
            is skipped, and then cleared; None if nothing is waited for.

    Raises:
        SubscriberError: see :class:`~subscriber.receive.walreceiver.WalReceiver`,
            :func:`~subscriber.journal.writer.open_writer` and
            :func:`~subscriber.publisher.history.check_history`.
    """
    options = StreamOptions(
        assignment.publications,
        streaming=assignment.streaming,
        two_phase=assignment.two_phase,
        binary=assignment.binary,
        origin=assignment.origin,
        messages=assignment.messages,
    )
    begin = partial(_begin, assignment, settings, stop, tell, go)
    try:
        begin(options)
    except BinaryFormNotRead as unread:
        tell("warning", message=f"values are received as text, because {unread.message}")
        _start_again(partial(begin, replace(options, binary=False)), stop)


def _begin(
    assignment: Assignment,
    settings: Settings,
    stop: threading.Event,
    tell: Tell,
    go: threading.Event | None,
    options: StreamOptions,
) -> None:
    """Find out which server answers, check it, and stream from the journal's end."""
    control = read_control(open_storage(assignment.journal))
    received_on = UNKNOWN_TIMELINE if control is None else control.timeline
    with ReplicationConnection(assignment.conninfo, assignment.subscription) as stream:
        server = identify(stream, received_on=received_on)
        with naming_server(server):
            check_system(server.system_identifier, assignment.system_identifier)
            check_is_primary(server, received_on, wants_standby=wants_standby(assignment.conninfo))
            found = _check_publisher(assignment, stream, server, tell)
            _stream(assignment, stream, found, settings, stop, tell, go, options)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the first check of the publisher has found."""

    server: Server
    confirmed: LSN
    is_synchronous: bool
    is_failover: bool


def _check_publisher(assignment: Assignment, stream: ReplicationConnection, server: Server, tell: Tell) -> _Found:
    """Check that the publisher is ready, over an ordinary connection to the same server."""
    with connect_publisher(stream.same_server, assignment.subscription) as connection:
        publisher = Publisher(connection)
        publisher.check_server()
        slot = publisher.check_slot(assignment.slot)
        for missing in publisher.check_publications(assignment.publications):
            tell("warning", message=f'skipped loading publication "{missing}": it does not exist on the publisher')
        return _Found(
            server,
            slot.confirmed_flush_lsn,
            publisher.may_wait_for_us(),
            publisher.is_failover_slot(assignment.slot),
        )


def _stream(
    assignment: Assignment,
    stream: ReplicationConnection,
    found: _Found,
    settings: Settings,
    stop: threading.Event,
    tell: Tell,
    go: threading.Event | None,
    options: StreamOptions,
) -> None:
    """Open the journal, and stream from its end."""
    storage = open_storage(assignment.journal)
    with open_writer(
        storage,
        system_identifier=assignment.system_identifier,
        slot=assignment.slot,
        confirmed_lsn=found.confirmed,
        applied_lsn=LSN(assignment.applied_lsn),
        keep_size=settings.journal_keep_size,
        segment_bytes=settings.segment_bytes,
        batch_bytes=settings.max_batch_bytes,
    ) as journal:
        try:
            check_history(found.server, journal.durable_lsn, journal.control.timeline)
        except HistoryDiverged as error:
            relations = _changed_relations(storage, LSN(error.diverged_at))
            raise explain(error, relations, trimmed=journal.control.begin, journal=assignment.journal) from None
        stream.start(start_command(stream.server_version, assignment.slot, journal.durable_lsn, options))
        # This process holds the slot now; another receiver can only have confirmed positions
        # before.
        journal.check_confirmed(_confirmed(assignment, stream))
        journal.receive_on(found.server.stays_on)
        if go is not None:
            tell("ready")
            while not go.wait(_POLL_SECONDS):
                if stop.is_set():
                    return
            go.clear()
        tell("streaming", start=format_lsn(journal.durable_lsn), server=stream.server)
        parallel = assignment.streaming == "parallel" and ServerFeatures(stream.server_version).protocol_version >= 4
        receiver = WalReceiver(
            stream,
            journal,
            settings,
            write_abort_info=parallel,
            binary=options.binary,
            may_linger=not found.is_synchronous,
        )
        receiver.on_notice = partial(_hear, assignment.publications, stop, tell, go, receiver.stay_alive)
        ask = partial(_standbys, assignment, stream)
        with (
            contextlib.suppress(Stopped),
            told_by(lambda text: tell("warning", message=text)),
            Quiet("the walsender", ask) as quiet,
        ):

            def ends() -> bool:
                quiet.look(receiver.received)
                return stop.is_set()

            receiver.run(ends if found.is_failover else stop.is_set)


def _standbys(assignment: Assignment, stream: ReplicationConnection) -> list[str]:
    with connect_publisher(stream.same_server, assignment.subscription) as server:
        return standbys_of(server, stream.process_id)


def _hear(
    publications: tuple[str, ...],
    stop: threading.Event,
    tell: Tell,
    go: threading.Event | None,
    stay_alive: Callable[[], None],
    notice: Notice,
    received: LSN,
) -> None:
    """Tell what the publisher has said. If it skips a publication, wait until that is recorded.

    Raises:
        Stopped: the receiver is to end, and what comes after the notice must not be stored.
        PublisherUnavailable: the connection was lost.
    """
    skipped = _named(notice.message, publications) if notice.skips_publication else ()
    lsn = format_lsn(notice.lsn or received)
    tell("notice", severity=notice.severity, report=notice.report(), skipped=skipped, lsn=lsn)
    if not skipped or go is None:
        return
    told = time.monotonic()
    while not go.wait(_POLL_SECONDS):
        if stop.is_set():
            raise Stopped("stopped before it was recorded that a publication is skipped")
        if time.monotonic() >= told + _ALIVE_SECONDS:
            stay_alive()
            told = time.monotonic()
    go.clear()


def _named(message: str, publications: tuple[str, ...]) -> tuple[str, ...]:
    """The publications that a message names, in the quotation marks of any language. If none is
    found, it may be any of them.
    """
    named = (name for name in publications if re.search(f'["„“”«»]{re.escape(name)}["„“”«»]', message))
    return tuple(named) or publications


def _confirmed(assignment: Assignment, stream: ReplicationConnection) -> LSN:
    """Return the confirmed position of the slot; 0/0 if the slot was dropped meanwhile, which the
    stream reports.
    """
    with connect_publisher(stream.same_server, assignment.subscription) as connection:
        slot = Publisher(connection).slot(assignment.slot)
    return INVALID_LSN if slot is None else slot.confirmed_flush_lsn


def _changed_relations(storage: Storage, start: LSN) -> list[str] | None:
    """Return the tables with changes after ``start``; None if the journal cannot be read."""
    try:
        return changed_relations(storage, start)
    except SubscriberError:
        return None


def _start_again(begin: Callable[[], None], stop: threading.Event) -> None:
    """Restart the stream after a connection that was just closed, whose walsender may not have
    noticed that yet.
    """
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
    """Read the assignment, receive until told to stop, and report how that ended.

    Returns:
        The exit code.
    """
    # The supervisor handles the terminal's Ctrl-C; it then closes the stdin of this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop, go = threading.Event(), threading.Event()
    set_by_signals(stop, [signal.SIGTERM])
    use_arrow_without_pandas()
    line = sys.stdin.readline()
    if not line:
        return 0  # the supervisor was killed before it wrote the assignment
    assignment = Assignment.from_json(line)

    def watch() -> None:
        for line in sys.stdin:
            if line == GO:
                go.set()
        stop.set()

    def beat() -> None:
        while not stop.wait(BEAT_SECONDS):
            _emit("beat")

    threading.Thread(target=watch, daemon=True).start()
    threading.Thread(target=beat, daemon=True).start()
    try:
        receive(assignment, Settings.from_environment(), stop, _emit, go)
    except SubscriberError as error:
        _emit("error", error=base64.b64encode(pickle.dumps(error)).decode())
        return 1
    return 0


_EMITTING: Final = threading.Lock()


def _emit(event: str, **fields: Any) -> None:
    try:
        with _EMITTING:
            sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        # The supervisor was killed, so nobody reads the events any more. The end of stdin stops
        # this process in order.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
